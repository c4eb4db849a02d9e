"""Moves a catalog from the stash to persist."""

from hermit.migration.protocol import Direction
from hermit_airflow.dag_factory import build

dag = build(Direction.MIGRATE)

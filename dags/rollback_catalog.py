"""Moves a catalog from persist back to the stash."""

from hermit.migration.protocol import Direction
from hermit_airflow.dag_factory import build

dag = build(Direction.ROLLBACK)

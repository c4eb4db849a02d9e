"""Keeps a catalog quick and proves it sound: consolidate, compact, vacuum, verify."""

from hermit_airflow.maintenance_dags import maintain_catalog

dag = maintain_catalog()

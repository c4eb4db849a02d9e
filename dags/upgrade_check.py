"""Says whether this release could open a running catalog, before it is released there."""

from hermit_airflow.maintenance_dags import upgrade_check

dag = upgrade_check()

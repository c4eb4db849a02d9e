"""How Airflow talks to a catalog: hooks, operators, sensors, triggers and the UI page."""

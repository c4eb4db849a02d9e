"""What one machine needs when nobody configured anything: PostgreSQL, Spark's jars, Airflow's home."""

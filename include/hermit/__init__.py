"""Hermit moves a live, durable catalog from the stash to persist, and back.

This package is the catalog itself: formats, both stores, the durable interface, the protocols of the
move. It imports neither Airflow nor Spark, and nothing heavy at import time.
"""

__version__ = "0.1.0"

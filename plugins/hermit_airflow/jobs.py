"""Where the Spark jobs lie: in `spark_jobs/` of a checkout, or inside this package in an installed wheel."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def path(name: str) -> str:
    """The script to hand to Spark. A checkout's own comes first: there it is what is being edited."""
    places = (_PACKAGE.parents[1] / "spark_jobs", _PACKAGE / "spark_jobs")
    return str(next((place / name for place in places if (place / name).exists()), places[-1] / name))

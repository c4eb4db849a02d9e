"""The reports of a catalog's moves, kept beside the shard: as JSON for programs, as Markdown for people.

A report outlives the Airflow that made it. Dry runs leave none: they change nothing anywhere.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from hermit.migration.report import to_markdown
from hermit.migration.shelf import Shelf


class History:
    """What moved this catalog so far."""

    def __init__(self, location: str) -> None:
        self._shelf = Shelf(location, "reports")

    def write(self, report: dict[str, Any]) -> None:
        """Keep a report. Writing the same run's again replaces it."""
        name = self._find(report["run_id"]) or f"{_digits(report['ended'])}_{_slug(report['run_id'])}"
        self._shelf.put_text(name, to_markdown(report))
        self._shelf.put(name, report)

    def read(self, run_id: str) -> dict[str, Any] | None:
        """The report of a run, or None if it left none that can be read."""
        name = self._find(run_id)
        return None if name is None else self._shelf.get(name)

    def markdown(self, run_id: str) -> str | None:
        """The same, as people read it."""
        name = self._find(run_id)
        return None if name is None else self._shelf.text(name)

    def list(self, limit: int = 50) -> list[dict[str, Any]]:
        """The newest reports, newest first."""
        names = self._shelf.names()[::-1][:limit]
        return [report for report in map(self._shelf.get, names) if report is not None]

    def _find(self, run_id: str) -> str | None:
        ending = f"Z_{_slug(run_id)}"
        return next((name for name in self._shelf.names() if name.endswith(ending)), None)


def _digits(iso_time: str) -> str:
    """A time as a name that sorts."""
    return iso_time.replace("-", "").replace(":", "").replace("+0000", "Z")


def _slug(run_id: str) -> str:
    return quote(run_id, safe="+").replace("%", "~")

"""The reports of a catalog's moves, kept beside the shard: as JSON for programs, as Markdown for people.

A report outlives the Airflow that made it. Dry runs leave none: they change nothing anywhere.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from hermit.migration.beside import Beside
from hermit.migration.report import to_markdown

_DIRECTORY = "reports"


class History:
    """What moved this catalog so far."""

    def __init__(self, location: str) -> None:
        self._files = Beside(location, _DIRECTORY)

    def write(self, report: dict[str, Any]) -> None:
        """Keep a report. Writing the same run's again replaces it."""
        name = self._find(report["run_id"]) or f"{_digits(report['ended'])}_{_slug(report['run_id'])}.json"
        self._files.write(name.removesuffix(".json") + ".md", to_markdown(report))
        self._files.write_json(name, report)

    def read(self, run_id: str) -> dict[str, Any] | None:
        """The report of a run, or None if it left none."""
        name = self._find(run_id)
        return None if name is None else self._files.read_json(name)

    def markdown(self, run_id: str) -> str | None:
        """The same, as people read it."""
        name = self._find(run_id)
        return None if name is None else self._files.read(name.removesuffix(".json") + ".md")

    def list(self, limit: int = 50) -> list[dict[str, Any]]:
        """The newest reports, newest first."""
        names = self._files.names(".json")[::-1][:limit]
        return [report for report in map(self._files.read_json, names) if report is not None]

    def _find(self, run_id: str) -> str | None:
        return next(iter(self._files.names(f"Z_{_slug(run_id)}.json")), None)


def _digits(iso_time: str) -> str:
    """A time as a name that sorts."""
    return iso_time.replace("-", "").replace(":", "").replace("+0000", "Z")


def _slug(run_id: str) -> str:
    return quote(run_id, safe="+").replace("%", "~")

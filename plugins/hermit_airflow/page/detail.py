"""One catalog as the page shows it: its state, what is staged and what holds it, its moves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from hermit.migration import progress
from hermit.migration.protocol import Direction
from hermit_airflow.page import runs
from hermit_airflow.page.catalogs import Catalogs, Sighting, facts
from hermit_airflow.page.names import DAGS
from hermit_airflow.page.staged import batches, forecasts, look

HISTORY_MAX = 50
_STAGED_FRESH_S = 1.5


def detail(catalogs: Catalogs, sighting: Sighting, history: int) -> dict[str, Any]:
    """Everything but the contents, which may take longer."""
    key = ("staged", sighting.organization_id)
    found = catalogs.shared(key, _STAGED_FRESH_S, lambda: look(catalogs, sighting))
    moves = runs.recent(sighting.organization_id, DAGS, min(history, HISTORY_MAX))
    active = [run for run in moves if run["state"] in ("queued", "running")]
    return {
        **facts(sighting),
        "compacted_ms": catalogs.watched(sighting).compacted_ms(),
        "consolidated": _consolidated(moves),
        "staged": batches(sighting, found, active),
        "next": forecasts(sighting, found),
        "half_way": _half_way(sighting, moves, active),
        "active": active,
        "progress": _progress(sighting.location) if active else [],
        "moves": _with_reports(catalogs, sighting, moves, history),
    }


def _half_way(
    sighting: Sighting, moves: Sequence[Mapping[str, Any]], active: Sequence[Mapping[str, Any]]
) -> dict[str, Any] | None:
    """A move that neither runs nor ended well: in which direction to resume it, and how that shows."""
    if any(run["direction"] for run in active):
        return None
    protocol, tombstones = sighting.protocol, sighting.tombstones
    if not protocol.truth(tombstones).reachable:
        return None
    if not protocol.is_settled(tombstones):
        direction = Direction.MIGRATE if tombstones.stash else Direction.ROLLBACK
        return {"direction": direction.value, "why": protocol.truth(tombstones).why}
    last = next((run for run in moves if run["direction"] and not run["dry_run"]), None)
    if last is not None and last["state"] == "failed":
        direction = Direction(last["direction"])
        if not protocol.is_done(direction, tombstones):
            return {"direction": direction.value, "why": f"the last {direction} failed before its cut-over"}
    return None


def _consolidated(moves: Sequence[Mapping[str, Any]]) -> str | None:
    """When the stash was last consolidated: by maintenance, or by a migration before it took its snapshot."""
    ends = [
        task["end"]
        for run in moves
        for task in run["tasks"]
        if task["state"] == "success"
        and (
            task["task"].startswith("consolidate")
            or (run["direction"] == "migrate" and task["task"] == "snapshot")
        )
    ]
    return max((end for end in ends if end), default=None)


def _progress(location: str) -> list[dict[str, Any]]:
    """How far the staging job of a running move is."""
    return [asdict(one) for one in progress.running(location)]


def _with_reports(
    catalogs: Catalogs, sighting: Sighting, moves: Sequence[dict[str, Any]], limit: int
) -> list[dict[str, Any]]:
    """What Airflow knows of its runs, with their outcomes, and the moves that some other Airflow made."""
    reports = {report["run_id"]: report for report in catalogs.reports(sighting, limit)}
    known = [{**run, "outcome": reports.get(run["run_id"], {}).get("outcome")} for run in moves]
    ids = {run["run_id"] for run in moves}
    elsewhere = [_from_report(report) for run_id, report in reports.items() if run_id not in ids]
    return sorted(known + elsewhere, key=_begun, reverse=True)[:limit]


def _begun(run: Mapping[str, Any]) -> datetime:
    moment = run["start"] or run["queued"]
    return datetime.fromisoformat(moment) if moment else datetime.now(UTC)


def _from_report(report: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "dag_id": f"{report['direction']}_catalog",
        "run_id": report["run_id"],
        "state": "success",
        "direction": report["direction"],
        "dry_run": report["dry_run"],
        "protocol": report["protocol"],
        "outcome": report["outcome"],
        "queued": None,
        "start": report["started"],
        "end": report["ended"],
        "by": "another Airflow",
        "tasks": [
            {
                "task": step["step"],
                "state": step["state"],
                "start": step["started"],
                "end": step["ended"],
                "tries": 1,
            }
            for step in report["steps"]
        ],
    }

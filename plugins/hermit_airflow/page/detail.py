"""One catalog as the page shows it: its state, what is staged and what holds it, its moves."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from hermit.durable.contents import MOVED
from hermit.migration.manifest import Manifest, Manifests
from hermit.migration.protocol import Direction, Store
from hermit.persist.batch import list_staged
from hermit.stash import StashClient, bulk
from hermit_airflow.page import runs
from hermit_airflow.page.catalogs import Catalogs, Sighting, facts
from hermit_airflow.page.forecast import Staged, forecast
from hermit_airflow.page.names import DAGS

HISTORY_MAX = 50
_PROGRESS = (
    "batch",
    "direction",
    "rows_done",
    "rows_total",
    "bytes_done",
    "partitions_done",
    "partitions",
    "started",
    "updated",
    "rows_per_second",
    "seconds_left",
)


def detail(catalogs: Catalogs, sighting: Sighting, history: int) -> dict[str, Any]:
    """Everything but the contents, which may take longer."""
    staged = _staged(catalogs, sighting)
    moves = runs.recent(sighting.organization_id, DAGS, min(history, HISTORY_MAX))
    active = [run for run in moves if run["state"] in ("queued", "running")]
    return {
        **facts(sighting),
        "compacted_ms": catalogs.watched(sighting).compacted_ms(),
        "consolidated": _consolidated(moves),
        "staged": _batches(sighting, staged, active),
        "next": {
            direction.value: forecast(
                sighting.protocol, sighting.tombstones, direction, _reusable(sighting, staged, direction)
            )
            for direction in Direction
        },
        "half_way": _half_way(sighting, moves, active),
        "active": active,
        "progress": _progress(sighting.location) if active else [],
        "moves": _with_reports(catalogs, sighting, moves, history),
    }


def _staged(catalogs: Catalogs, sighting: Sighting) -> Staged:
    client = StashClient(sighting.place.stash_url, sighting.organization_id)
    return Staged(
        found=Manifests(sighting.location).all(),
        batches=list_staged(sighting.location),
        side_tables=set(bulk.sides(client)),
        live={file.path for file in catalogs.watched(sighting).state().files(MOVED)},
    )


def _reusable(sighting: Sighting, staged: Staged, direction: Direction) -> Any:
    return staged.reusable(direction, _source_version(sighting, direction))


def _source_version(sighting: Sighting, direction: Direction) -> int:
    if direction.source is Store.STASH:
        return sighting.stash.version
    return sighting.shard.content_version if sighting.shard else 0


def _batches(sighting: Sighting, staged: Staged, active: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Every staged batch, with or without a manifest, and what keeps it from being cleared away."""
    manifests = {manifest.batch: manifest for manifest in staged.found}
    names = sorted({*manifests, *staged.batches, *staged.side_tables})
    reusable = {
        found.batch: direction
        for direction in Direction
        if (found := _reusable(sighting, staged, direction)) is not None
    }
    running = next((run for run in active if run["direction"]), None)
    listed = []
    for name in names:
        manifest = manifests.get(name)
        listed.append(
            {
                "batch": name,
                "kind": "side table" if name in staged.side_tables else "files",
                "direction": manifest.direction.value if manifest else name.partition("_")[0],
                "rows": manifest.rows if manifest else None,
                "bytes": manifest.bytes if manifest else staged.batches.get(name),
                "verified": manifest is not None and manifest.verified_source_version is not None,
                "held_by": _holder(name, manifest, reusable, running),
            }
        )
    return listed


def _holder(
    name: str,
    manifest: Manifest | None,
    reusable: Mapping[str, Direction],
    running: Mapping[str, Any] | None,
) -> str:
    if running is not None and running["direction"] == name.partition("_")[0]:
        return f"the run {running['run_id']}"
    if name in reusable:
        return f"its manifest: the next {reusable[name]} goes on from it"
    if manifest is not None:
        return "its manifest, but the contents it was staged from have changed"
    return "nothing: no manifest names it"


def _half_way(
    sighting: Sighting, moves: Sequence[Mapping[str, Any]], active: Sequence[Mapping[str, Any]]
) -> dict[str, Any] | None:
    """A move that neither runs nor ended well: in which direction to resume it, and how that shows."""
    if active:
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
    try:
        module = importlib.import_module("hermit.migration.progress")
    except ModuleNotFoundError:
        return []
    return [{name: getattr(one, name) for name in _PROGRESS} for one in module.running(location)]


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

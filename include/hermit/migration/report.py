"""The report of a run: what it did, step by step, and where the truth is now. JSON, and Markdown from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from hermit.migration.manifest import Manifest
from hermit.migration.move import Move
from hermit.migration.stores import Stores

WORDS = {None: "absent", True: "true", False: "false"}


@dataclass(frozen=True)
class Ran:
    """What the run's tasks gave: their results, when each worked, and what a human said to the cut-over."""

    results: Mapping[str, Any]
    times: Mapping[str, Mapping[str, str] | None]
    """Per step, in the order of the plan, when it began and ended (ISO 8601); None if it was jumped over."""
    decision: Mapping[str, Any] | None
    approval: Mapping[str, Any] | None = None
    differences: Sequence[Mapping[str, Any]] | None = None
    """Some of the keys in which both sides differ, where `verify` stopped the run."""


def build(stores: Stores, move: Move, ran: Ran, manifest: Manifest | None) -> dict[str, Any]:
    """Put together what the steps of a run returned with what the stores say now."""
    state = stores.state()
    protocol, tombstones, truth = *state, state.truth
    before = ran.results.get("open") or {}
    fencing = ran.results.get("fence_epoch") or {}
    steps = [_step(name, times) for name, times in ran.times.items()]
    worked = [step for step in steps if step["started"]]
    return {
        "run_id": move.run_id,
        "organization_id": str(move.organization_id),
        "direction": move.direction.value,
        "protocol": protocol.name,
        "dry_run": move.dry_run,
        "outcome": _outcome(move, ran),
        "started": worked[0]["started"],
        "ended": worked[-1]["ended"],
        "steps": steps,
        "decision": ran.decision,
        "approval": ran.approval,
        "differences": ran.differences,
        "source_of_truth": truth.store.value,
        "why": truth.why,
        "tombstones": {"stash": tombstones.stash, "persist": tombstones.persist},
        "epochs": {
            store: {"before": (before.get(store) or {}).get("epoch"), "after": _epoch(fencing, store)}
            for store in ("stash", "persist")
        },
        "staged": _staged(manifest),
        "digests": (ran.results.get("verify") or {}).get("digests"),
    }


def _step(name: str, times: Mapping[str, str] | None) -> dict[str, Any]:
    if times is None:
        return {"step": name, "state": "skipped", "started": None, "ended": None, "seconds": None}
    seconds = datetime.fromisoformat(times["ended"]) - datetime.fromisoformat(times["started"])
    return {"step": name, "state": "success", **times, "seconds": round(seconds.total_seconds(), 3)}


def _outcome(move: Move, ran: Ran) -> str:
    if ran.decision and ran.decision["next"] == "nothing_to_do":
        return "nothing to do"
    if ran.differences is not None:
        return "both sides differ"
    if ran.approval and not ran.approval["approved"]:
        return "rejected"
    return "dry run passed" if move.dry_run else "moved"


def _epoch(fencing: Mapping[str, Any], store: str) -> int | None:
    token = fencing.get(store)
    return token["epoch"] if token else None


def _staged(manifest: Manifest | None) -> dict[str, Any] | None:
    if manifest is None:
        return None
    rate = manifest.rows / manifest.seconds if manifest.seconds else None
    return {
        "batch": manifest.batch,
        "rows": manifest.rows,
        "bytes": manifest.bytes,
        "seconds": round(manifest.seconds, 3),
        "rows_per_second": round(rate) if rate else None,
        "digest": str(manifest.digest),
    }


def to_markdown(report: Mapping[str, Any]) -> str:
    """The report as people read it."""
    lines = [
        f"# {report['direction'].capitalize()} of {report['organization_id']}: {report['outcome']}",
        "",
        f"The truth is **{report['source_of_truth']}**: {report['why']}.",
        "",
        "| store | epoch before | epoch now | tombstone |",
        "|---|---|---|---|",
        *(_store_row(report, store) for store in ("stash", "persist")),
    ]
    if report["decision"]:
        lines += ["", f"Decision: `{report['decision']['next']}`, because {report['decision']['reason']}."]
    if report["approval"]:
        lines += ["", _approval_line(report["approval"])]
    if report["staged"]:
        lines += ["", *_staged_lines(report)]
    if report["differences"]:
        lines += ["", "| collection | key | |", "|---|---|---|"]
        lines += [f"| {one['collection']} | `{one['key']}` | {one['how']} |" for one in report["differences"]]
    lines += ["", "| step | seconds |", "|---|---|", *map(_step_row, report["steps"])]
    return "\n".join(lines)


def _store_row(report: Mapping[str, Any], store: str) -> str:
    epochs, tombstone = report["epochs"][store], WORDS[report["tombstones"][store]]
    return f"| {store} | {epochs['before'] or '–'} | {epochs['after'] or '–'} | {tombstone} |"


def _approval_line(approval: Mapping[str, Any]) -> str:
    word = "Approved" if approval["approved"] else "Rejected, so that the truth stayed where it was,"
    return f"{word} by {approval['by']} at {approval['at']}."


def _staged_lines(report: Mapping[str, Any]) -> list[str]:
    staged = report["staged"]
    reused = report["decision"] and report["decision"]["reused"]
    rate = f", {staged['rows_per_second']:,} rows/s" if staged["rows_per_second"] else ""
    return [
        f"{'Reused' if reused else 'Staged'} {staged['rows']:,} rows, "
        f"{staged['bytes']:,} bytes in {staged['seconds']} s{rate}.",
        f"Digest on both sides: `{staged['digest']}`.",
    ]


def _step_row(step: Mapping[str, Any]) -> str:
    return f"| {step['step']} | {'jumped over' if step['seconds'] is None else step['seconds']} |"

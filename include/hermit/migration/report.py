"""The report of a run: what it did, step by step, and where the truth is now. JSON, and Markdown from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hermit.migration.manifest import Manifest
from hermit.migration.move import Move
from hermit.migration.stores import Stores


def build(
    stores: Stores,
    move: Move,
    decision: Mapping[str, Any] | None,
    results: Mapping[str, Any],
    manifest: Manifest | None,
) -> dict[str, Any]:
    """Put together what the steps of a run returned with what the stores say now."""
    state = stores.state()
    protocol, tombstones, truth = *state, state.truth
    before = results.get("open") or {}
    fencing = results.get("fence_epoch") or {}
    return {
        "run_id": move.run_id,
        "organization_id": str(move.organization_id),
        "direction": move.direction.value,
        "protocol": protocol.name,
        "dry_run": move.dry_run,
        "outcome": _outcome(move, decision),
        "decision": decision,
        "source_of_truth": truth.store.value,
        "why": truth.why,
        "tombstones": {"stash": tombstones.stash, "persist": tombstones.persist},
        "epochs": {
            store: {"before": (before.get(store) or {}).get("epoch"), "after": _epoch(fencing, store)}
            for store in ("stash", "persist")
        },
        "staged": _staged(manifest),
        "digests": (results.get("verify") or {}).get("digests"),
    }


def _outcome(move: Move, decision: Mapping[str, Any] | None) -> str:
    if decision and decision["next"] == "nothing_to_do":
        return "nothing to do"
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
    ]
    words = {None: "absent", True: "true", False: "false"}
    for store in ("stash", "persist"):
        epochs = report["epochs"][store]
        tombstone = words[report["tombstones"][store]]
        lines.append(f"| {store} | {epochs['before'] or '–'} | {epochs['after'] or '–'} | {tombstone} |")
    decision = report.get("decision")
    if decision:
        lines += ["", f"Decision: `{decision['next']}`, because {decision['reason']}."]
    staged = report.get("staged")
    if staged:
        rate = f", {staged['rows_per_second']:,} rows/s" if staged["rows_per_second"] else ""
        lines += [
            "",
            f"{'Reused' if decision and decision['reused'] else 'Staged'} {staged['rows']:,} rows, "
            f"{staged['bytes']:,} bytes in {staged['seconds']} s{rate}.",
            f"Digest on both sides: `{staged['digest']}`.",
        ]
    return "\n".join(lines)

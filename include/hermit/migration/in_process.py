"""A whole move in this process, without Airflow and Spark: the steps of the plan, one after the other.

The DAGs run the same step functions in the same order. This is what tests, benchmarks and the crash matrix
use where a second per move matters, and what shows in one screen how the steps hang together.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from hermit.migration import staging, steps
from hermit.migration.failpoints import fail_point
from hermit.migration.manifest import Manifest
from hermit.migration.move import Fencing, Move
from hermit.migration.protocol import Direction, Step

if TYPE_CHECKING:
    from hermit.migration.stores import Stores

Stage: TypeAlias = "Callable[[Stores, Move, Fencing, str], None]"


@dataclass
class Run:
    """What a run did."""

    decision: steps.Decision
    outcome: dict[str, Any] | None = None


def run(
    stores: Stores,
    direction: Direction,
    protocol: str | None = None,
    *,
    stage: Stage | None = None,
    reached: Callable[[Step], None] = lambda step: None,
) -> Run:
    """Move a catalog. `stage` stands in for the Spark job; `reached` is told of every step that is done."""
    asked = Move.parse(
        direction=direction.value,
        organization_id=str(stores.organization_id),
        protocol=protocol,
        dry_run=False,
        run_id=f"in_process_{secrets.token_hex(4)}",
    )
    steps.look(stores, asked)
    reached(Step.OPEN)
    fencing = steps.fence_epoch(stores, asked)
    reached(Step.FENCE_EPOCH)
    steps.announce(stores, asked, fencing)
    reached(Step.ANNOUNCE)
    result = Run(steps.check_tombstone(stores, asked, fencing))
    reached(Step.CHECK_TOMBSTONE)
    batch = result.decision.batch
    if batch is None:
        return result
    order = fencing.plan(direction).steps
    for step in order[order.index(Step(result.decision.next)) :]:
        match step:
            case Step.SNAPSHOT:
                (stage or stage_one_by_one)(stores, asked, fencing, batch)
            case Step.REPLACE:
                steps.replace(stores, asked, fencing, batch)
            case Step.VERIFY:
                steps.verify(stores, asked, fencing, batch)
            case Step.SET_TOMBSTONE:
                result.outcome = steps.set_tombstone(stores, asked, fencing, batch)
        reached(step)
    steps.finish(stores, asked, batch)
    return result


def stage_one_by_one(stores: Stores, asked: Move, fencing: Fencing, batch: str) -> None:
    """What the Spark job does, one partition after the other."""
    started = time.monotonic()
    workers = staging.Workers(_one_by_one)
    with stores.resumed(fencing) as (stash, persist):
        staging.sweep(stores, stash, batch)
        if asked.direction is Direction.MIGRATE:
            version, part = staging.stage_stash(stores, stash, batch, workers)
        else:
            version, part = staging.stage_shard(stores, stash, persist, batch, workers)
    stores.manifests().write(
        Manifest(
            batch=batch,
            direction=asked.direction,
            source_version=version,
            digests=part.read,
            staged_digests=part.staged,
            files=part.files,
            rows=part.rows,
            bytes=part.bytes,
            seconds=time.monotonic() - started,
        )
    )
    fail_point("snapshot.noted")


def _one_by_one(function: Any, items: Any) -> list[staging.Part]:
    return [function(item) for item in items]

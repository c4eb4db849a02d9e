"""Runs a move in this process: the same step functions as the DAG, in the order of the same plan.

A crash is an exception raised between two steps: whatever a step made durable stays, whatever only its
process knew is gone. Running the move again is what the next DAG run does.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from hermit.digest import Digest, combine
from hermit.migration import staging, steps
from hermit.migration.manifest import Manifest
from hermit.migration.move import Move
from hermit.migration.protocol import Direction, Step
from hermit.migration.stores import Stores, connect

_runs = itertools.count()


class Crash(Exception):
    """The process dies here."""


@dataclass
class Run:
    """What a run did."""

    decision: steps.Decision
    done: list[str] = field(default_factory=list)
    outcome: dict[str, Any] | None = None


def stores_for(database_url: str, shards: str, organization_id: UUID) -> Stores:
    return connect(database_url, shards, organization_id)


def move(
    stores: Stores,
    direction: Direction,
    protocol: str | None = None,
    *,
    crash_after: Step | None = None,
    stage: Callable[[Stores, Move, Any, str], None] | None = None,
) -> Run:
    """One run, which may die right after a step. `stage` stands in for the Spark job."""
    stage = stage or stage_one_by_one
    asked = Move.parse(
        direction=direction.value,
        organization_id=str(stores.organization_id),
        protocol=protocol,
        dry_run=False,
        run_id=f"run {next(_runs)}",
    )

    def reached(step: Step) -> None:
        done.append(step)
        if step is crash_after:
            raise Crash(step)

    done: list[Step] = []
    steps.look(stores, asked)
    reached(Step.OPEN)
    fencing = steps.fence_epoch(stores, asked)
    reached(Step.FENCE_EPOCH)
    steps.announce(stores, asked, fencing)
    reached(Step.ANNOUNCE)
    decision = steps.check_tombstone(stores, asked, fencing)
    reached(Step.CHECK_TOMBSTONE)
    run = Run(decision, done)  # type: ignore[arg-type]
    if decision.next == steps.NOTHING_TO_DO:
        return run
    batch = decision.batch
    assert batch is not None
    order = fencing.plan(direction).steps
    for step in order[order.index(Step(decision.next)) :]:
        if step is Step.SNAPSHOT:
            stage(stores, asked, fencing, batch)
        elif step is Step.REPLACE:
            steps.replace(stores, asked, fencing, batch)
        elif step is Step.VERIFY:
            steps.verify(stores, asked, fencing, batch)
        elif step is Step.SET_TOMBSTONE:
            run.outcome = steps.set_tombstone(stores, asked, fencing, batch)
        reached(step)
    steps.finish(stores, asked, batch)
    return run


def stage_one_by_one(stores: Stores, asked: Move, fencing: Any, batch: str) -> None:
    """What the Spark job does, one partition after the other."""

    def one_by_one(function: Any, items: Any) -> list[staging.Part]:
        return [function(item) for item in items]

    workers = staging.Workers(one_by_one)
    with stores.resumed(fencing) as (stash, persist):
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
            seconds=1.0,
        )
    )


def truth(stores: Stores) -> tuple[str, Digest]:
    """Where the truth is, and the digest of what is there."""
    store = stores.state().truth.store
    unopened = {"stash": stores.stash, "persist": stores.persist}[store.value]
    with unopened.open_read_only(preload=False) as catalog:
        return store.value, combine(catalog.digests().values())

"""Runs a move in this process, and lets it die after a step.

A crash is an exception raised between two steps: whatever a step made durable stays, whatever only its
process knew is gone. Running the move again is what the next DAG run does.
"""

from __future__ import annotations

from uuid import UUID

from hermit.digest import Digest, combine
from hermit.migration.in_process import Run, Stage, run
from hermit.migration.protocol import Direction, Step
from hermit.migration.stores import Stores, connect


class Crash(Exception):
    """The process dies here."""


def stores_for(database_url: str, shards: str, organization_id: UUID) -> Stores:
    return connect(database_url, shards, organization_id)


def move(
    stores: Stores,
    direction: Direction,
    protocol: str | None = None,
    *,
    crash_after: Step | None = None,
    stage: Stage | None = None,
) -> Run:
    """One run, which may die right after a step."""

    def reached(step: Step) -> None:
        if step is crash_after:
            raise Crash(step)

    return run(stores, direction, protocol, stage=stage, reached=reached)


def truth(stores: Stores) -> tuple[str, Digest]:
    """Where the truth is, and the digest of what is there."""
    store = stores.state().truth.store
    unopened = {"stash": stores.stash, "persist": stores.persist}[store.value]
    with unopened.open_read_only(preload=False) as catalog:
        return store.value, combine(catalog.digests().values())

"""A move that changes nothing: the same steps, each telling what it would have written.

Both catalogs are opened as savepoints, so that a format upgrade or a first initialization is worked out in
full, in memory. The snapshot is staged and read back in a scratch directory beside the shards, never in
the shard itself, which may not exist yet; the directory is gone when the run ends.
"""

from __future__ import annotations

import secrets
from typing import Any

from hermit.durable.token import FenceToken
from hermit.migration import protocol as protocols
from hermit.migration import staging, steps
from hermit.migration.manifest import Manifest, Manifests
from hermit.migration.move import Fencing, Move
from hermit.migration.protocol import Step, Store
from hermit.migration.steps import NOTHING_TO_DO, Decision, NotStaged
from hermit.migration.stores import Stores

look = steps.look


def scratch(stores: Stores, batch: str) -> str:
    """Where a dry run stages: beside the shards."""
    return f"{stores.location.rpartition('/')[0]}/.{batch}"


def fence_epoch(stores: Stores, move: Move) -> Fencing:
    """Work out that both catalogs can be opened; keep the epochs as they are."""
    before = {"stash": stores.stash.epoch(), "persist": stores.persist.epoch()}
    with stores.stash.open_savepoint() as stash, stores.persist.open_savepoint() as persist:
        stash.confirm_leadership()
        persist.confirm_leadership()
    protocol, tombstones = stores.state()
    if move.protocol is not None and move.protocol is not protocol:
        protocols.adoption(protocol, move.protocol, tombstones)
        protocol = move.protocol
    tokens = {name: FenceToken(name, epoch or 0, "") for name, epoch in before.items()}
    return Fencing(tokens["stash"], tokens["persist"], protocol, before)


def confirm(stores: Stores, fencing: Fencing) -> None:
    """Nothing is held, so that nothing can be lost."""


def announce(stores: Stores, move: Move, fencing: Fencing) -> dict[str, Any]:
    """Tell what would be announced."""
    write = fencing.plan(move.direction).announce
    return {"would_write": {"store": write.store.value, "tombstone": write.value} if write else None}


def check_tombstone(stores: Stores, move: Move, fencing: Fencing) -> Decision:
    """Decide as a real run would, after the announcement that it would have made."""
    tombstones = stores.state().tombstones
    announced = fencing.plan(move.direction).announce
    if announced is not None:
        tombstones = tombstones.with_(announced)
    if fencing.protocol.is_done(move.direction, tombstones):
        why = fencing.protocol.truth(tombstones).why
        return Decision(NOTHING_TO_DO, f"the truth is {move.direction.target} already: {why}", None)
    return Decision(Step.SNAPSHOT, "a dry run stages anew", f"dry_run_{secrets.token_hex(6)}")


def staging_request(stores: Stores, move: Move, fencing: Fencing, batch: str) -> dict[str, Any]:
    """What the Spark job needs to know to stage where nothing durable is."""
    return {**steps.request(stores, move, fencing, batch), "scratch": scratch(stores, batch)}


def staged(stores: Stores, batch: str) -> Manifest:
    """The manifest in the scratch directory."""
    manifest = Manifests(scratch(stores, batch)).read(batch)
    if manifest is None:
        raise NotStaged(f"the staging job left no manifest for dry run {batch}")
    return manifest


def replace(stores: Stores, move: Move, fencing: Fencing, batch: str) -> dict[str, Any]:
    """Tell what would be replaced."""
    manifest = staged(stores, batch)
    return {"would_replace": move.direction.target.value, "rows": manifest.rows, "bytes": manifest.bytes}


def verify(stores: Stores, move: Move, fencing: Fencing, batch: str) -> dict[str, Any]:
    """Compare what was read with what was read back."""
    manifest = staged(stores, batch)
    steps.require_equal(move, manifest.digests, manifest.staged_digests)
    return {"digests": {name: str(digest) for name, digest in sorted(manifest.digests.items())}}


def set_tombstone(stores: Stores, move: Move, fencing: Fencing, batch: str) -> dict[str, Any]:
    """Tell what would be cut over."""
    write = fencing.plan(move.direction).cut_over
    return {"would_write": {"store": write.store.value, "tombstone": write.value}}


def finish(stores: Stores, move: Move, batch: str | None) -> None:
    """Leave nothing behind."""
    if batch is not None:
        staging.remove_all(scratch(stores, batch))


def source(stores: Stores, store: Store) -> Any:
    """The source, opened as a savepoint."""
    return stores.stash.open_savepoint() if store is Store.STASH else stores.persist.open_savepoint()

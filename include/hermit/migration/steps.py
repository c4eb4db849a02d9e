"""The steps of a move: each one small, idempotent, and fenced by the run's token.

A step reads what it needs from the stores, never from what an earlier step believed; so any step may
be run again, in this run or a later one. What makes a crash harmless:

- Until `replace`, nothing that anybody reads has changed. Staged files and side tables are named by
  nobody but their manifest.
- `replace` is one conditional write under the token's epoch, and changes the side that is not the truth;
  only where the protocol lets contents and tombstone move together does it also cut over.
- `set_tombstone` is one conditional write, and comes after `verify`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hermit.digest import Digest
from hermit.durable.abc import DurableCatalogState
from hermit.durable.contents import COPIED_BATCH, MOVE_PROTOCOL
from hermit.durable.unopened import Unopened
from hermit.errors import HermitError, invariant
from hermit.formats import config
from hermit.migration import difference, reuse
from hermit.migration import protocol as protocols
from hermit.migration.failpoints import fail_point
from hermit.migration.manifest import Manifest
from hermit.migration.move import Fencing, Move
from hermit.migration.protocol import Direction, Step, Store
from hermit.migration.stores import Stores

NOTHING_TO_DO = "nothing_to_do"


class DigestMismatch(HermitError):
    """Both sides do not hold the same rows: the truth stays where it is."""

    collections: list[str]
    sample: list[Mapping[str, Any]]


class NotVerified(HermitError):
    """A cut-over was asked for without both sides having been found equal as they are now."""


class NotStaged(HermitError):
    """There is no staged snapshot where one should be."""


@dataclass(frozen=True)
class Decision:
    """Where a run goes on after looking at the state, and why."""

    next: str
    reason: str
    batch: str | None
    reused: bool = False

    def to_json(self) -> dict[str, Any]:
        return {"next": self.next, "reason": self.reason, "batch": self.batch, "reused": self.reused}


def look(stores: Stores, move: Move) -> dict[str, Any]:
    """What both stores say of themselves, without writing. Refuses what could not be moved anyway."""
    protocol, tombstones = stores.state()
    protocol.require_reachable(tombstones)
    if move.protocol is not None and move.protocol is not protocol:
        protocols.adoption(protocol, move.protocol, tombstones)
    sides = {Store.STASH: stores.stash, Store.PERSIST: stores.persist}
    return {
        "protocol": protocol.name,
        "source_of_truth": protocol.truth(tombstones).store.value,
        **{store.value: _described(side) for store, side in sides.items()},
    }


def _described(side: Unopened) -> dict[str, Any]:
    version = side.format_version()
    return {
        "initialized": version is not None,
        "epoch": side.epoch(),
        "format_version": version,
        "tombstone": side.tombstone(),
    }


def fence_epoch(stores: Stores, move: Move) -> Fencing:
    """Open the stash, then persist, each above the other's epoch, and settle the protocol."""
    before = {"stash": stores.stash.epoch(), "persist": stores.persist.epoch()}
    fail_point("fence_epoch.begun")
    with contextlib.ExitStack() as stack:
        stash = stack.enter_context(stores.stash.open(epoch_min=(before["persist"] or 0) + 1, preload=False))
        fail_point("fence_epoch.stash_opened")
        persist = stack.enter_context(stores.persist.open(epoch_min=stash.epoch + 1, preload=False))
        fail_point("fence_epoch.persist_opened")
        # Read under both tokens: from here on nobody else can change what these say.
        protocol = protocols.by_number(stash.get_config_by_key(MOVE_PROTOCOL))
        wanted = move.protocol or protocol
        tombstones = protocols.Tombstones(stash.tombstone(), persist.tombstone())
        protocol.require_reachable(tombstones)
        if wanted is not protocol:
            write = protocols.adoption(protocol, wanted, tombstones)
            if write is not None:
                persist.set_tombstone(write.value)
                fail_point("fence_epoch.persist_tombstone")
            stash.set_config(MOVE_PROTOCOL, wanted.number)
            fail_point("fence_epoch.protocol")
        return Fencing(stash.token, persist.token, wanted, before)


def confirm(stores: Stores, fencing: Fencing) -> None:
    """Whether the run's token is still current; `Fenced` if not."""
    with stores.resumed(fencing):
        return


def announce(stores: Stores, move: Move, fencing: Fencing) -> dict[str, Any]:
    """Set the tombstone that the protocol sets first, unless it says so already."""
    write = fencing.plan(move.direction).announce
    if write is None:
        return {"written": None}
    with stores.resumed(fencing) as (stash, persist):
        side = stash if write.store is Store.STASH else persist
        if side.tombstone() is not write.value:
            fail_point("announce.begun")
            side.set_tombstone(write.value)
            fail_point("announce.written")
    return {"written": {"store": write.store.value, "tombstone": write.value}}


def check_tombstone(stores: Stores, move: Move, fencing: Fencing) -> Decision:
    """Read the state and decide where the run goes on."""
    with stores.resumed(fencing) as (stash, persist):
        tombstones = protocols.Tombstones(stash.tombstone(), persist.tombstone())
        fencing.protocol.require_reachable(tombstones)
        if fencing.protocol.is_done(move.direction, tombstones):
            why = fencing.protocol.truth(tombstones).why
            return Decision(NOTHING_TO_DO, f"the truth is {move.direction.target} already: {why}", None)
        source = stash if move.direction.source is Store.STASH else persist
        version = source.content_version()
        found = reuse.find(stores, move.direction, version, persist)
    fail_point("check_tombstone.decided")
    if found is None:
        begun = reuse.unfinished(stores, move.direction, version)
        if begun is not None:
            return Decision(
                Step.SNAPSHOT, f"goes on staging batch {begun}, from the same contents", begun, True
            )
        return Decision(
            Step.SNAPSHOT, "nothing that is staged fits", f"{move.direction}_{secrets.token_hex(6)}"
        )
    return Decision(found.next, found.reason, found.batch, reused=True)


def staging_request(stores: Stores, move: Move, fencing: Fencing, batch: str) -> dict[str, Any]:
    """What the Spark job needs to know, unless the run was fenced already."""
    confirm(stores, fencing)
    return request(stores, move, fencing, batch)


def request(stores: Stores, move: Move, fencing: Fencing, batch: str) -> dict[str, Any]:
    """The Spark job's argument; nothing in it is secret."""
    return {
        "direction": move.direction.value,
        "organization_id": str(move.organization_id),
        "location": stores.location,
        "batch": batch,
        "fencing": fencing.to_json(),
        **move.limits.to_json(),
    }


def staged(stores: Stores, batch: str) -> Manifest:
    """The manifest that the Spark job must have left."""
    manifest = stores.manifests().read(batch)
    if manifest is None:
        raise NotStaged(f"the staging job left no manifest for batch {batch}", hint="clear the snapshot task")
    return manifest


def replace(stores: Stores, move: Move, fencing: Fencing, batch: str) -> dict[str, Any]:
    """Make the staged snapshot the target's contents, in one write under the token's epoch.

    The same write leaves the batch's number in the target, so that running the step again finds it done.
    On the way back it must have been verified before: there, replacing may be the cut-over itself.
    """
    manifest = staged(stores, batch)
    plan = fencing.plan(move.direction)
    forced: dict[str, int | None] = {COPIED_BATCH: manifest.number}
    if plan.cut_over_with_replace:
        forced[config.TOMBSTONE] = int(plan.cut_over.value)
    fail_point("replace.begun")
    with stores.resumed(fencing) as (stash, persist):
        if move.direction is Direction.MIGRATE:
            if not _is_replaced(persist, manifest):
                _require_unchanged(move, stash, manifest.source_version)
                persist.replace_with_staged(manifest.files, config=forced)
        elif not _is_replaced(stash, manifest):
            _require_unchanged(move, persist, manifest.verified_source_version)
            stash.replace_from_side(batch, config=forced)
    fail_point("replace.written")
    return {"batch": batch, "rows": manifest.rows, "bytes": manifest.bytes}


def verify(stores: Stores, move: Move, fencing: Fencing, batch: str) -> dict[str, Any]:
    """Compare what both sides hold now, per collection, by count and digest.

    On the way there the target is persist itself; on the way back it is the side table, sealed, which
    becomes the stash's contents only afterwards. That they were equal is written into the manifest with the
    content versions at which it was so. A batch that does not fit is forgotten, so that the next run
    stages anew instead of finding it again.
    """
    manifest = staged(stores, batch)
    fail_point("verify.begun")
    migrating = move.direction is Direction.MIGRATE
    with stores.resumed(fencing) as (stash, persist):
        source = stash if migrating else persist
        source_version = source.content_version()
        target_version = persist.content_version() if migrating else None
        expected = source.digests()
        found = persist.digests() if migrating else stores.side_digests(stash, batch)
        if differing(expected, found):
            stores.manifests().remove(batch)
            target = _side(persist) if migrating else stores.side_of(stash, batch)
            require_equal(move, expected, found, difference.sample(_side(source), target))
    stores.manifests().write(
        dataclasses.replace(
            manifest,
            digests=expected,
            verified_source_version=source_version,
            verified_target_version=target_version,
        )
    )
    fail_point("verify.noted")
    return {"digests": {name: str(digest) for name, digest in sorted(expected.items())}}


def set_tombstone(stores: Stores, move: Move, fencing: Fencing, batch: str) -> dict[str, Any]:
    """Cut over: the last write of a move. Running it again finds it done.

    It does not believe that the steps before it ran, whatever Airflow shows: the target must name the batch,
    and neither side may have changed since both were found equal. Where the truth has moved already, with the
    contents or by this step before its answer got lost, whoever serves the catalog may have opened it since.
    """
    state = stores.state()
    if state.truth.store is move.direction.target:
        return {"source_of_truth": state.truth.store.value, "why": state.truth.why}
    manifest = staged(stores, batch)
    write = fencing.plan(move.direction).cut_over
    with stores.resumed(fencing) as (stash, persist):
        side = stash if write.store is Store.STASH else persist
        if side.tombstone() is not write.value:
            source, target = (stash, persist) if move.direction is Direction.MIGRATE else (persist, stash)
            if not _is_replaced(target, manifest):
                raise NotVerified(
                    f"{move.direction} of {move.organization_id}: {target.store} does not hold batch {batch}",
                    hint="the truth did not move; clear the replace task",
                )
            _require_unchanged(move, source, manifest.verified_source_version)
            if manifest.verified_target_version is not None:
                _require_unchanged(move, target, manifest.verified_target_version)
            fail_point("set_tombstone.begun")
            side.set_tombstone(write.value)
            fail_point("set_tombstone.written")
        tombstones = protocols.Tombstones(stash.tombstone(), persist.tombstone())
    truth = fencing.protocol.truth(tombstones)
    invariant(truth.store is move.direction.target, "the truth did not move", truth=truth)
    return {"source_of_truth": truth.store.value, "why": truth.why}


def _is_replaced(target: DurableCatalogState, manifest: Manifest) -> bool:
    return target.get_config_by_key(COPIED_BATCH) == manifest.number


def _require_unchanged(move: Move, catalog: DurableCatalogState, version: int | None) -> None:
    """Refuse to go on over contents that are not those that were staged or verified."""
    found = catalog.content_version()
    if version is None or found != version:
        was = "was never verified" if version is None else f"changed from version {version} to {found}"
        raise NotVerified(
            f"{move.direction} of {move.organization_id}: {catalog.store} {was}",
            hint="the truth did not move; clear the check_tombstone task to start over from there",
        )


def finish(stores: Stores, move: Move, batch: str | None) -> None:
    """Forget the manifest of a batch that did its duty."""
    if batch is not None:
        fail_point("finish.begun")
        stores.manifests().remove(batch)
        fail_point("finish.forgotten")


def _side(catalog: DurableCatalogState) -> difference.Side:
    return lambda visit: visit(catalog.snapshot())


def differing(expected: Mapping[str, Digest], found: Mapping[str, Digest]) -> list[str]:
    """The collections in which two sides differ."""
    empty = Digest()
    names = sorted({*expected, *found})
    return [name for name in names if expected.get(name, empty) != found.get(name, empty)]


def require_equal(
    move: Move,
    expected: Mapping[str, Digest],
    found: Mapping[str, Digest],
    sample: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Stop a move whose two sides differ, naming the collections and some of the keys."""
    empty = Digest()
    different = differing(expected, found)
    if different:
        detail = ", ".join(
            f"{name} {expected.get(name, empty)} against {found.get(name, empty)}" for name in different
        )
        keys = "; ".join(f"{one['collection']} {one['key']} {one['how']}" for one in sample)
        raise DigestMismatch(
            f"{move.direction} of {move.organization_id}: both sides differ in {detail}"
            + (f"; for example: {keys}" if keys else ""),
            hint="the truth did not move; run the move again to stage anew",
            collections=different,
            sample=list(sample),
        )

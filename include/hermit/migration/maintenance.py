"""What keeps a catalog quick and proves it sound, beside whoever uses it: nobody is fenced by any of this.

Each action may be run at any time and again. What the last of each did is kept beside the shard, once there
is one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from hermit.errors import CorruptData
from hermit.migration.protocol import Store
from hermit.migration.shelf import Shelf

if TYPE_CHECKING:
    from hermit.migration.stores import Stores

_BOARD, _LAST = "maintenance", "last"
_NO_SHARD = {"skipped": "there is no shard yet"}


def consolidate(stores: Stores) -> dict[str, Any]:
    """Merge the stash's updates that cancel out, under the token of whoever holds it."""
    from hermit.stash import Token
    from hermit.stash.consolidate import consolidate as merge

    fence = stores.stash_client.fence()
    if fence is None:
        return {"skipped": "there is no stash yet"}
    with stores.stash_client.resume(Token(fence.epoch, fence.nonce)) as stash:
        done = merge(stash, keep_history=True)
    return {"rows_removed": done.removed, "rows_added": done.added}


def compact(stores: Stores) -> dict[str, Any]:
    """Fold the shard's history up to since and merge its files."""
    from hermit.persist import PersistClient

    if not stores.persist.is_initialized():
        return _NO_SHARD
    with PersistClient.open(stores.location) as client:
        before = len(client.files())
        state = client.compact()
    return {"files_before": before, "files_after": len(state.live), "version": state.version}


def vacuum(stores: Stores) -> dict[str, Any]:
    """Delete files of the shard that neither its contents nor recent readers need."""
    from hermit.persist import PersistClient

    if not stores.persist.is_initialized():
        return _NO_SHARD
    with PersistClient.open(stores.location) as client:
        gone = client.vacuum()
    return {"files": len(gone.files), "bytes": gone.bytes, "log_entries": gone.log_entries}


def verify(stores: Stores) -> dict[str, Any]:
    """Decode every object of the truth, and check every byte of the shard against its checksum."""
    truth = stores.state().truth.store
    unopened: Any = stores.stash if truth is Store.STASH else stores.persist
    found: dict[str, Any] = {"truth": truth.value, "objects": unopened.check_open().objects}
    if stores.persist.is_initialized():
        found["persist"] = _verify_shard(stores.location)
    return found


def _verify_shard(location: str) -> dict[str, Any]:
    from hermit.persist.storage.open import open_storage
    from hermit.persist.verify import verify as check

    report = check(open_storage(location))
    if report.damage:
        first = report.damage[0]
        raise CorruptData(
            f"{len(report.damage)} damaged files in {location}; the first: {first.message}", hint=first.hint
        )
    return {"version": report.version, "files": report.files, "rows": report.rows, "bytes": report.bytes}


ACTIONS: Mapping[str, Callable[[Stores], dict[str, Any]]] = {
    "consolidate": consolidate,
    "compact": compact,
    "vacuum": vacuum,
    "verify": verify,
}


def run(stores: Stores, action: str) -> dict[str, Any]:
    """Do one of the actions, and remember what it did."""
    started = datetime.now(UTC)
    result = ACTIONS[action](stores)
    if stores.persist.is_initialized():
        shelf = Shelf(stores.location, _BOARD)
        entry = {"started": started.isoformat(), "ended": datetime.now(UTC).isoformat(), **result}
        shelf.put(_LAST, {**(shelf.get(_LAST) or {}), action: entry})
    return result


def last(location: str) -> dict[str, Any]:
    """What each action did when it last ran; empty if none ever did."""
    return Shelf(location, _BOARD).get(_LAST) or {}


def upgrade_check(stores: Stores) -> dict[str, Any]:
    """Whether this release could open the catalog, worked out in full on a running one, changing nothing."""
    truth = stores.state().truth.store
    unopened: Any = stores.stash if truth is Store.STASH else stores.persist
    check = unopened.check_open()
    return {"store": truth.value, **check._asdict()}

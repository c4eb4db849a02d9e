"""The emergency exit: the stash becomes the truth although persist cannot be read, or not be trusted.

What was committed to persist since the last move is lost by it: that is the price, and the report names it
as far as persist still answers. Order matters, and every write can be repeated:

1. Open the stash, above persist's epoch where that can be read. Every move under way is fenced.
2. Open persist, where it answers, so that whoever uses it is fenced as well.
3. Put the catalog under the single-tombstone protocol: its table does not ask persist anything, so that
   a persist that comes back one day cannot claim to be the truth.
4. Set the stash's tombstone to false. From here on the stash is the truth.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hermit.digest import Digest, combine
from hermit.durable.contents import MOVE_PROTOCOL
from hermit.errors import HermitError
from hermit.migration.protocol import SINGLE, Tombstones
from hermit.migration.stores import Stores


def emergency_stash(stores: Stores) -> dict[str, Any]:
    """Make the stash the truth; gives what it holds, and what of persist it does not."""
    persist_epoch, lost = _persist(stores)
    with stores.stash.open(epoch_min=(persist_epoch or 0) + 1, preload=False) as stash:
        fenced = _fence_persist(stores, stash.epoch + 1)
        if stash.get_config_by_key(MOVE_PROTOCOL) not in (None, SINGLE.number):
            stash.set_config(MOVE_PROTOCOL, SINGLE.number)
        if stash.tombstone():
            stash.set_tombstone(False)
        digests = stash.digests()
        truth = SINGLE.truth(Tombstones(stash.tombstone(), None))
        return {
            "source_of_truth": truth.store.value,
            "epoch": stash.epoch,
            "digest": str(combine(digests.values())),
            "persist_fenced": fenced,
            "persist_differs": None if lost is None else _differing(digests, lost),
        }


def _differing(mine: Mapping[str, Digest], theirs: Mapping[str, Digest]) -> dict[str, dict[str, str]]:
    return {
        name: {"stash": str(mine.get(name)), "persist": str(theirs.get(name))}
        for name in sorted({*mine, *theirs})
        if mine.get(name) != theirs.get(name)
    }


def _persist(stores: Stores) -> tuple[int | None, dict[str, Digest] | None]:
    """Persist's epoch and digests, as far as it still answers."""
    try:
        epoch = stores.persist.epoch()
        if epoch is None:
            return None, None
        with stores.persist.inspect() as persist:
            return epoch, persist.digests()
    except (HermitError, OSError):
        return None, None


def _fence_persist(stores: Stores, epoch_min: int) -> bool:
    try:
        stores.persist.open(epoch_min=epoch_min, preload=False).close()
    except (HermitError, OSError):
        return False
    return True

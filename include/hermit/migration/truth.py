"""Opening the catalog where its truth is: how everybody but a move gets at it.

Whoever opens the catalog opens *both* stores, the stash first, and only then asks where the truth is. Each
protocol cuts over by a write to one store; a mover that still held that store's token, because somebody
opened only the other one, could move the truth away under an opener that was just told it had it, and
what that opener then wrote would be lost. With both epochs raised, every earlier mover is fenced on both,
and the answer stays right until somebody opens again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hermit.durable.contents import MOVE_PROTOCOL
from hermit.migration.protocol import Store, Tombstones, by_number

if TYPE_CHECKING:
    from hermit.durable.persist import PersistCatalog
    from hermit.durable.stash import StashCatalog
    from hermit.migration.stores import Stores


@contextmanager
def open_truth(
    stores: Stores, *, deploy_generation: int | None = None
) -> Iterator[StashCatalog | PersistCatalog]:
    """Fence both stores and give the catalog that holds the truth."""
    epoch_min = (stores.persist.epoch() or 0) + 1
    with (
        stores.stash.open(epoch_min=epoch_min, deploy_generation=deploy_generation, preload=False) as stash,
        stores.persist.open(
            epoch_min=stash.epoch + 1, deploy_generation=deploy_generation, preload=False
        ) as persist,
    ):
        protocol = by_number(stash.get_config_by_key(MOVE_PROTOCOL))
        truth = protocol.truth(Tombstones(stash.tombstone(), persist.tombstone()))
        yield stash if truth.store is Store.STASH else persist

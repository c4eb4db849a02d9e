"""Opening the catalog where its truth is: how everybody but a move gets at it.

Whoever opens the catalog opens *both* stores, the stash first, and only then asks where the truth is. Each
protocol cuts over by a write to one store; a mover that still held that store's token, because somebody
opened only the other one, could move the truth away under an opener that was just told it had it, and
what that opener then wrote would be lost. With both epochs raised, every earlier mover is fenced on both,
and the answer stays right until somebody opens again.

A shard that nobody has made is not made here: it has no mover. Whether it exists is asked after the stash
was opened, because a mover opens the stash first, too: one that makes the shard later is fenced there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from hermit.durable.contents import MOVE_PROTOCOL
from hermit.errors import NotInitialized
from hermit.migration.protocol import Store, Tombstones, by_number

if TYPE_CHECKING:
    from hermit.durable.persist import PersistCatalog
    from hermit.durable.stash import StashCatalog
    from hermit.migration.stores import Stores

    Catalog = StashCatalog | PersistCatalog


def take_over(stores: Stores, *, deploy_generation: int | None = None) -> Catalog:
    """Fence both stores and give the catalog that holds the truth, open; closing it is the caller's."""
    with ExitStack() as opened:
        stash = stores.stash.open(
            epoch_min=(stores.persist.epoch() or 0) + 1, deploy_generation=deploy_generation, preload=False
        )
        sides: dict[Store, Catalog] = {Store.STASH: opened.enter_context(stash)}
        if stores.persist.is_initialized():
            persist = stores.persist.open(
                epoch_min=stash.epoch + 1, deploy_generation=deploy_generation, preload=False
            )
            sides[Store.PERSIST] = opened.enter_context(persist)
        # Under both tokens: from here on nobody else can change what these say.
        truth = _truth(sides)
        opened.pop_all()
    for store, side in sides.items():
        if store is not truth:
            side.close()
    return sides[truth]


@contextmanager
def open_truth(stores: Stores, *, deploy_generation: int | None = None) -> Iterator[Catalog]:
    """The same, closed when the block ends."""
    with take_over(stores, deploy_generation=deploy_generation) as catalog:
        yield catalog


def _truth(sides: Mapping[Store, Catalog]) -> Store:
    stash, persist = sides[Store.STASH], sides.get(Store.PERSIST)
    protocol = by_number(stash.get_config_by_key(MOVE_PROTOCOL))
    tombstones = Tombstones(stash.tombstone(), None if persist is None else persist.tombstone())
    protocol.require_reachable(tombstones)
    truth = protocol.truth(tombstones)
    if truth.store not in sides:
        raise NotInitialized(
            f"the truth is persist ({truth.why}), but there is no shard",
            hint="bring the shard back, or make the stash the truth with ./hermit emergency-stash",
        )
    return truth.store

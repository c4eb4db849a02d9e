"""Where a catalog lives: in one store, or in whichever of two stores holds the truth at the moment.

A home answers two questions. `locate`: which store is the truth now, by the tables of the migration
protocol. `take_over`: open that store for writing, and make sure that whoever moved the catalog, or owned
it otherwise, cannot finish what he was doing.

Taking over fences both stores, as a move does, and only then looks where the truth is. A mover checks its
tokens of both stores before every write, and each write is fenced by the store it goes to; with both
epochs raised none of its writes can come any more, so that the truth cannot leave the store that is found.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Protocol

from hermit.durable.abc import DurableCatalogState, UnopenedCatalogState
from hermit.durable.contents import MOVE_PROTOCOL
from hermit.migration.protocol import Store, Tombstones, by_number
from hermit.migration.stores import Stores


class Home(Protocol):
    """Where the catalog of a service lives."""

    def locate(self) -> UnopenedCatalogState:
        """The store that holds the truth. Writes nothing."""

    def is_moving(self) -> bool:
        """Whether the stores say that a move was announced and is not over. No is not a promise."""

    def take_over(self) -> DurableCatalogState:
        """Open the truth for writing; whoever had it open before, or was moving it, is fenced."""


class OneStore:
    """A catalog that stays where it is."""

    def __init__(self, store: UnopenedCatalogState) -> None:
        self._store = store

    def locate(self) -> UnopenedCatalogState:
        return self._store

    def is_moving(self) -> bool:
        return False

    def take_over(self) -> DurableCatalogState:
        return self._store.open(preload=False)


class TwoStores:
    """A catalog that moves between the stash and persist."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    def locate(self) -> UnopenedCatalogState:
        truth = self._stores.state().truth.store
        return self._stores.stash if truth is Store.STASH else self._stores.persist

    def is_moving(self) -> bool:
        state = self._stores.state()
        return not state.protocol.is_settled(state.tombstones)

    def take_over(self) -> DurableCatalogState:
        stores = self._stores
        with ExitStack() as opened:
            epoch = (stores.persist.epoch() or 0) if stores.persist.is_initialized() else 0
            sides: dict[Store, DurableCatalogState] = {
                Store.STASH: opened.enter_context(stores.stash.open(epoch_min=epoch + 1, preload=False))
            }
            # Asked again, because it may have been made since; a shard that nobody made has no mover.
            if stores.persist.is_initialized():
                epoch = sides[Store.STASH].epoch
                sides[Store.PERSIST] = opened.enter_context(
                    stores.persist.open(epoch_min=epoch + 1, preload=False)
                )
            # Under both tokens: from here on nobody else can change what these say.
            truth = sides[_truth(sides)]
            opened.pop_all()
        for side in sides.values():
            if side is not truth:
                side.close()
        return truth


def _truth(sides: Mapping[Store, DurableCatalogState]) -> Store:
    stash, persist = sides[Store.STASH], sides.get(Store.PERSIST)
    protocol = by_number(stash.get_config_by_key(MOVE_PROTOCOL))
    tombstones = Tombstones(stash.tombstone(), None if persist is None else persist.tombstone())
    protocol.require_reachable(tombstones)
    return protocol.truth(tombstones).store

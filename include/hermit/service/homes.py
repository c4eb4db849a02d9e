"""Where a catalog lives: in one store, or in whichever of two stores holds the truth at the moment.

A home answers two questions. `locate`: which store is the truth now, by the tables of the migration
protocol. `take_over`: open that store for writing, and make sure that whoever moved the catalog, or owned
it otherwise, cannot finish what he was doing (`hermit.migration.truth` says how).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from hermit.durable.abc import DurableCatalogState, UnopenedCatalogState
from hermit.migration import truth
from hermit.migration.protocol import Store

if TYPE_CHECKING:
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
        store = self._stores.state().truth.store
        return self._stores.stash if store is Store.STASH else self._stores.persist

    def is_moving(self) -> bool:
        state = self._stores.state()
        return not state.protocol.is_settled(state.tombstones)

    def take_over(self) -> DurableCatalogState:
        return truth.take_over(self._stores)

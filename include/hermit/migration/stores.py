"""Both stores of one catalog, before they are opened, and how their handles are taken up again."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from hermit.digest import Digest
from hermit.durable import init_persist_catalog_state, init_stash_catalog_state
from hermit.durable.abc import UnopenedCatalogState
from hermit.durable.contents import MOVE_PROTOCOL, MOVED
from hermit.durable.persist import PersistCatalog, UnopenedPersistCatalog
from hermit.durable.reads import as_tombstone
from hermit.durable.stash import StashCatalog, UnopenedStashCatalog
from hermit.errors import Unavailable
from hermit.formats.config import TOMBSTONE
from hermit.identity import shard_id
from hermit.migration import protocol as protocols
from hermit.migration.manifest import Manifests
from hermit.migration.protocol import Tombstones, Truth, by_number
from hermit.stash import StashClient

if TYPE_CHECKING:
    from hermit.migration.difference import Side
    from hermit.migration.move import Fencing


_READ_ATTEMPTS_MAX = 20


class State(NamedTuple):
    """Under which protocol a catalog is, and what its tombstones say."""

    protocol: protocols.Protocol
    tombstones: Tombstones

    @property
    def truth(self) -> Truth:
        return self.protocol.truth(self.tombstones)


class StashSays(NamedTuple):
    """What the stash says of the move, as it was at one moment."""

    # Changes whenever somebody opens the stash; not when somebody writes who has it open.
    opening: object
    protocol: int | None
    tombstone: bool | None


@dataclass(frozen=True)
class Stores:
    """The two stores of one catalog."""

    stash_url: str
    location: str
    organization_id: uuid.UUID
    stash: UnopenedStashCatalog
    persist: UnopenedPersistCatalog

    @property
    def stash_client(self) -> StashClient:
        """The stash below the catalog, for bulk work."""
        return StashClient(self.stash_url, self.organization_id)

    def check_reachable(self) -> None:
        """Fail now, and clearly, if either store cannot be asked."""
        self.stash.is_initialized()
        self.persist.is_initialized()

    def state(self) -> State:
        """Protocol and tombstones as they were together at one moment, whatever else goes on."""
        return read_state(self)

    def stash_says(self) -> StashSays:
        """What the stash says of the move."""
        fence, config = self.stash.client.fence_and_config()
        opening = None if fence is None else (fence.epoch, fence.nonce)
        return StashSays(opening, config.get(MOVE_PROTOCOL), as_tombstone(config.get(TOMBSTONE)))

    def manifests(self) -> Manifests:
        return Manifests(self.location)

    # What is staged, and what became of it

    def staged_batches(self) -> set[str]:
        """Batches of files that no commit names."""
        from hermit.persist.batch import list_staged

        return set(list_staged(self.location))

    def live_files(self, persist: PersistCatalog) -> set[str]:
        """The files that are the contents of persist."""
        return {file.path for file in persist.client.files(MOVED)}

    def sides(self) -> set[str]:
        """Side tables of the stash."""
        from hermit.stash import bulk

        return set(bulk.sides(self.stash_client))

    def side_digests(self, stash: StashCatalog, side: str) -> dict[str, Digest]:
        """Digests of what a side table holds; after this no more can be added to it."""
        from hermit.stash import bulk

        return bulk.digests(stash.stash, side=side)

    def side_of(self, stash: StashCatalog, side: str) -> Side:
        """A side table, to be looked through row by row."""
        from hermit.stash.cutover import visit_side

        return lambda visit: visit_side(stash.stash, side, visit)

    @contextlib.contextmanager
    def resumed(self, fencing: Fencing) -> Iterator[tuple[StashCatalog, PersistCatalog]]:
        """Both catalogs under the run's token. `Fenced` if anybody opened one of them since."""
        with self.stash.resume(fencing.stash) as stash, self.persist.resume(fencing.persist) as persist:
            stash.confirm_leadership()
            persist.confirm_leadership()
            yield stash, persist


class _Readable(Protocol):
    """What reading the state takes."""

    @property
    def persist(self) -> UnopenedCatalogState: ...
    def stash_says(self) -> StashSays: ...


def read_state(stores: _Readable) -> State:
    """Read both stores without opening them, and again if the stash said something else in between.

    Who has opened the stash changes its protocol and its tombstone at most once each. So if nobody opened it
    meanwhile and both are what they were, the moment at which persist was read is one at which all that was
    read is true. Without that, a whole move between two reads would show a pair that never was. Other
    writes to the stash do not matter: a catalog that is busy can be moved, too.
    """
    for _ in range(_READ_ATTEMPTS_MAX):
        stash = stores.stash_says()
        persist = stores.persist.tombstone()
        if stores.stash_says() == stash:
            return State(by_number(stash.protocol), Tombstones(stash.tombstone, persist))
    raise Unavailable("the stash keeps being opened while its state is being read", hint="try again")


def connect(stash_url: str, shards: str, organization_id: uuid.UUID) -> Stores:
    """Name both stores. Nothing is opened and nothing written."""
    return connect_at(stash_url, f"{shards.rstrip('/')}/{shard_id(organization_id)}", organization_id)


def connect_at(stash_url: str, location: str, organization_id: uuid.UUID) -> Stores:
    """The same, given where exactly the shard is."""
    return Stores(
        stash_url=stash_url,
        location=location,
        organization_id=organization_id,
        stash=init_stash_catalog_state(stash_url, organization_id),
        persist=init_persist_catalog_state(location),
    )

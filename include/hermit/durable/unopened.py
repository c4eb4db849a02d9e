"""A catalog before it is opened, and the modes that write nothing, the same on every store.

A backend gives a `Store` that holds the place of the last opener; everything here is laid over it.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import TypeVar

from hermit.durable.bootstrap import MemoryContents, OpenRequest, Rows, bootstrap, read_config
from hermit.durable.contents import CONFIG, MOVED
from hermit.durable.errors import ConcurrentChange, UpgradeNeeded
from hermit.durable.inspection import Inspection
from hermit.durable.last_upgrade import LastUpgrade
from hermit.durable.model import OpenCheck
from hermit.durable.reads import as_tombstone
from hermit.durable.spooled import SpooledContents
from hermit.durable.state import CACHED, CatalogState
from hermit.durable.store import Commit, Position, RowChange, SavepointStore, Store
from hermit.durable.validate import validate
from hermit.errors import Fenced, NotInitialized, ReadOnly
from hermit.formats import config
from hermit.formats.versions import STASH_VERSION
from hermit.rows import Update

S = TypeVar("S", bound=Store)


@contextmanager
def closed_on_error(store: S) -> Iterator[S]:
    """Let go of a store that could not be opened after all."""
    try:
        yield store
    except BaseException:
        store.close()
        raise


class Unopened(ABC):
    """What every unopened catalog does, over what its store can tell."""

    def __init__(self, store: str, boot_ts: int) -> None:
        self._name = store
        self._boot_ts = boot_ts

    @abstractmethod
    def epoch(self) -> int | None:
        """The epoch that is stored."""

    @abstractmethod
    def holder(self) -> str | None:
        """Who holds the catalog open for writing now, if that can be told."""

    @abstractmethod
    def last_upgrade(self) -> LastUpgrade | None:
        """What the last upgrade of this store did, if there was one."""

    @abstractmethod
    def _stored_config(self) -> dict[str, int]:
        """The config collection as it is stored; empty when there is none."""

    @abstractmethod
    def _reader(self) -> Store:
        """The catalog as the last opener left it, to be read for as long as nobody opens it again."""

    @property
    def store(self) -> str:
        return self._name

    @property
    def boot_ts(self) -> int:
        return self._boot_ts

    def adopt_boot_ts(self, boot_ts: int) -> None:
        self._boot_ts = boot_ts

    def config(self, key: str) -> int | None:
        return self._stored_config().get(key)

    def is_initialized(self) -> bool:
        return self.format_version() is not None

    def format_version(self) -> int | None:
        return self.config(config.USER_VERSION)

    def deploy_generation(self) -> int | None:
        return self.config(config.DEPLOY_GENERATION)

    def tombstone(self) -> bool | None:
        return as_tombstone(self.config(config.TOMBSTONE))

    def inspect(self) -> Inspection:
        """Look at the contents as they are stored, whatever their format."""
        return Inspection(self._reader())

    def open_read_only(self, *, preload: bool = True) -> CatalogState:
        with closed_on_error(self._reader()) as store:
            position, rows = store.read(CACHED if preload else (CONFIG,))
            stored = read_config(rows[CONFIG].items())
            self._check_format(stored.get(config.USER_VERSION))
            return CatalogState(
                store,
                position=position,
                boot_ts=self._boot_ts,
                deploy_generation=stored.get(config.DEPLOY_GENERATION),
                read_only=True,
                rows=rows,
            )

    def open_savepoint(self, *, deploy_generation: int | None = None, preload: bool = True) -> CatalogState:
        with closed_on_error(self._reader()) as store:
            frozen = Frozen(store, MOVED if preload else (CONFIG,))
            contents = MemoryContents(frozen.rows)
            outcome = bootstrap(contents, OpenRequest(self._boot_ts, deploy_generation))
            return CatalogState(
                SavepointStore(store, contents, frozen.position),
                position=frozen.position,
                boot_ts=self._boot_ts,
                deploy_generation=outcome.deploy_generation,
                rows={name: dict(contents.table(name)) for name in (CACHED if preload else (CONFIG,))},
            )

    def check_open(self, *, replica_sizes: Collection[str] | None = None) -> OpenCheck:
        with closing(self._reader()) as store:
            frozen = Frozen(store, MOVED)
            found = read_config(frozen.rows(CONFIG).items()).get(config.USER_VERSION)
            if found is None:
                raise self._not_initialized()
            with SpooledContents(lambda name: frozen.rows(name).items()) as contents:
                bootstrap(contents, OpenRequest(self._boot_ts))
                objects = validate({name: contents.rows(name) for name in MOVED}, replica_sizes)
            store.check()
            return OpenCheck(found, STASH_VERSION, objects)

    def _check_format(self, found: int | None) -> None:
        from hermit.formats.upgrade import check_version

        if found is None:
            raise self._not_initialized()
        if check_version(found) != STASH_VERSION:
            raise UpgradeNeeded(
                f"the {self._name} catalog is at format {found} and must be upgraded to {STASH_VERSION}",
                hint="open it for writing once; `hermit debug upgrade-check` tells whether that will work",
                found=found,
                current=STASH_VERSION,
            )

    def _not_initialized(self) -> NotInitialized:
        return NotInitialized(
            f"the {self._name} catalog is not initialized", hint="open it for writing once", store=self._name
        )


class Frozen:
    """The rows of a store as they were at one moment, whatever its writer does meanwhile.

    What is not asked for at once is read later, and then must still be in the same state.
    """

    def __init__(self, store: Store, collections: Sequence[str]) -> None:
        self._store = store
        self.position, rows = store.read(collections)
        self._rows = dict(rows)

    def rows(self, collection: str) -> Rows:
        if collection not in self._rows:
            position, rows = self._store.read((collection,))
            if position != self.position:
                raise ConcurrentChange("the catalog changed while it was read", hint="start over")
            self._rows[collection] = rows[collection]
        return self._rows[collection]


class VacantStore:
    """A catalog that nobody initialized: empty, for as long as that is so."""

    def __init__(self, name: str, is_initialized: Callable[[], bool]) -> None:
        self.name = name
        self.epoch = 1
        self.nonce = ""
        self._is_initialized = is_initialized

    def check(self) -> Position:
        if self._is_initialized():
            raise Fenced(
                f"the {self.name} catalog was initialized since this handle was opened",
                hint="open it again",
                epoch=self.epoch,
                current=None,
            )
        return Position(0, 0)

    def confirm(self) -> None:
        self.check()

    def read(self, collections: Sequence[str]) -> tuple[Position, Mapping[str, Rows]]:
        return self.check(), {name: {} for name in collections}

    def commits_since(self, position: Position) -> tuple[Position, list[Commit]] | None:
        return self.check(), []

    def updates(self) -> list[Update]:
        return []

    def wait(self, timeout_s: float) -> None:
        time.sleep(timeout_s)

    def commit(self, position: Position, changes: Sequence[RowChange]) -> Position:
        raise ReadOnly(f"the {self.name} catalog is not open for writing")

    def close(self) -> None:
        """Nothing is held."""

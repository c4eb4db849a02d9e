"""The catalog on persist: a shard, opened by one compare-and-append.

Opening reads a snapshot, works out initialization or upgrade in memory, and appends what that changes
together with the next fence, all at one time. If anybody was quicker, it starts over from what is stored
now. A crash before the append leaves the shard as it was; after it, everything is there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermit.durable.bootstrap import MemoryContents, OpenRequest, Rows, bootstrap, read_config
from hermit.durable.contents import CONFIG, FENCE, OWN_CONFIG
from hermit.durable.fence import Fence
from hermit.durable.last_upgrade import LastUpgrade
from hermit.durable.presence import ShardPresence
from hermit.durable.shard import (
    STORE,
    Shard,
    ShardStore,
    fence_records,
    frontiers,
    upgrade_records,
    upper_of,
)
from hermit.durable.spooled import SpooledContents
from hermit.durable.state import CACHED, CatalogState
from hermit.durable.store import Store
from hermit.durable.token import FenceToken
from hermit.durable.unopened import Unopened, VacantStore, closed_on_error
from hermit.errors import Unavailable
from hermit.formats import config
from hermit.formats.versions import STASH_VERSION
from hermit.persist import PersistClient
from hermit.persist.errors import CommitConflict, PersistError, ReadBeforeSince, UpperMismatch
from hermit.rows import Row

if TYPE_CHECKING:
    from hermit.persist.commit import StagedFile
    from hermit.persist.state import State

_OPEN_ATTEMPTS_MAX = 1000


class PersistCatalog(CatalogState):
    """The catalog, opened on persist."""

    _store: ShardStore

    def __init__(self, client: PersistClient, store: ShardStore, **fields: Any) -> None:
        super().__init__(store, **fields)
        self.client = client

    def replace_with_batch(
        self, files: Sequence[StagedFile], *, config: Mapping[str, int | None] | None = None
    ) -> None:
        """Make a staged batch the contents, in one fenced commit whose time does not depend on its size.

        The store's own config stays as it is, except for what is given: None removes an entry.
        """
        self._must_be_usable()
        self._must_be_writable()
        with self._noting_fence():
            self._store.replace(files, self._own_config(config or {}))
        self._synchronize()

    def replace_with_staged(
        self, files: Sequence[Mapping[str, Any]], *, config: Mapping[str, int | None] | None = None
    ) -> None:
        """As `replace_with_batch`, for files as a manifest lists them."""
        from hermit.persist.commit import StagedFile

        self.replace_with_batch([StagedFile.from_json(file) for file in files], config=config)

    def _own_config(self, forced: Mapping[str, int | None]) -> list[Row]:
        stored = read_config(self._read((CONFIG,))[CONFIG].items())
        wanted = {key: value for key, value in stored.items() if key in OWN_CONFIG} | dict(forced)
        return [
            Row(CONFIG, config.encode_key(key), config.encode_value(value))
            for key, value in wanted.items()
            if value is not None
        ]


class UnopenedPersistCatalog(Unopened):
    """The catalog on persist, before it is opened."""

    def __init__(
        self, location: str | Path, boot_ts: int, storage_options: dict[str, str] | None = None
    ) -> None:
        super().__init__(STORE, boot_ts)
        self._shard = Shard(str(location), storage_options)

    @property
    def identity(self) -> str:
        """Which shard this is, also after another one took its place."""
        return self._shard.state().table_id

    @property
    def location(self) -> str:
        """Where the shard is."""
        return self._shard.location

    def is_initialized(self) -> bool:
        return upper_of(self._shard.state()) > 0

    def epoch(self) -> int | None:
        fence = self._shard.fence(upper_of(self._shard.state()))
        return None if fence is None else fence.epoch

    def frontiers(self) -> dict[str, Any]:
        """Upper, since and Delta version."""
        return frontiers(self._shard.state())

    def holder(self) -> str | None:
        fence = self._shard.fence(upper_of(self._shard.state()))
        if fence is None or not ShardPresence(self._shard.location, fence.epoch).is_held():
            return None
        return fence.opened_by

    def open(
        self,
        *,
        epoch_min: int = 1,
        deploy_generation: int | None = None,
        clear_tombstone: bool = False,
        preload: bool = True,
    ) -> PersistCatalog:
        request = OpenRequest(self._boot_ts, deploy_generation, clear_tombstone)
        for _ in range(_OPEN_ATTEMPTS_MAX):
            try:
                return self._open_once(request, epoch_min, CACHED if preload else (CONFIG,))
            except (UpperMismatch, CommitConflict, ReadBeforeSince):
                # Somebody was quicker: what is stored now decides, not what was read before.
                continue
        raise Unavailable(
            f"could not open the persist catalog in {self._shard.location}: others kept opening it"
        )

    def resume(self, token: FenceToken, *, preload: bool = False) -> PersistCatalog:
        fence = Fence(token.epoch, token.nonce, "", token.deploy_generation)
        with closed_on_error(ShardStore(self._shard, self._shard.state(), fence)) as store:
            store.confirm()
            _, rows = store.read(CACHED if preload else (CONFIG,))
            self._check_format(read_config(rows[CONFIG].items()).get(config.USER_VERSION))
            return self._opened(store, rows, token.deploy_generation)

    def _open_once(self, request: OpenRequest, epoch_min: int, loaded: Sequence[str]) -> PersistCatalog:
        state = self._shard.state()
        upper = upper_of(state)
        snapshot = _Snapshot(self._shard, upper)
        version = read_config(snapshot.rows(CONFIG).items()).get(config.USER_VERSION)
        if version not in (None, STASH_VERSION):
            return self._open_older(state, request, epoch_min, loaded)
        contents = MemoryContents(snapshot.rows)
        outcome = bootstrap(contents, request)
        stored = self._shard.fence(upper)
        fence = Fence.next(stored, epoch_min, outcome.deploy_generation)
        rows = {name: contents.table(name) for name in loaded}
        state = self._shard.append(state, contents.changes(), fence_records(upper, stored, fence))
        return self._opened(ShardStore(self._shard, state, fence), rows, outcome.deploy_generation)

    def _open_older(
        self, state: State, request: OpenRequest, epoch_min: int, loaded: Sequence[str]
    ) -> PersistCatalog:
        """Open a catalog of an older format: what the upgrade makes of it is staged in files, then one commit
        puts them in the place of what was there and raises the epoch."""
        upper = upper_of(state)
        with SpooledContents(partial(self._shard.pairs, upper=upper)) as contents:
            outcome = bootstrap(contents, request)
            stored = self._shard.fence(upper)
            fence = Fence.next(stored, epoch_min, outcome.deploy_generation)
            rows = {name: self._shard.table(name, contents.rows(name)) for name in loaded}
            records = fence_records(upper, stored, fence)
            if outcome.upgrade is not None:
                note = LastUpgrade(request.now_ms, outcome.upgrade).encode().encode()
                records[FENCE] += upgrade_records(upper, self._shard.last_upgrade(upper), note)[FENCE]
            staged = self._shard.stage(contents.stage)
            changed = contents.changed
        try:
            state = self._shard.replace_collections(state, staged, changed, records)
        except PersistError:
            self._shard.drop(staged)
            raise
        return self._opened(ShardStore(self._shard, state, fence), rows, outcome.deploy_generation)

    def _opened(
        self, store: ShardStore, rows: Mapping[str, Rows], deploy_generation: int | None
    ) -> PersistCatalog:
        store.hold()
        return PersistCatalog(
            self._shard.client,
            store,
            position=store.position,
            boot_ts=self._boot_ts,
            deploy_generation=deploy_generation,
            rows=rows,
        )

    def last_upgrade(self) -> LastUpgrade | None:
        """What the last upgrade did, if there was one."""
        note = self._shard.last_upgrade(upper_of(self._shard.state()))
        return None if note is None else LastUpgrade.decode(note)

    def _stored_config(self) -> dict[str, int]:
        return read_config(self._shard.rows(CONFIG, upper_of(self._shard.state())).items())

    def _reader(self) -> Store:
        state = self._shard.state()
        fence = self._shard.fence(upper_of(state))
        if fence is None:
            return VacantStore(STORE, self.is_initialized)
        return ShardStore(self._shard, state, fence)


class _Snapshot:
    """The rows just before one upper, each collection read once."""

    def __init__(self, shard: Shard, upper: int) -> None:
        self._shard = shard
        self._upper = upper
        self._rows: dict[str, Rows] = {}

    def rows(self, collection: str) -> Rows:
        found = self._rows.get(collection)
        if found is None:
            found = self._rows[collection] = self._shard.rows(collection, self._upper)
        return found

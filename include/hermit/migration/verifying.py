"""Comparing both stores of a catalog in partitions, beside whoever serves it: for catalogs of any size.

The digest is a sum over all stored updates, each times its diff. So a partition is any part of them: a range
of pages of the stash's heap under one exported snapshot, or some data files of the shard at one state.
Nothing needs to be consolidated, nobody is fenced, and nothing is written.

What was read is one state of each side, but nobody made sure that both are of the same moment. If the version
of each side is the same after reading as before, they are; otherwise the verification says which moved.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from hermit.digest import Digest, digest_updates
from hermit.durable.contents import MOVED
from hermit.errors import NotInitialized
from hermit.migration.executors import each
from hermit.migration.parts import Part
from hermit.migration.protocol import Store
from hermit.migration.staging import plan_stash, split_by_collection, without_own_config
from hermit.migration.steps import differing
from hermit.migration.work import Task, Workers

if TYPE_CHECKING:
    from hermit.durable.store import Position
    from hermit.migration.stores import Stores
    from hermit.persist.state import State
    from hermit.stash.bulk import Export

EQUAL, DIFFERENT, MOVING, FAILED = range(4)
"""How the job ends: its exit codes."""

_BATCH_ROWS = 65_536


@dataclass(frozen=True)
class Verification:
    """What both sides hold, at which content versions, and which of them changed while they were read."""

    stash: Mapping[str, Digest]
    persist: Mapping[str, Digest]
    versions: Mapping[str, int]
    moved: list[str]

    @property
    def different(self) -> list[str]:
        """The collections in which both sides differ."""
        return differing(self.stash, self.persist)

    @property
    def exit_code(self) -> int:
        if self.moved:
            return MOVING
        return DIFFERENT if self.different else EQUAL

    def to_json(self) -> dict[str, Any]:
        different, empty = self.different, Digest()
        return {
            "collections": {
                name: {
                    "stash": str(self.stash.get(name, empty)),
                    "persist": str(self.persist.get(name, empty)),
                    "equal": name not in different,
                }
                for name in MOVED
            },
            "equal": not different,
            "content_versions": dict(self.versions),
            "moved": self.moved,
        }


def verify(stores: Stores, workers: Workers) -> Verification:
    """Read both stores, and compare rows and digests per collection."""
    from hermit.durable.shard import Shard, position_of
    from hermit.stash import bulk

    for side in (stores.stash, stores.persist):
        if not side.is_initialized():
            raise NotInitialized(f"the {side.store} of {stores.organization_id} holds no catalog to compare")
    shard = Shard(stores.location)
    stash_before, state = _stash_position(stores), shard.state()
    with (
        stores.stash_client.open_read_only() as stash,
        bulk.export(stash, 1, as_stored=True) as export,
    ):
        tasks = [*_ranges(export, workers), *_files(state, workers)]
        # One partition of each side is a small catalog.
        found = each(workers, partial(digest_part, stores.location, stores.stash_url, export), tasks, alone=2)
    moved = {
        Store.STASH: _stash_position(stores) != stash_before,
        Store.PERSIST: position_of(shard.state()) != position_of(state),
    }
    return Verification(
        stash=found.read,
        persist=found.staged,
        versions={Store.STASH.value: export.version, Store.PERSIST.value: position_of(state).version},
        moved=[store.value for store, has_moved in moved.items() if has_moved],
    )


def _stash_position(stores: Stores) -> Position | None:
    from hermit.durable.stash import position_of

    return stores.stash_client.look(lambda found: None if found is None else position_of(found))


def _ranges(export: Export, workers: Workers) -> Iterator[Task]:
    for pages in plan_stash(export, workers).partitions.values():
        yield Store.STASH.value, pages


def _files(state: State, workers: Workers) -> Iterator[Task]:
    """The files of the shard, large and small ones in each partition."""
    files = sorted(state.files(MOVED), key=lambda file: -file.bytes)
    pieces = workers.partitions(sum(file.rows for file in files), sum(file.bytes for file in files))
    for number in range(min(pieces, len(files))):
        yield Store.PERSIST.value, [file.to_json() for file in files[number::pieces]]


def digest_part(location: str, stash_url: str, export: Export, task: Task) -> Part:
    """What one partition adds to the digests of its side: as read from the stash, as staged from persist."""
    store, what = task
    updates = (
        _stored_in_stash(stash_url, export, what)
        if store == Store.STASH.value
        else _stored_in_files(location, what)
    )
    found: dict[str, Digest] = {}
    rows = size = 0
    for collection, batch in updates:
        if collection in MOVED:
            found[collection] = found.get(collection, Digest()) + digest_updates(collection, *batch.columns)
            rows += batch.num_rows
            size += batch.nbytes
    read, staged = (found, {}) if store == Store.STASH.value else ({}, found)
    return Part([], read, staged, rows, size)


def _stored_in_stash(stash_url: str, export: Export, pages: tuple[int, int]) -> Iterator[tuple[str, Any]]:
    from hermit.stash import bulk

    for batch in bulk.read_range(stash_url, export, *pages, _BATCH_ROWS, with_diff=True):
        yield from split_by_collection(batch, export.collections)


def _stored_in_files(location: str, files: list[dict[str, Any]]) -> Iterator[tuple[str, Any]]:
    from hermit.persist.batch import stream_file
    from hermit.persist.commit import DataFile

    for file in map(DataFile.from_json, files):
        for batch in stream_file(location, file, ["key", "value", "diff"], batch_rows=_BATCH_ROWS):
            yield file.collection, without_own_config(file.collection, batch)

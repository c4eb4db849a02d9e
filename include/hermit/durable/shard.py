"""The shard: a persist location as the catalog uses it, and one opener's place in it.

The 18 kinds, the fence and `contents` are collections of one location with one timeline: every commit
appends at the common upper T and moves all uppers to T + 1. `contents` has no rows: its upper moves only
with commits that change the contents, and so is the version that tells whether they changed.

Who appends must name the upper that it expects, so that a newer opener, having appended its fence, cuts
off every older one: there is no lock to hold, and none to lose.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from hermit.durable import fence as fences
from hermit.durable.bootstrap import Rows
from hermit.durable.contents import FENCE, MOVED
from hermit.durable.errors import ConcurrentChange, NotACatalog
from hermit.durable.fence import Fence
from hermit.durable.last_upgrade import UPGRADE_NOTE
from hermit.durable.presence import ShardPresence
from hermit.durable.store import HISTORY_INTERVAL, HISTORY_KEPT, Commit, Position, RowChange
from hermit.errors import CorruptData, HermitError
from hermit.persist import PersistClient
from hermit.persist.errors import CommitConflict, HistoryCompacted, UpperMismatch
from hermit.rows import Row, Update

if TYPE_CHECKING:
    from hermit.persist.batch import BatchWriter
    from hermit.persist.commit import StagedFile
    from hermit.persist.state import State

STORE = "persist"
VERSION = "contents"
UPGRADE = UPGRADE_NOTE.encode()
_TIMED = (*MOVED, FENCE)
# The catalog holds its objects itself; this is for the fence and for files that are soon merged.
_CACHE_BYTES = 1 << 20
_MANY_ROWS = 10_000
# So many rows are held twice while a collection is read: as they were decoded, and as they are kept.
_BATCH_ROWS = 8192

Records = dict[str, list[tuple[bytes, bytes, int, int]]]


class Staged(NamedTuple):
    """A batch of files that no commit names yet."""

    batch_id: str
    files: Sequence[StagedFile]


class Shard:
    """A location, read and appended to as one timeline."""

    def __init__(self, location: str, storage_options: dict[str, str] | None = None) -> None:
        self.client = PersistClient.open(
            location, mode="rw", storage_options=storage_options, cache_bytes=_CACHE_BYTES
        )
        self.location = location
        self._storage_options = storage_options

    def state(self) -> State:
        """The latest state, in which all collections of the catalog must be on one timeline."""
        state = self.client.state()
        uppers = {name: state.upper(name) for name in _TIMED}
        astray = sorted(name for name, upper in uppers.items() if upper != uppers[FENCE])
        if astray:
            what = "has no fence" if not uppers[FENCE] else f"has its fence at time {uppers[FENCE]}"
            where = ", ".join(f"{name} at {uppers[name]}" for name in astray)
            raise NotACatalog(
                f"{self.location} is no shard of a catalog: it {what}, but {where}",
                location=self.location,
                collections=astray,
            )
        return state

    def pairs(self, collection: str, upper: int) -> Iterator[tuple[bytes, bytes]]:
        """The same rows as `rows`, streamed: a batch of them is in memory at a time."""
        if not upper:
            return
        for _, table in self.client.snapshot_tables([collection], upper - 1, batch_rows=_BATCH_ROWS):
            if any(diff != 1 for diff in table["diff"].to_pylist()):
                raise self._not_one_value(collection)
            yield from zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True)

    def rows(self, collection: str, upper: int) -> Rows:
        """The live rows of a collection just before this upper, by key."""
        rows: Rows = {}
        count = self._read(collection, upper, rows) if upper else 0
        if count > _MANY_ROWS:
            _give_back_memory()
        if count != len(rows):
            raise self._not_one_value(collection)
        return rows

    def table(self, collection: str, pairs: Iterable[tuple[bytes, bytes]]) -> Rows:
        """Rows of a collection by key, of which each must have one."""
        rows: Rows = {}
        for key, value in pairs:
            if rows.setdefault(key, value) is not value:
                raise self._not_one_value(collection)
        return rows

    def _not_one_value(self, collection: str) -> CorruptData:
        return CorruptData(
            f"{collection} in {self.location} does not hold one value for each key",
            hint="restore the catalog from a copy",
            collection=collection,
        )

    def _read(self, collection: str, upper: int, rows: Rows) -> int:
        from pyarrow.compute import sum as sum_of

        count = 0
        for _, table in self.client.snapshot_tables([collection], upper - 1, batch_rows=_BATCH_ROWS):
            count += sum_of(table["diff"]).as_py()
            rows.update(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True))
        return count

    def updates(self, state: State, collections: Sequence[str]) -> Iterator[Update]:
        """The stored updates."""
        from hermit.persist.batch import read_file
        from hermit.persist.frontier import time_from_long

        for file in state.files(collections):
            table = read_file(self.location, file, storage_options=self._storage_options)
            columns = [table[name].to_pylist() for name in ("key", "value", "time", "diff")]
            for key, value, time, diff in zip(*columns, strict=True):
                yield Update(file.collection, key, value, time_from_long(time), diff)

    def fence(self, upper: int) -> Fence | None:
        """Who had opened the catalog last, just before this upper."""
        return fences.find(self.rows(FENCE, upper).items())

    def last_upgrade(self, upper: int) -> bytes | None:
        """What was written down about the last upgrade, just before this upper."""
        return self.rows(FENCE, upper).get(UPGRADE)

    def append(self, state: State, changes: Iterable[RowChange], fence: Records) -> State:
        """Append at the common upper, if it still is the upper, and move it by one."""
        upper = upper_of(state)
        records: Records = dict(fence)
        for row, diff in changes:
            records.setdefault(row.collection, []).append((row.key, row.value, upper, diff))
        expected, new_upper = dict.fromkeys(_TIMED, upper), dict.fromkeys(_TIMED, upper + 1)
        if len(records) > len(fence):
            expected[VERSION], new_upper[VERSION] = state.upper(VERSION), upper + 1
        return self.client.compare_and_append(
            records, expected=expected, new_upper=new_upper, since=_since(state, upper)
        )

    def stage(self, write: Callable[[BatchWriter], None]) -> Staged:
        """Rows in files that no commit names yet."""
        from hermit.persist.batch import BatchWriter

        staged = Staged(f"upgrade-{uuid.uuid4().hex}", [])
        try:
            with BatchWriter(self.location, staged.batch_id, storage_options=self._storage_options) as writer:
                write(writer)
                return staged._replace(files=writer.finish())
        except BaseException:
            self.drop(staged)
            raise

    def drop(self, staged: Staged) -> None:
        """Delete staged files that no commit names after all. If that fails, a vacuum will, some day."""
        from hermit.persist.batch import drop_staged

        with suppress(OSError, HermitError):
            drop_staged(self.location, staged.batch_id, self._storage_options)

    def replace_collections(
        self, state: State, staged: Staged, collections: Sequence[str], fence: Records
    ) -> State:
        """Make a batch all that these collections hold, and append the fence, if nobody committed since."""
        return self.client.replace_with_batch(
            staged.files,
            collections=collections,
            version=state.version,
            updates=fence,
            new_upper=dict.fromkeys((*_TIMED, VERSION), upper_of(state) + 1),
        )

    def replace(self, version: int, upper: int, files: Sequence[StagedFile], own: Sequence[Row]) -> State:
        """Make the files all contents, beside the rows that are this store's own."""
        records: Records = {}
        for row in own:
            records.setdefault(row.collection, []).append((row.key, row.value, upper, +1))
        return self.client.replace_with_batch(
            files,
            collections=MOVED,
            version=version,
            updates=records,
            new_upper=dict.fromkeys((*_TIMED, VERSION), upper + 1),
        )


def _give_back_memory() -> None:
    """Arrow keeps what it freed for next time; but a catalog is read once, and its rows are ours by now."""
    import pyarrow as pa

    pa.default_memory_pool().release_unused()


def fence_records(upper: int, stored: Fence | None, fence: Fence) -> Records:
    """Retract the fence that is stored, whatever anybody remembers, and write the next."""
    records = [(fences.KEY, fence.encode(), upper, +1)]
    if stored is not None:
        records.append((fences.KEY, stored.encode(), upper, -1))
    return {FENCE: records}


def upgrade_records(upper: int, stored: bytes | None, note: bytes) -> Records:
    """Write down what an upgrade did, beside the fence, in place of the note on the one before."""
    records = [(UPGRADE, note, upper, +1)]
    if stored is not None:
        records.append((UPGRADE, stored, upper, -1))
    return {FENCE: records}


def _since(state: State, upper: int) -> dict[str, int]:
    """How far old history may be folded; moved rarely, because every moved frontier is part of the commit."""
    bound = upper - HISTORY_KEPT
    if bound <= 0 or upper % HISTORY_INTERVAL:
        return {}
    return {name: bound for name in _TIMED if state.since(name) < bound}


def upper_of(state: State) -> int:
    """The common upper; 0 for a shard that nobody opened."""
    return state.upper(FENCE)


def position_of(state: State) -> Position:
    """Where the contents are in this state."""
    version = state.upper(VERSION)
    return Position(version, version, state.table_id)


class ShardStore:
    """One opener's place in a shard."""

    name = STORE

    def __init__(self, shard: Shard, state: State, fence: Fence) -> None:
        self._shard = shard
        self._state = state
        self._fence = fence
        self._presence = ShardPresence(shard.location, fence.epoch)

    def hold(self) -> None:
        """Let others see that the shard is held open for writing."""
        self._presence.hold()

    @property
    def epoch(self) -> int:
        return self._fence.epoch

    @property
    def nonce(self) -> str:
        return self._fence.nonce

    @property
    def position(self) -> Position:
        """Where the contents were when this opener last looked."""
        return position_of(self._state)

    def check(self) -> Position:
        """One call to the store if nobody committed; otherwise a look at who did."""
        if not self._shard.client.is_current(self._state.version):
            state = self._shard.state()
            if upper_of(state) != upper_of(self._state) or state.table_id != self._state.table_id:
                self._compare(state)
            self._state = state
        return self.position

    def confirm(self) -> None:
        # Taken over only when compared: what is taken over is not compared again until it changes.
        state = self._shard.state()
        self._compare(state)
        self._state = state

    def read(self, collections: Sequence[str]) -> tuple[Position, Mapping[str, Rows]]:
        position, upper = self.check(), upper_of(self._state)
        return position, {name: self._shard.rows(name, upper) for name in collections}

    def commits_since(self, position: Position) -> tuple[Position, list[Commit]] | None:
        """Step by step, the fence of each time first: what a newer opener wrote is never looked at."""
        if self.check().lineage != position.lineage:
            return None
        listener = self._shard.client.listen(_TIMED, position.time - 1, resume=True)
        try:
            steps = listener.poll()
        except HistoryCompacted:
            return None
        commits: list[Commit] = []
        for step in steps:
            if any(update.collection == FENCE for update in step.updates):
                self.confirm()
            elif step.updates:
                commits.append(Commit(step.time, step.updates))
        version = commits[-1].time + 1 if commits else position.version
        return position._replace(version=version, time=version), commits

    def wait(self, timeout_s: float) -> None:
        self._shard.client.listen([FENCE], upper_of(self._state) - 1, resume=True).poll(timeout_s)

    def updates(self) -> Iterable[Update]:
        self.check()
        return self._shard.updates(self._state, MOVED)

    def commit(self, position: Position, changes: Sequence[RowChange]) -> Position:
        if position != self.position:
            raise self._changed()
        try:
            self._state = self._shard.append(self._state, changes, {})
        except (UpperMismatch, CommitConflict) as conflict:
            self.check()
            raise self._changed() from conflict
        return self.position

    def replace(self, files: Sequence[StagedFile], own: Sequence[Row]) -> None:
        """Other contents take the place of all there are, in one commit."""
        while True:
            before = self.check()
            state = self._state
            try:
                self._state = self._shard.replace(state.version, upper_of(state), files, own)
            except CommitConflict as conflict:
                # A compaction moves the version and nothing else: then, and only then, once more.
                if self.check() != before:
                    raise self._changed() from conflict
            else:
                return

    def close(self) -> None:
        self._presence.release()

    def _compare(self, state: State) -> None:
        self._fence.check(self._shard.fence(upper_of(state)), f"persist catalog in {self._shard.location}")

    def _changed(self) -> ConcurrentChange:
        return ConcurrentChange(
            f"the persist catalog in {self._shard.location} was changed by another holder of this token"
        )


def frontiers(state: State) -> dict[str, Any]:
    """What `status` shows of a shard."""
    return {"upper": upper_of(state), "since": state.since(MOVED[0]), "delta_version": state.version}

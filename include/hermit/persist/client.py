"""The client of a location: what the catalog and everything else uses.

Guarantees, each kept by `Table` or checked here before anything is written:

- `compare_and_append` is one commit, conditional on the version at which every expected upper held. It
  needs no lock. It returns when everything is durable, or raises and has changed nothing.
- Frontiers move forward only, `since <= upper`; contents at t in `[since, upper)` never change.
- A replacing batch drops what its collections held and moves their `since` to the old upper, so that its
  rows, which carry time 0, count as present from there on, and no time before is readable any more.

Opening writes nothing. A location that does not exist has version -1; its first commit creates it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from hermit.errors import InvalidInput, NotInitialized, ReadOnly
from hermit.persist import check
from hermit.persist.commit import Commit, DataFile, StagedFile
from hermit.persist.errors import CommitConflict, StagedFileMissing, corrupt
from hermit.persist.frontier import Frontier
from hermit.persist.state import State
from hermit.persist.storage.abc import Storage
from hermit.persist.storage.open import open_storage
from hermit.persist.table import Table

if TYPE_CHECKING:
    import pyarrow as pa

Record: TypeAlias = tuple[bytes, bytes, int, int]
_ATTEMPTS_MAX = 1000


class PersistClient:
    """A location, opened to read or to read and write. Safe to use from many threads."""

    def __init__(
        self,
        storage: Storage,
        *,
        mode: Literal["rw", "ro"] = "rw",
        now_ms: Callable[[], int] | None = None,
    ) -> None:
        self.location = storage.location
        self.mode = mode
        self._table = Table(storage)
        self._blob = storage.blob
        self._now_ms = now_ms or (lambda: time.time_ns() // 1_000_000)

    @classmethod
    def open(
        cls,
        location: str | Path,
        *,
        mode: Literal["rw", "ro"] = "rw",
        storage_options: dict[str, str] | None = None,
        storage: Storage | None = None,
        now_ms: Callable[[], int] | None = None,
    ) -> PersistClient:
        """Open a location. Writes nothing, whatever the mode."""
        return cls(storage or open_storage(location, storage_options), mode=mode, now_ms=now_ms)

    # State

    def state(self) -> State:
        """The latest version and all frontiers, linearized: whatever was acknowledged before is in it."""
        return self._table.refresh()

    @property
    def is_initialized(self) -> bool:
        """Whether the location exists, that is, somebody ever committed to it."""
        return self.state().version >= 0

    def exists(self) -> bool:
        return self.is_initialized

    def is_current(self, version: int) -> bool:
        """Whether this is still the latest version: one call to the store.

        False also after a compaction, which changes no contents: then compare the uppers of `state()`.
        """
        return self._table.is_current(version)

    # Writing

    def compare_and_append(
        self,
        updates: Mapping[str, Sequence[Record]],
        *,
        expected: Mapping[str, int],
        new_upper: Mapping[str, int],
        since: Mapping[str, int] | None = None,
        metadata: Mapping[str, str] | None = None,
        version: int | None = None,
    ) -> State:
        """Append records and move frontiers in one durable commit, if every expected upper still holds.

        Records are (key, value, time, diff) with `expected <= time < new_upper` of their collection. With
        `version`, nothing at all may have been committed after that version either.
        """
        self._check_writable()
        check.append_arguments(updates, expected, new_upper, since or {})
        return self._append(
            files=(),
            updates=updates,
            expected=expected,
            new_upper=new_upper,
            since=since or {},
            metadata=metadata or {},
            version=version,
        )

    def compare_and_append_batch(
        self,
        files: Sequence[StagedFile],
        *,
        expected: Mapping[str, int],
        new_upper: Mapping[str, int],
        updates: Mapping[str, Sequence[Record]] | None = None,
        since: Mapping[str, int] | None = None,
        metadata: Mapping[str, str] | None = None,
        version: int | None = None,
    ) -> State:
        """Append the files of a batch, whose rows carry a time that is not sealed yet, and records."""
        self._check_writable()
        check.append_arguments(updates or {}, expected, new_upper, since or {})
        check.batch_times(files, expected, new_upper)
        self._check_staged(files)
        return self._append(
            files=files,
            updates=updates or {},
            expected=expected,
            new_upper=new_upper,
            since=since or {},
            metadata=metadata or {},
            version=version,
        )

    def replace_with_batch(
        self,
        files: Sequence[StagedFile],
        *,
        collections: Sequence[str],
        version: int,
        new_upper: Mapping[str, int],
        updates: Mapping[str, Sequence[Record]] | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> State:
        """Make the files of a batch, which carry time 0, all that these collections hold.

        One commit, conditional on `version`, whose time does not depend on the number of rows. `since` of
        the replaced collections moves to their old upper. Records in `updates` are appended on top, also to
        collections that are not replaced; those keep everything else.
        """
        self._check_writable()
        state = self.state()
        if state.version != version:
            raise _conflict(self.location, version, state.version)
        expected = {name: state.upper(name) for name in {*collections, *new_upper}}
        since = {name: expected[name] for name in collections if expected[name]}
        check.replace_arguments(files, collections, new_upper, expected)
        check.append_arguments(updates or {}, expected, new_upper, since)
        self._check_staged(files)
        return self._append(
            files=files,
            updates=updates or {},
            expected=expected,
            new_upper=new_upper,
            since=since,
            metadata=metadata or {},
            version=version,
            removes=state.files(collections),
        )

    def _append(
        self,
        *,
        files: Sequence[DataFile],
        updates: Mapping[str, Sequence[Record]],
        expected: Mapping[str, int],
        new_upper: Mapping[str, int],
        since: Mapping[str, int],
        metadata: Mapping[str, str],
        version: int | None,
        removes: Sequence[DataFile] = (),
    ) -> State:
        """Write the records once, then commit them as often as it takes until somebody's upper moved."""
        state = self._state_for(expected, version)
        check.expected_uppers(state, expected)
        check.sinces(state, since, new_upper)
        written = self._write_records(updates)
        try:
            for _ in range(_ATTEMPTS_MAX):
                commit = Commit(
                    previous=state.checksum,
                    timestamp_ms=self._now_ms(),
                    adds=(*files, *written),
                    removes=tuple(removes),
                    upper={n: upper for n, upper in new_upper.items() if upper != state.upper(n)},
                    since={n: bound for n, bound in since.items() if bound != state.since(n)},
                    metadata=metadata,
                )
                try:
                    state = self._table.commit(state, commit)
                except CommitConflict as conflict:
                    state = self.state()
                    if version is not None:
                        raise _conflict(self.location, version, state.version) from conflict
                    check.expected_uppers(state, expected)
                    check.sinces(state, since, new_upper)
                else:
                    return self._after_commit(state)
            raise _conflict(self.location, state.version, state.version)
        except (CommitConflict, InvalidInput):
            self._discard(written)
            raise

    def _after_commit(self, state: State) -> State:
        from hermit.persist.checkpoint import INTERVAL

        if state.version and state.version % INTERVAL == 0:
            self._table.checkpoint(state)
        return state

    def _state_for(self, expected: Mapping[str, int], version: int | None) -> State:
        """The cached state if the condition holds there, since the commit checks it; else the latest."""
        state = self._table.cached
        if version is not None:
            if state.version != version:
                state = self.state()
            if state.version != version:
                raise _conflict(self.location, version, state.version)
            return state
        if state.version < 0 or any(state.upper(name) != upper for name, upper in expected.items()):
            state = self.state()
        return state

    def _write_records(self, updates: Mapping[str, Sequence[Record]]) -> list[DataFile]:
        from hermit.persist import files

        batch = files.new_batch()
        written: dict[str, bytes] = {}
        described: list[DataFile] = []
        for name, records in updates.items():
            records = files.consolidate_records(records)
            if records:
                file, data = files.encode(batch, name, records)
                described.append(file)
                written[file.path] = data
        if written:
            self._blob.put(written)
        return described

    def _discard(self, written: Sequence[DataFile]) -> None:
        """Files that no commit names. Left behind, they would only take space until the next vacuum."""
        for file in written:
            with suppress(OSError):
                self._blob.delete(file.path)

    def _check_writable(self) -> None:
        if self.mode == "ro":
            raise ReadOnly(f"{self.location} was opened to read only")

    def _check_staged(self, files: Sequence[StagedFile]) -> None:
        """A commit must not name a file that is not there: one listing, whatever the number of rows."""
        folders = {file.path.rpartition("/")[0] for file in files}
        there = {info.key: info.bytes for folder in folders for info in self._blob.list(folder)}
        for file in files:
            if there.get(file.path) != file.bytes:
                raise StagedFileMissing(
                    f"staged file {file.path} is not in {self.location} with {file.bytes} bytes",
                    hint="stage the batch again",
                    path=file.path,
                )

    # Reading

    def snapshot(
        self, names: Sequence[str], as_of: int | None = None
    ) -> Iterator[tuple[str, bytes, bytes, int]]:
        """The contents at a time, by default the latest: (collection, key, value, diff), each row once."""
        for name, table in self._snapshot(names, as_of):
            for batch in table.to_batches(max_chunksize=65536):
                columns = [column.to_pylist() for column in batch.columns]
                yield from ((name, key, value, diff) for key, value, diff in zip(*columns, strict=True))

    def snapshot_arrow(self, names: Sequence[str], as_of: int | None = None) -> Iterator[pa.RecordBatch]:
        """The same as record batches with the columns collection (dictionary), key, value, diff."""
        import pyarrow as pa

        for name, table in self._snapshot(names, as_of):
            label = pa.array([name], pa.string())
            for batch in table.to_batches():
                tag = pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), len(batch)), label)
                yield pa.RecordBatch.from_arrays(
                    [tag, *batch.columns], names=["collection", *batch.schema.names]
                )

    def _snapshot(self, names: Sequence[str], as_of: int | None) -> Iterator[tuple[str, Any]]:
        from hermit.persist import files, snapshot

        state = self._readable_state(names, as_of)
        for name in names:
            at = state.upper(name) - 1 if as_of is None else as_of
            check.readable(name, state.frontier(name), at)

            def load(file: DataFile) -> Any:
                try:
                    return files.load(self._blob, self.location, file)
                except FileNotFoundError as error:
                    raise self._missing(file) from error

            for table in snapshot.tables(state.files([name]), at, load):
                if table.num_rows:
                    yield name, table

    def _readable_state(self, names: Sequence[str], as_of: int | None) -> State:
        """A state at which the time is readable. Contents at a time never change, so a cached one will do."""
        state = self._table.cached
        if as_of is None or state.version < 0 or any(as_of >= state.upper(name) for name in names):
            state = self.state()
        if state.version < 0:
            raise NotInitialized(f"{self.location} does not exist", location=self.location)
        return state

    def _missing(self, file: DataFile) -> Exception:
        return corrupt(self.location, file.path, "the file is missing", collection=file.collection)

    def files(self, names: Sequence[str] | None = None, version: int | None = None) -> list[DataFile]:
        """The live files, which together are the contents, at the latest or exactly the given version."""
        state = self.state()
        if version is not None and state.version != version:
            raise _conflict(self.location, version, state.version)
        return state.files(names)

    def is_consolidated(self, names: Sequence[str]) -> bool:
        """Whether the files of each collection hold each row once, all with diff 1: no sum is needed."""
        from hermit.persist.snapshot import is_distinct

        state = self.state()
        for name in names:
            files = state.files([name])
            if files and (len({file.batch for file in files}) > 1 or not is_distinct(files)):
                return False
        return True

    def frontier(self, name: str) -> Frontier:
        """The latest `[since, upper)` of a collection."""
        return self.state().frontier(name)


def _conflict(location: str, expected: int, current: int) -> CommitConflict:
    return CommitConflict(
        f"{location} is at version {current}, not at version {expected}", expected=expected, current=current
    )

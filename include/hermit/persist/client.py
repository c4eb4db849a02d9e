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

import copy
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from hermit.errors import ReadOnly
from hermit.persist import check
from hermit.persist.appender import Append, Appender, Record
from hermit.persist.codec import BytesCodec, Codec
from hermit.persist.commit import DataFile, StagedFile
from hermit.persist.errors import StagedFileMissing
from hermit.persist.frontier import Frontier
from hermit.persist.handles import MultiWriteHandle, ReadHandle, WriteHandle
from hermit.persist.lifecycle import RuntimeSlot
from hermit.persist.listen import Listener
from hermit.persist.lock import Holder, WriteLock
from hermit.persist.maintenance import Maintenance
from hermit.persist.metrics import Metrics
from hermit.persist.reader import Reader
from hermit.persist.runtime import Call, PersistFuture, Runtime
from hermit.persist.state import State, check_name
from hermit.persist.storage.abc import Storage
from hermit.persist.storage.cache import CachingBlob
from hermit.persist.storage.open import open_storage
from hermit.persist.storage.retry import RetryPolicy, with_retries
from hermit.persist.table import Table

if TYPE_CHECKING:
    import pyarrow as pa

    from hermit.persist.vacuum import Vacuumed

K = TypeVar("K")
V = TypeVar("V")
CACHE_BYTES = 64 << 20
_BYTES: Codec[Any] = BytesCodec()


class PersistClient:
    """A location, opened to read or to read and write. Safe to use from many threads."""

    def __init__(
        self,
        storage: Storage,
        *,
        mode: Literal["rw", "ro"] = "rw",
        cache_bytes: int = CACHE_BYTES,
        retry: RetryPolicy | None = None,
        maintain: bool = True,
        reentrance_id: str | None = None,
        now_ms: Callable[[], int] | None = None,
    ) -> None:
        self.location = storage.location
        self.mode = mode
        self.metrics = Metrics()
        retried = with_retries(storage, retry or RetryPolicy(), self.metrics)
        clock = now_ms or (lambda: time.time_ns() // 1_000_000)
        self._blob = CachingBlob(retried.blob, cache_bytes, self.metrics)
        table = self._table = Table(Storage(storage.location, self._blob, retried.log), self.metrics)
        self._reader = Reader(table, self._blob)
        appender = Appender(table, self._blob, clock)
        maintenance = Maintenance(table, self._reader, appender, clock, automatic=maintain)
        lock = WriteLock(table, self._reader, appender)
        holder = reentrance_id or uuid.uuid4().hex
        self._maintenance = maintenance
        self._lock = lock
        self._slot = RuntimeSlot(
            self.location, lambda: Runtime(table, maintenance.append, lock, holder, clock)
        )
        self._slot.register(self)

    @classmethod
    def open(
        cls,
        location: str | Path,
        *,
        mode: Literal["rw", "ro"] = "rw",
        storage_options: dict[str, str] | None = None,
        storage: Storage | None = None,
        wipe_on_version_change: bool = False,
        **options: Any,
    ) -> PersistClient:
        """Open a location. Writes nothing, whatever the mode, unless `wipe_on_version_change` is given and
        the location is in an encoding that this release does not know. Options, all with good defaults:

        `cache_bytes` of data files kept in memory; `retry`, a `RetryPolicy`; `maintain`, whether commits of
        this client write checkpoints and merge small files now and then; `reentrance_id`, under which the
        first write handle takes the write lock (by default a random one); `now_ms`, the clock.
        """
        storage = storage or open_storage(location, storage_options)
        if wipe_on_version_change and mode == "rw":
            from hermit.persist.wipe import wipe_if_unknown

            wipe_if_unknown(storage)
        return cls(storage, mode=mode, **options)

    # State

    def state(self) -> State:
        """The latest version and all frontiers, linearized: whatever was acknowledged before is in it."""
        self._slot.check()
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

    def frontier(self, name: str) -> Frontier:
        """The latest `[since, upper)` of a collection."""
        return self.state().frontier(name)

    # Life

    def clone(self) -> PersistClient:
        """Another client with the same runtime. When the last clone is gone, the runtime stops."""
        clone = copy.copy(self)
        self._slot.register(clone)
        return clone

    def stop(self) -> None:
        """Finish pending calls, release the write lock; every clone refuses new work from now on."""
        self._slot.stop()

    def __enter__(self) -> PersistClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # Handles

    @overload
    def create_or_load(self, name: str) -> tuple[WriteHandle[bytes, bytes], ReadHandle[bytes, bytes]]: ...

    @overload
    def create_or_load(
        self, name: str, key_codec: Codec[K], value_codec: Codec[V]
    ) -> tuple[WriteHandle[K, V], ReadHandle[K, V]]: ...

    def create_or_load(
        self, name: str, key_codec: Codec[Any] = _BYTES, value_codec: Codec[Any] = _BYTES
    ) -> tuple[WriteHandle[Any, Any], ReadHandle[Any, Any]]:
        """Handles of a collection, new or not. The first of a writing client takes the write lock."""
        check_name(name)
        if self.mode == "rw":
            self._slot.get()
        write = WriteHandle(name, key_codec, value_codec, self._submit, self.frontier)
        return write, ReadHandle(name, key_codec, value_codec, self)

    def multi_write_handle(self, handles: Sequence[WriteHandle[Any, Any]]) -> MultiWriteHandle:
        """A handle that mutates several collections at once."""
        return MultiWriteHandle(handles, self._submit)

    def _submit(self, call: Call) -> PersistFuture[State]:
        self._check_writable()
        return self._slot.get().submit(call)

    def lock_holder(self) -> Holder | None:
        """Who holds the write lock."""
        return self._lock.holder()[0]

    def break_lock(self) -> Holder | None:
        """Take the write lock from whoever holds it; who did. Its next write will fail."""
        self._check_writable()
        return self._lock.force()

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
        return self.compare_and_append_batch(
            (),
            updates=updates,
            expected=expected,
            new_upper=new_upper,
            since=since,
            metadata=metadata,
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
        """The same with the files of a batch, whose rows carry a time that is not sealed yet."""
        self._check_writable()
        check.append_arguments(updates or {}, expected, new_upper, since or {})
        check.batch_times(files, expected, new_upper)
        self._check_staged(files)
        return self._maintenance.append(
            Append(
                files=files,
                updates=updates or {},
                expected=expected,
                new_upper=new_upper,
                since=since or {},
                metadata=metadata or {},
                version=version,
            )
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
        check.version(state, version)
        expected = {name: state.upper(name) for name in {*collections, *new_upper}}
        since = {name: expected[name] for name in collections if expected[name]}
        check.replace_arguments(files, collections, new_upper, expected)
        check.append_arguments(updates or {}, expected, new_upper, since)
        self._check_staged(files)
        return self._maintenance.append(
            Append(
                files=files,
                removes=state.files(collections),
                updates=updates or {},
                expected=expected,
                new_upper=new_upper,
                since=since,
                metadata=metadata or {},
                version=version,
            )
        )

    def _check_writable(self) -> None:
        self._slot.check()
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
        self._slot.check()
        for name, table in self._reader.tables(names, as_of):
            for batch in table.to_batches(max_chunksize=65536):
                columns = [column.to_pylist() for column in batch.columns]
                yield from ((name, key, value, diff) for key, value, diff in zip(*columns, strict=True))

    def snapshot_tables(
        self, names: Sequence[str], as_of: int | None = None, *, batch_rows: int | None = None
    ) -> Iterator[tuple[str, pa.Table]]:
        """The same as tables with the columns key, value, diff, each with the collection's name.

        With `batch_rows`, large files are decoded so many rows at a time: slower, in bounded memory.
        """
        self._slot.check()
        return self._reader.tables(names, as_of, batch_rows=batch_rows)

    def snapshot_arrow(self, names: Sequence[str], as_of: int | None = None) -> Iterator[pa.RecordBatch]:
        """The same as record batches with the columns collection (dictionary), key, value, diff."""
        import pyarrow as pa

        from hermit.persist.arrays import repeated, strings

        self._slot.check()
        for name, table in self._reader.tables(names, as_of):
            label = strings([name])
            for batch in table.to_batches():
                tag = pa.DictionaryArray.from_arrays(repeated(0, pa.int32(), len(batch)), label)
                yield pa.RecordBatch.from_arrays(
                    [tag, *batch.columns], names=["collection", *batch.schema.names]
                )

    def lookup(self, name: str, key: bytes, as_of: int | None = None) -> list[tuple[bytes, int]]:
        """The values of one key at a time, as (value, diff)."""
        self._slot.check()
        found = self._reader.tables([name], as_of, key=key)
        return [
            (value, diff)
            for _, table in found
            for value, diff in zip(table["value"].to_pylist(), table["diff"].to_pylist(), strict=True)
        ]

    def listen(self, names: Sequence[str], as_of: int, *, resume: bool = False) -> Listener:
        """The contents at a time, then every later step exactly once; with `resume` only the steps."""
        self._slot.check()
        # The listener holds on to this client, so that it is not taken for the last one and stopped.
        return Listener(
            self._table, self._reader, names, as_of, resume=resume, stopped=lambda: self._slot.is_stopped
        )

    def files(self, names: Sequence[str] | None = None, version: int | None = None) -> list[DataFile]:
        """The live files, which together are the contents, at the latest or exactly the given version."""
        state = self.state()
        if version is not None:
            check.version(state, version)
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

    # Maintenance

    def replace_files(self, removes: Sequence[DataFile], adds: Sequence[StagedFile]) -> State | None:
        """Put files in the place of others that hold the same contents: the end of a compaction by Spark.

        None, and nothing changed, if some of the others are gone already.
        """
        self._check_writable()
        self._check_staged(adds)
        return self._maintenance.replace_files(removes, adds)

    def compact(self, names: Sequence[str] | None = None) -> State:
        """Fold the history of collections up to `since`, in this process, and merge their files."""
        self._check_writable()
        return self._maintenance.compact(names)

    def vacuum(self, *, retention_s: float | None = None, dry_run: bool = False) -> Vacuumed:
        """Delete files that nobody needs any more."""
        self._check_writable()
        return self._maintenance.vacuum(retention_s, dry_run=dry_run)

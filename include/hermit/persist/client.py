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
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from hermit.errors import ReadOnly
from hermit.persist import check
from hermit.persist.appender import Append, Appender, Record
from hermit.persist.commit import DataFile, StagedFile
from hermit.persist.errors import StagedFileMissing
from hermit.persist.frontier import Frontier
from hermit.persist.maintenance import Maintenance
from hermit.persist.metrics import Metrics
from hermit.persist.reader import Reader
from hermit.persist.state import State
from hermit.persist.storage.abc import Storage
from hermit.persist.storage.cache import CachingBlob
from hermit.persist.storage.open import open_storage
from hermit.persist.storage.retry import RetryPolicy, with_retries
from hermit.persist.table import Table

if TYPE_CHECKING:
    import pyarrow as pa

    from hermit.persist.vacuum import Vacuumed

CACHE_BYTES = 64 << 20


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
        now_ms: Callable[[], int] | None = None,
    ) -> None:
        self.location = storage.location
        self.mode = mode
        self.metrics = Metrics()
        retried = with_retries(storage, retry or RetryPolicy(), self.metrics)
        self._blob = CachingBlob(retried.blob, cache_bytes, self.metrics)
        self._table = Table(Storage(storage.location, self._blob, retried.log), self.metrics)
        self._now_ms = now_ms or (lambda: time.time_ns() // 1_000_000)
        self._reader = Reader(self._table, self._blob)
        self._appender = Appender(self._table, self._blob, self._now_ms)
        self._maintenance = Maintenance(
            self._table, self._reader, self._appender, self._now_ms, automatic=maintain
        )

    @classmethod
    def open(
        cls,
        location: str | Path,
        *,
        mode: Literal["rw", "ro"] = "rw",
        storage_options: dict[str, str] | None = None,
        storage: Storage | None = None,
        cache_bytes: int = CACHE_BYTES,
        retry: RetryPolicy | None = None,
        maintain: bool = True,
        now_ms: Callable[[], int] | None = None,
    ) -> PersistClient:
        """Open a location. Writes nothing, whatever the mode.

        `maintain` lets commits of this client write checkpoints and merge small files now and then.
        """
        return cls(
            storage or open_storage(location, storage_options),
            mode=mode,
            cache_bytes=cache_bytes,
            retry=retry,
            maintain=maintain,
            now_ms=now_ms,
        )

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

    def frontier(self, name: str) -> Frontier:
        """The latest `[since, upper)` of a collection."""
        return self.state().frontier(name)

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
        check.append_arguments(updates or {}, expected, new_upper, since or {})
        check.batch_times(files, expected, new_upper)
        self._check_staged(files)
        return self._append(
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
        state = self.state()
        check.version(state, version)
        expected = {name: state.upper(name) for name in {*collections, *new_upper}}
        since = {name: expected[name] for name in collections if expected[name]}
        check.replace_arguments(files, collections, new_upper, expected)
        check.append_arguments(updates or {}, expected, new_upper, since)
        self._check_staged(files)
        return self._append(
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

    def _append(self, append: Append) -> State:
        if self.mode == "ro":
            raise ReadOnly(f"{self.location} was opened to read only")
        state = self._appender.append(append)
        return self._maintenance.after_commit(state, {*append.updates, *(f.collection for f in append.files)})

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
        for name, table in self._reader.tables(names, as_of):
            for batch in table.to_batches(max_chunksize=65536):
                columns = [column.to_pylist() for column in batch.columns]
                yield from ((name, key, value, diff) for key, value, diff in zip(*columns, strict=True))

    def snapshot_arrow(self, names: Sequence[str], as_of: int | None = None) -> Iterator[pa.RecordBatch]:
        """The same as record batches with the columns collection (dictionary), key, value, diff."""
        import pyarrow as pa

        for name, table in self._reader.tables(names, as_of):
            label = pa.array([name], pa.string())
            for batch in table.to_batches():
                tag = pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), len(batch)), label)
                yield pa.RecordBatch.from_arrays(
                    [tag, *batch.columns], names=["collection", *batch.schema.names]
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

    def compact(self, names: Sequence[str] | None = None) -> State:
        """Fold the history of collections up to `since`, in this process, and merge their files."""
        return self._maintenance.compact(names)

    def vacuum(self, *, retention_s: float | None = None, dry_run: bool = False) -> Vacuumed:
        """Delete files that nobody needs any more."""
        return self._maintenance.vacuum(retention_s, dry_run=dry_run)

"""Batches: contents that are written where nobody looks yet, and named by one commit later.

A `BatchWriter` writes Parquet files below `batches/<id>/` of a location. It needs no table handle, so
that Spark executors use it: each writes its part, `finish` returns the files, the driver collects them and
hands them to one `replace_with_batch` or `compare_and_append_batch`. Files are durable when
`finish` returns. Several writers may share one batch; together they must write each row once.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import xxhash

from hermit.errors import InvalidInput
from hermit.persist import arrays, files
from hermit.persist.commit import DataFile, StagedFile
from hermit.persist.frontier import time_to_long
from hermit.persist.state import check_name
from hermit.persist.storage.abc import Storage, Upload
from hermit.persist.storage.open import open_storage
from hermit.persist.table import Table

FOLDER = "batches"
FILE_BYTES = 128 << 20
_SYNCS = 8
_SAFE = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")


class BatchWriter:
    """Writes files of one batch. Rows carry one time and diff 1; a replacing batch has time 0."""

    def __init__(
        self,
        location: str | Path,
        batch_id: str,
        *,
        time: int = 0,
        file_bytes: int = FILE_BYTES,
        storage_options: dict[str, str] | None = None,
        storage: Storage | None = None,
    ) -> None:
        self._folder = batch_folder(batch_id)
        self._time = time
        self._file_bytes = file_bytes
        self._storage = storage or open_storage(location, storage_options)
        self._open: dict[str, _PartFile] = {}
        self._finished: list[StagedFile] = []

    def write(self, collection: str, batch: pa.RecordBatch) -> None:
        """Add rows, given as the columns key and value, to a collection."""
        rows = batch.num_rows
        columns = [batch.column("key").cast(pa.binary()), batch.column("value").cast(pa.binary())]
        columns.append(arrays.repeated(time_to_long(self._time), pa.int64(), rows))
        columns.append(arrays.repeated(1, pa.int64(), rows))
        self.write_updates(collection, pa.RecordBatch.from_arrays(columns, schema=files.SCHEMA))

    def write_updates(self, collection: str, batch: pa.RecordBatch) -> None:
        """Add updates, with times and diffs of their own, to a collection: the columns of `files.SCHEMA`."""
        if batch.num_rows == 0:
            return
        part = self._open.get(collection)
        if part is None:
            part = self._open[collection] = _PartFile(self._storage.blob.upload(), check_name(collection))
        part.write(batch)
        if part.sink.size >= self._file_bytes:
            self._finished.append(self._open.pop(collection).finish(self._folder))

    def finish(self) -> list[StagedFile]:
        """Close all files. They are durable, and no commit names them yet."""
        parts = list(self._open.values())
        if len(parts) > 1:
            # Syncs that run side by side share the disk's work; one after the other, each waits for its own.
            with ThreadPoolExecutor(_SYNCS) as pool:
                self._finished += pool.map(lambda part: part.finish(self._folder), parts)
        else:
            self._finished += [part.finish(self._folder) for part in parts]
        self._open.clear()
        return sorted(self._finished, key=lambda file: file.path)

    def abort(self) -> None:
        """Forget the files that are not finished."""
        while self._open:
            self._open.popitem()[1].sink.abort()

    def __enter__(self) -> BatchWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.abort()


class _HashingSink:
    """A file object that knows the checksum of what went through it."""

    def __init__(self, upload: Upload) -> None:
        self._upload = upload
        self._hash = xxhash.xxh3_128()
        self.size = 0
        self.closed = False

    def write(self, data: Any) -> int:
        view = memoryview(data)
        self._hash.update(view)
        self.size += view.nbytes
        self._upload.write(bytes(view))
        return view.nbytes

    def tell(self) -> int:
        return self.size

    def flush(self) -> None:
        """What counts is `finish`."""

    def close(self) -> None:
        self.closed = True

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def finish(self, prefix: str, collection: str) -> str:
        key = files.file_name(prefix, collection, self._hash.hexdigest())
        self._upload.finish(key)
        return key

    def abort(self) -> None:
        self._upload.abort()


class _PartFile:
    """One Parquet file while it grows."""

    def __init__(self, upload: Upload, collection: str) -> None:
        self.sink = _HashingSink(upload)
        self._writer = pq.ParquetWriter(self.sink, files.SCHEMA, **files.WRITER_OPTIONS)
        self._collection = collection
        self._rows = 0
        self._times: list[int] = []
        self._diffs: list[int] = []

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch)
        self._rows += batch.num_rows
        for bounds, column in (
            (self._times, batch.column("time").view(pa.uint64())),
            (self._diffs, batch.column("diff")),
        ):
            found = pc.min_max(column)
            bounds[:] = min([*bounds, found["min"].as_py()]), max([*bounds, found["max"].as_py()])

    def finish(self, folder: str) -> StagedFile:
        self._writer.close()
        path = self.sink.finish(f"{folder}/{uuid.uuid4().hex}", self._collection)
        return DataFile(path, self._collection, self._rows, self.sink.size, *self._times, *self._diffs)


def batch_folder(batch_id: str) -> str:
    """The folder of a batch inside its location."""
    if not batch_id or not _SAFE.issuperset(batch_id) or batch_id.startswith("."):
        raise InvalidInput(f"a batch ID holds letters, digits, '_', '-' and '.': {batch_id!r}")
    return f"{FOLDER}/{batch_id}"


def read_file(
    location: str | Path,
    file: DataFile,
    columns: list[str] | None = None,
    *,
    storage_options: dict[str, str] | None = None,
) -> pa.Table:
    """The verified contents of one data file: for Spark executors that were handed a list of files."""
    storage = open_storage(location, storage_options)
    return files.load(storage.blob, storage.location, file, columns)


def stream_file(
    location: str | Path,
    file: DataFile,
    columns: list[str],
    *,
    batch_rows: int,
    storage_options: dict[str, str] | None = None,
) -> Iterator[pa.RecordBatch]:
    """The contents of one data file, verified first, a few rows at a time.

    From a directory the file is read twice, in pieces; from an object store it is held in memory, which
    is as much as one file of a batch is allowed to have.
    """
    storage = open_storage(location, storage_options)
    yield from files.stream_columns(storage.blob, storage.location, file, columns, batch_rows)


def staged_files(
    location: str | Path, batch_id: str, storage_options: dict[str, str] | None = None
) -> dict[str, int]:
    """The files of one batch, whoever wrote them, and their bytes."""
    storage = open_storage(location, storage_options)
    return {info.key: info.bytes for info in storage.blob.list(batch_folder(batch_id))}


def list_staged(location: str | Path, storage_options: dict[str, str] | None = None) -> dict[str, int]:
    """Batches that do not belong to the contents, not yet or no longer: ID and bytes."""
    storage = open_storage(location, storage_options)
    staged: dict[str, int] = {}
    for info in storage.blob.list(FOLDER):
        batch_id, size = info.key.split("/")[1], info.bytes
        staged[batch_id] = staged.get(batch_id, 0) + size
    for named in _named_batches(storage):
        staged.pop(named, None)
    return staged


def drop_staged(
    location: str | Path, batch_id: str, storage_options: dict[str, str] | None = None
) -> list[str]:
    """Delete a batch that does not belong to the contents; the deleted paths."""
    storage = open_storage(location, storage_options)
    if batch_id in _named_batches(storage):
        raise InvalidInput(f"batch {batch_id} of {storage.location} is part of the contents", batch=batch_id)
    folder = batch_folder(batch_id)
    dropped = [info.key for info in storage.blob.list(folder)]
    for key in dropped:
        storage.blob.delete(key)
    return dropped


def _named_batches(storage: Storage) -> set[str]:
    """Batches of the contents."""
    state = Table(storage).refresh()
    return {path.split("/")[1] for path in state.live if path.startswith(f"{FOLDER}/")}

"""Data files: updates as Parquet, written with checksums and verified when read.

A file holds updates of one collection in the columns key, value, time, diff. Its name ends in the
checksum of its bytes, so that whoever names a file also says what must be in it. Pages carry checksums
of their own for readers that read only some of them.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import xxhash

from hermit.errors import InvalidInput
from hermit.persist import arrays
from hermit.persist.commit import DataFile, checksum
from hermit.persist.errors import corrupt
from hermit.persist.frontier import DIFF_MAX, DIFF_MIN, time_from_long, time_to_long
from hermit.persist.storage.abc import Blob, OnDisk

Record: TypeAlias = tuple[bytes, bytes, int, int]

_THREADS_BYTES = 32 << 20
_PIECE_BYTES = 1 << 20
SCHEMA = pa.schema(
    [
        pa.field("key", pa.binary(), nullable=False),
        pa.field("value", pa.binary(), nullable=False),
        pa.field("time", pa.int64(), nullable=False),
        pa.field("diff", pa.int64(), nullable=False),
    ]
)
WRITER_OPTIONS: dict[str, Any] = {
    "compression": "snappy",
    "write_page_checksum": True,
    # Keys are mostly distinct: a dictionary of them costs time and gains nothing.
    "use_dictionary": ["time", "diff"],
    "store_schema": False,
    "write_statistics": ["key", "time"],
}


def new_batch() -> str:
    """A name for what one commit writes."""
    return uuid.uuid4().hex


def file_name(prefix: str, collection: str, digest: str) -> str:
    """A path that carries the checksum and is safe in every store and URL, whatever the collection."""
    slug = re.sub(r"[^A-Za-z0-9_.]", "_", collection)[:40]
    return f"{prefix}-{slug}-{digest}.parquet"


def consolidate_records(records: Iterable[Record]) -> list[Record]:
    """Records with their diffs summed per (key, value, time), in order, without those that cancel out."""
    sums: dict[tuple[bytes, bytes, int], int] = {}
    for key, value, time, diff in records:
        at = (key, value, time)
        sums[at] = sums.get(at, 0) + diff
    return [(*at, diff) for at, diff in sorted(sums.items()) if diff]


def encode(batch: str, collection: str, records: Sequence[Record]) -> tuple[DataFile, bytes]:
    """The Parquet file of these records, which must be consolidated and not empty."""
    diffs = [diff for _, _, _, diff in records]
    if not DIFF_MIN <= min(diffs) <= max(diffs) <= DIFF_MAX:
        raise InvalidInput(f"a diff of collection {collection} does not fit into 64 bits")
    return encode_table(f"data/{batch}", collection, table_of(records))


def table_of(records: Sequence[Record]) -> pa.Table:
    """Records as a table in `SCHEMA`."""
    return pa.table(
        [
            arrays.binaries([key for key, _, _, _ in records]),
            arrays.binaries([value for _, value, _, _ in records]),
            arrays.longs(time_to_long(time) for _, _, time, _ in records),
            arrays.longs(diff for _, _, _, diff in records),
        ],
        schema=SCHEMA,
    )


def encode_table(prefix: str, collection: str, table: pa.Table) -> tuple[DataFile, bytes]:
    """The Parquet file of a table in `SCHEMA`."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **WRITER_OPTIONS)
    data = sink.getvalue().to_pybytes()
    return describe(file_name(prefix, collection, checksum(data)), collection, table, len(data)), data


def describe(path: str, collection: str, table: pa.Table, size: int) -> DataFile:
    """What a commit says about a file with this table in it."""
    times = pc.min_max(table["time"].combine_chunks().view(pa.uint64()))
    diffs = pc.min_max(table["diff"])
    return DataFile(
        path,
        collection,
        table.num_rows,
        size,
        times["min"].as_py(),
        times["max"].as_py(),
        diffs["min"].as_py(),
        diffs["max"].as_py(),
    )


def load(blob: Blob, location: str, file: DataFile, columns: list[str] | None = None) -> pa.Table:
    """The table in a file, after its bytes were compared with the checksum in its name."""
    data = blob.get(file.path)
    if data is None:
        raise FileNotFoundError(file.path)
    return decode(data, location, file, columns)


def stream(blob: Blob, location: str, file: DataFile, batch_rows: int) -> Iterator[pa.Table]:
    """The same in pieces of so many rows: no more than one of them is decoded at a time."""
    data = blob.get(file.path)
    if data is None:
        raise FileNotFoundError(file.path)
    _check_bytes(data, location, file)
    rows = 0
    try:
        for batch in pq.ParquetFile(pa.BufferReader(data)).iter_batches(batch_rows, use_threads=False):
            rows += batch.num_rows
            yield pa.Table.from_batches([batch])
    except (pa.ArrowException, OSError) as error:
        raise corrupt(location, file.path, str(error), collection=file.collection) from error
    _check_rows(rows, location, file)


def stream_columns(
    blob: Blob, location: str, file: DataFile, columns: list[str], batch_rows: int
) -> Iterator[pa.RecordBatch]:
    """The same, a few rows at a time, in the memory of a few rows if the file is on a disk."""
    path = blob.path(file.path) if isinstance(blob, OnDisk) else None
    if path is None:
        yield from load(blob, location, file, columns).to_batches(max_chunksize=batch_rows)
        return
    hashed, size = xxhash.xxh3_128(), 0
    with open(path, "rb") as opened:
        while piece := opened.read(_PIECE_BYTES):
            hashed.update(piece)
            size += len(piece)
    if size != file.bytes:
        raise corrupt(location, file.path, f"it has {size} of {file.bytes} bytes", collection=file.collection)
    if hashed.hexdigest() != file.checksum:
        raise corrupt(location, file.path, "its checksum does not fit", collection=file.collection)
    try:
        # The file may change under our hands after its checksum was found right: pages have their own.
        with pq.ParquetFile(path, page_checksum_verification=True) as parquet:
            yield from parquet.iter_batches(batch_rows, columns=columns, use_threads=False)
    except (pa.ArrowException, OSError) as error:
        raise corrupt(location, file.path, str(error), collection=file.collection) from error


def decode(data: bytes, location: str, file: DataFile, columns: list[str] | None = None) -> pa.Table:
    """The table in these bytes, once they are known to be the ones that were written."""
    _check_bytes(data, location, file)
    try:
        # Not `read_table`, which drags in pandas: 1.5 s before the first row.
        # Threads keep the memory that they once had: not worth it for a file that takes milliseconds.
        table = pq.ParquetFile(pa.BufferReader(data)).read(columns, use_threads=len(data) >= _THREADS_BYTES)
    except (pa.ArrowException, OSError) as error:
        raise corrupt(location, file.path, str(error), collection=file.collection) from error
    _check_rows(table.num_rows, location, file)
    return table


def _check_bytes(data: bytes, location: str, file: DataFile) -> None:
    if len(data) != file.bytes:
        raise corrupt(
            location, file.path, f"it has {len(data)} of {file.bytes} bytes", collection=file.collection
        )
    if checksum(data) != file.checksum:
        raise corrupt(location, file.path, "its checksum does not fit", collection=file.collection)


def _check_rows(rows: int, location: str, file: DataFile) -> None:
    if rows != file.rows:
        raise corrupt(location, file.path, f"it has {rows} of {file.rows} rows", collection=file.collection)


def records_of(table: pa.Table) -> Iterator[Record]:
    """The records of a table in `SCHEMA`."""
    times = map(time_from_long, table["time"].to_pylist())
    keys, values = table["key"].to_pylist(), table["value"].to_pylist()
    return zip(keys, values, times, table["diff"].to_pylist(), strict=True)

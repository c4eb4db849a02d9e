"""Persisted collections as a PySpark data source, batch and streaming.

    spark.dataSource.register(HermitPersistSource)
    spark.read.format("hermit_persist").options(location=…, collection="items", as_of=7).load()
    spark.readStream.format("hermit_persist").options(location=…, collection="items").load()

Options: `location`; `collection`, one or several separated by commas; `as_of`, by default the latest time for
a batch and `since` for a stream; `storage.KEY` for storage options. Columns: collection, key, value, time,
diff. A batch has the contents at `as_of`, each row once, with `as_of` as its time.

A stream delivers the contents at `as_of`, then every later update with its own time, exactly once. Its
offsets are uppers: everything before the offset was delivered. A restarted query goes on at its checkpoint;
if `since` has reached that point meanwhile, it fails with the frontiers in the message instead of guessing.

The driver reads the log and hands lists of files to the executors, which verify each file that they read. The
only module of the catalog that imports pyspark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from hermit.errors import InvalidInput
from hermit.persist import arrays, check, files, snapshot
from hermit.persist.client import PersistClient
from hermit.persist.commit import DataFile
from hermit.persist.errors import HistoryCompacted
from hermit.persist.frontier import time_to_long
from hermit.persist.state import State
from hermit.persist.storage.open import open_storage
from hermit.persist.summing import sum_rows

NAME = "hermit_persist"
_SCHEMA = "collection string, key binary, value binary, time long, diff long"


class _Part(InputPartition):  # type: ignore[misc]
    """What one task reads: contents at `as_of`, or updates with `lower <= time < upper`, of some files."""

    def __init__(
        self,
        collection: str,
        paths: Sequence[dict[str, Any]],
        *,
        as_of: int | None = None,
        lower: int = 0,
        upper: int = 0,
    ) -> None:
        super().__init__(collection)
        self.collection = collection
        self.paths = list(paths)
        self.as_of = as_of
        self.lower = lower
        self.upper = upper


class _Source:
    """Options, and what both kinds of readers do with them."""

    def __init__(self, options: dict[str, str]) -> None:
        for name in ("location", "collection"):
            if not options.get(name):
                raise InvalidInput(f"the data source {NAME} needs the option {name!r}")
        self.location = options["location"]
        self.collections = [name.strip() for name in options["collection"].split(",")]
        self.as_of = int(options["as_of"]) if options.get("as_of") else None
        self.storage_options = {
            key.removeprefix("storage."): value
            for key, value in options.items()
            if key.startswith("storage.")
        } or None

    def state(self) -> State:
        """The latest state. Read by the driver only."""
        client = PersistClient.open(self.location, mode="ro", storage_options=self.storage_options)
        return client.state()

    def contents(self, state: State, as_of: int | None) -> list[_Part]:
        """Tasks for the contents at a time: one per file where rows are known to be distinct."""
        parts = []
        for name in self.collections:
            at = state.upper(name) - 1 if as_of is None else as_of
            check.readable(name, state.frontier(name), at)
            present = [file for file in state.files([name]) if file.time_min <= at]
            base = snapshot.find_base(present, at)
            groups = [[file] for file in present] if len(base) == len(present) else [present]
            parts += [_Part(name, [file.to_json() for file in group], as_of=at) for group in groups if group]
        return parts

    def read(self, part: _Part) -> Iterator[pa.RecordBatch]:
        """Run by the executors."""
        storage = open_storage(self.location, self.storage_options)
        named = [DataFile.from_json(fields) for fields in part.paths]

        def load(file: DataFile) -> pa.Table:
            return files.load(storage.blob, storage.location, file)

        if part.as_of is not None:
            for table in snapshot.tables(named, part.as_of, load):
                times = arrays.repeated(time_to_long(part.as_of), pa.int64(), table.num_rows)
                yield from _batches(part.collection, table.select(["key", "value"]), times, table["diff"])
            return
        updates = [snapshot.between(load(file), part.lower, part.upper) for file in named]
        if updates:
            # Merges may have summed some up already: summing again gives the same, whenever it is read.
            rows, sums = sum_rows(pa.concat_tables(updates), ["key", "value", "time"])
            yield from _batches(part.collection, rows.select(["key", "value"]), rows["time"], sums)


def _batches(name: str, rows: pa.Table, times: Any, diffs: Any) -> Iterator[pa.RecordBatch]:
    if rows.num_rows:
        labels = pa.repeat(arrays.strings([name])[0], rows.num_rows)
        columns = [labels, rows["key"], rows["value"], times, diffs]
        table = pa.table(columns, names=["collection", "key", "value", "time", "diff"])
        yield from table.to_batches(max_chunksize=65536)


class HermitPersistSource(DataSource):  # type: ignore[misc]
    """`format("hermit_persist")`."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return _SCHEMA

    def reader(self, schema: StructType) -> _BatchReader:
        return _BatchReader(_Source(dict(self.options)))

    def streamReader(self, schema: StructType) -> _StreamReader:  # noqa: N802
        return _StreamReader(_Source(dict(self.options)))


class _BatchReader(DataSourceReader):  # type: ignore[misc]
    def __init__(self, source: _Source) -> None:
        self._source = source

    def partitions(self) -> list[_Part]:
        return self._source.contents(self._source.state(), self._source.as_of)

    def read(self, partition: _Part) -> Iterator[pa.RecordBatch]:
        return self._source.read(partition)


class _StreamReader(DataSourceStreamReader):  # type: ignore[misc]
    """Offsets: `{"upper": u}`; the one before anything was delivered also has `as_of`."""

    def __init__(self, source: _Source) -> None:
        self._source = source

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        as_of = self._source.as_of
        if as_of is None:
            state = self._source.state()
            as_of = max(state.since(name) for name in self._source.collections)
        return {"upper": 0, "as_of": as_of}

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:  # noqa: N802
        state = self._source.state()
        upper = min(state.upper(name) for name in self._source.collections)
        nothing_new = upper <= start["as_of"] if "as_of" in start else upper <= start["upper"]
        return start if nothing_new else {"upper": upper}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[_Part]:
        state = self._source.state()
        parts: list[_Part] = []
        lower = start["upper"]
        if "as_of" in end:
            return parts
        if "as_of" in start:
            parts += self._source.contents(state, start["as_of"])
            lower = start["as_of"] + 1
        for name in self._source.collections:
            frontier = state.frontier(name)
            if frontier.since >= lower and lower < end["upper"]:
                raise HistoryCompacted("steps were compacted away", name, frontier, lower)
            wanted = [
                file.to_json()
                for file in state.files([name])
                if file.time_max >= lower and file.time_min < end["upper"]
            ]
            if wanted and lower < end["upper"]:
                parts.append(_Part(name, wanted, lower=lower, upper=end["upper"]))
        return parts

    def read(self, partition: _Part) -> Iterator[pa.RecordBatch]:
        return self._source.read(partition)

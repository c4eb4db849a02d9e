"""Compaction: fewer files, and history up to `since` folded, without changing any contents.

Times up to `since` cannot be told apart any more, so that their updates are moved to `since` and summed up;
later ones keep their times. The result replaces its inputs in one commit that counts as no change of data.
Which files to merge is a pure plan: small ones together, larger ones only when what joins them is of
their size, so that a row is rewritten a logarithmic number of times. A compaction works beside writers: its
inputs never change, and its commit is tried again at newer versions as long as they are all still there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from hermit.persist import arrays, files
from hermit.persist.appender import Appender
from hermit.persist.commit import DataFile
from hermit.persist.failpoints import fail_point
from hermit.persist.frontier import TIME_MAX
from hermit.persist.pins import pin
from hermit.persist.reader import Reader
from hermit.persist.state import State
from hermit.persist.storage.abc import Blob
from hermit.persist.summing import sum_rows

FILES_MAX = 32  # so many files of one collection that fit together are merged
SMALL_BYTES = 64 << 10
AUTOMATIC_BYTES = 32 << 20  # merged between two commits of a writer; more is for `compact` or Spark
OUTPUT_BYTES = 128 << 20


@dataclass(frozen=True)
class Merge:
    """Files of one collection to be merged into as few as possible."""

    collection: str
    since: int
    inputs: tuple[DataFile, ...]


def plan(
    state: State, names: Iterable[str], *, files_max: int = FILES_MAX, bytes_max: int = AUTOMATIC_BYTES
) -> list[Merge]:
    """What is worth merging now in these collections."""
    wanted = set(names)
    counts = Counter(file.collection for file in state.live.values())
    merges = []
    for name in sorted(name for name, count in counts.items() if count >= files_max and name in wanted):
        inputs: list[DataFile] = []
        total = 0
        for file in sorted(state.files([name]), key=lambda file: (file.bytes, file.path)):
            if file.bytes > max(SMALL_BYTES, 2 * total) or total + file.bytes > bytes_max:
                break
            inputs.append(file)
            total += file.bytes
        if len(inputs) >= files_max:
            merges.append(Merge(name, state.since(name), tuple(inputs)))
    return merges


def plan_all(state: State, names: Iterable[str]) -> list[Merge]:
    """Everything that can be folded in these collections."""
    merges = []
    for name in names:
        inputs = tuple(state.files([name]))
        if not _is_folded(inputs, state.since(name)):
            merges.append(Merge(name, state.since(name), inputs))
    return merges


def _is_folded(inputs: Sequence[DataFile], since: int) -> bool:
    """Whether there is one batch of one time up to `since`, at most, and one of later times."""
    past = [file for file in inputs if file.time_max <= since]
    later = [file for file in inputs if file.time_min > since]
    times = {file.time_min for file in past} | {file.time_max for file in past}
    batches = [len({file.batch for file in group}) for group in (past, later)]
    return len(past) + len(later) == len(inputs) and len(times) <= 1 and max(batches) <= 1


def fold(table: pa.Table, since: int) -> list[pa.Table]:
    """Updates summed up, in order: those that `since` has passed, all at `since`, and the later ones.

    A part without rows is left out.
    """
    bound = arrays.time_scalar(min(since, TIME_MAX))
    times = pc.max_element_wise(table["time"].combine_chunks().view(pa.uint64()), bound)
    columns = [table["key"], table["value"], times, table["diff"]]
    rows, sums = sum_rows(pa.table(columns, names=table.column_names), ["key", "value", "time"])
    sums = rows.append_column("diff", sums)
    past = pc.less_equal(sums["time"], bound)
    parts = [sums.filter(past), sums.filter(pc.invert(past))]
    return [_stored(part) for part in parts if part.num_rows]


def _stored(table: pa.Table) -> pa.Table:
    times = table["time"].combine_chunks().view(pa.int64())
    return pa.table([table["key"], table["value"], times, table["diff"]], schema=files.SCHEMA)


class Compactor:
    """Runs merges of one location."""

    def __init__(self, reader: Reader, appender: Appender, blob: Blob) -> None:
        self._reader = reader
        self._appender = appender
        self._blob = blob

    def run(self, location: str, merges: Sequence[Merge]) -> State | None:
        """All merges in one commit; None if there was nothing to do or somebody else did it."""
        if not merges:
            return None
        inputs = [file for merge in merges for file in merge.inputs]
        with pin(location, inputs):
            written = {file: data for merge in merges for file, data in self._merge(merge)}
        with pin(location, written):
            if written:
                self._blob.put({file.path: data for file, data in written.items()})
            fail_point("compaction.files")
            return self._appender.replace_files(inputs, list(written))

    def _merge(self, merge: Merge) -> Iterator[tuple[DataFile, bytes]]:
        tables = [self._reader.load(file) for file in merge.inputs]
        for table in fold(pa.concat_tables(tables), merge.since):
            batch = files.new_batch()
            for part in _split(table, sum(file.bytes for file in merge.inputs)):
                yield files.encode_table(f"data/{batch}", merge.collection, part)


def _split(table: pa.Table, bytes_estimate: int) -> list[pa.Table]:
    """Parts of about the size that a file should have."""
    parts = -(-bytes_estimate // OUTPUT_BYTES)
    step = -(-table.num_rows // max(parts, 1))
    return [table.slice(start, step) for start in range(0, table.num_rows, step)]

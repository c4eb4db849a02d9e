"""Contents at a time: the sum of all diffs up to it.

Most rows of a collection usually sit in one batch whose rows are known to be distinct (a replacing batch, a
compaction). They are handed through as they are. Only rows that newer, smaller files touch are summed up. So
that a snapshot costs little more than reading the bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from hermit.persist import arrays
from hermit.persist.commit import DataFile
from hermit.persist.summing import numbers, sum_rows

Load = Callable[[DataFile], pa.Table]
Pieces = Callable[[DataFile], Iterable[pa.Table]]
COLUMNS = ["key", "value", "diff"]
HITS_MAX = 1000


def tables(
    files: Sequence[DataFile], as_of: int, load: Load, pieces: Pieces | None = None
) -> Iterator[pa.Table]:
    """The consolidated contents of one collection: tables of key, value and diff, each row once.

    With `pieces`, the files that hold most of the rows are read piece by piece.
    """
    pieces = pieces or (lambda file: (load(file),))
    files = [file for file in files if file.time_min <= as_of]
    base = find_base(files, as_of)
    changes = [_until(load(file), file, as_of) for file in files if file not in base]
    if not changes:
        yield from (table.select(COLUMNS) for file in base for table in pieces(file))
        return
    touched = pc.unique(pa.chunked_array([chunk for t in changes for chunk in t["key"].chunks], pa.binary()))
    for table in (table.select(COLUMNS) for file in base for table in pieces(file)):
        hit = pc.is_in(table["key"], value_set=touched)
        found = table.filter(hit)
        if found.num_rows:
            changes.append(found)
        yield from _without(table, hit, found.num_rows)
    yield consolidate(pa.concat_tables(changes))


def _without(table: pa.Table, hit: pa.ChunkedArray, hits: int) -> Iterator[pa.Table]:
    """The rows that were not hit. Few hits only cut the table up; many are worth a copy."""
    if hits > HITS_MAX:
        yield table.filter(pc.invert(hit))
        return
    start = 0
    for stop in [*(numbers(pc.indices_nonzero(hit)) if hits else ()), table.num_rows]:
        if stop > start:
            yield table.slice(start, int(stop) - start)
        start = int(stop) + 1


def find_base(files: Sequence[DataFile], as_of: int) -> set[DataFile]:
    """The largest group of files whose rows are distinct and all present at the time."""
    groups: dict[str, list[DataFile]] = {}
    for file in files:
        groups.setdefault(file.batch, []).append(file)
    distinct = [group for group in groups.values() if is_distinct(group) and group[0].time_max <= as_of]
    return set(max(distinct, key=lambda group: sum(file.rows for file in group), default=()))


def is_distinct(group: Sequence[DataFile]) -> bool:
    """Whether no row occurs twice in a batch: all of one time, all added once.

    A batch holds each (key, value, time) once: whoever writes one consolidates it first.
    """
    times = {file.time_min for file in group} | {file.time_max for file in group}
    return len(times) == 1 and all(file.diff_min == file.diff_max == 1 for file in group)


def consolidate(table: pa.Table) -> pa.Table:
    """Diffs summed per row, without the rows that cancel out."""
    rows, sums = sum_rows(table, ["key", "value"])
    return rows.append_column("diff", sums)


def _until(table: pa.Table, file: DataFile, as_of: int) -> pa.Table:
    """The rows that are there at the time. Stored times are unsigned numbers in signed columns."""
    if file.time_max > as_of:
        times = table["time"].combine_chunks().view(pa.uint64())
        table = table.filter(pc.less_equal(times, arrays.time_scalar(as_of)))
    return table.select(COLUMNS)


def of_key(table: pa.Table, key: bytes) -> pa.Table:
    """The updates of one key."""
    return table.filter(pc.equal(table["key"], arrays.binaries([key])[0]))


def between(table: pa.Table, lower: int, upper: int) -> pa.Table:
    """The updates with `lower <= time < upper`."""
    times = table["time"].combine_chunks().view(pa.uint64())
    wanted = pc.and_(
        pc.greater_equal(times, arrays.time_scalar(lower)),
        pc.less_equal(times, arrays.time_scalar(upper - 1)),
    )
    return table.filter(wanted)

"""Sums of diffs over equal rows, for tables of any size.

Arrow's own grouping would do, but its query engine is built on a module that imports pandas, and the result
would still have to be sorted. Ranks of keys and values turn rows into numbers, which NumPy sorts and sums.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_NUMBERS = {pa.int32(): np.int32, pa.int64(): np.int64, pa.uint64(): np.uint64}


def sum_rows(table: pa.Table, by: list[str]) -> tuple[pa.Table, pa.Array]:
    """One row for each distinct combination of these columns, in order, and the sums of `diff`.

    Combinations that sum to 0 are left out. Columns hold bytes, or numbers without nulls.
    """
    if table.num_rows == 0:
        return table.select(by), table["diff"].combine_chunks()
    columns = [_comparable(table[name].combine_chunks()) for name in by]
    order = np.lexsort(columns[::-1])
    starts = np.zeros(len(order), dtype=bool)
    starts[0] = True
    for column in columns:
        in_order = column[order]
        starts[1:] |= in_order[1:] != in_order[:-1]
    first = np.flatnonzero(starts)
    sums = np.add.reduceat(numbers(table["diff"].combine_chunks())[order], first)
    kept = sums != 0
    rows = _array(order[first][kept].astype(np.int64), pa.int64())
    return table.select(by).take(rows), _array(sums[kept], pa.int64())


def numbers(array: pa.Array) -> Any:
    """The numbers in an Arrow array, without a copy and, unlike `to_numpy`, without pandas."""
    found = np.frombuffer(array.buffers()[1], dtype=_NUMBERS[array.type])
    return found[array.offset : array.offset + len(array)]


def _array(values: Any, kind: pa.DataType) -> pa.Array:
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])


def _comparable(array: pa.Array) -> Any:
    """Numbers in the order of the values."""
    if array.type in _NUMBERS:
        return numbers(array)
    encoded = array.dictionary_encode()
    order = numbers(pc.array_sort_indices(encoded.dictionary)).astype(np.int64)
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.arange(len(order))
    return ranks[numbers(encoded.indices)]

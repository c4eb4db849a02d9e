"""Arrow arrays straight from Python values.

`pyarrow.array` does the same, but imports pandas to find out whether it was given a series: a second or more
before the first commit of a process. Building the buffers is also quicker.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import accumulate

import pyarrow as pa

from hermit.errors import InvalidInput

_BYTES_MAX = (1 << 31) - 1


def binaries(values: Sequence[bytes], kind: pa.DataType | None = None) -> pa.Array:
    """An array of bytes, or of text that is encoded already."""
    data = b"".join(values)
    if len(data) > _BYTES_MAX:
        raise InvalidInput(f"{len(data)} bytes at once are too many", hint="append them in several parts")
    offsets = array("i", accumulate(map(len, values), initial=0))
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(kind or pa.binary(), len(values), buffers)


def strings(values: Iterable[str]) -> pa.Array:
    """An array of text."""
    return binaries([value.encode() for value in values], pa.string())


def longs(values: Iterable[int]) -> pa.Array:
    """An array of signed 64-bit numbers."""
    data = array("q", values)
    return pa.Array.from_buffers(pa.int64(), len(data), [None, pa.py_buffer(data)])


def time_scalar(time: int) -> pa.Scalar:
    """A time as the unsigned number that it is."""
    return pa.Array.from_buffers(pa.uint64(), 1, [None, pa.py_buffer(array("Q", [time]))])[0]


def repeated(value: int, kind: pa.DataType, length: int) -> pa.Array:
    """The same number or truth value many times."""
    return pa.repeat(longs([value]).cast(kind)[0], length)


def maps(rows: Sequence[dict[str, str]]) -> pa.Array:
    """An array of maps from text to text."""
    offsets = array("i", accumulate(map(len, rows), initial=0))
    return pa.MapArray.from_arrays(
        pa.Array.from_buffers(pa.int32(), len(offsets), [None, pa.py_buffer(offsets)]),
        strings(key for row in rows for key in row),
        strings(value for row in rows for value in row.values()),
    )

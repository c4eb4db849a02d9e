"""Types and default values of columns.

The numbers of the types are part of the log's format. `WIDENINGS` says which changes of type keep every
value that is stored: the only ones that a live table may go through.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, unique
from typing import TypeAlias


@unique
class ColumnType(IntEnum):
    """What a column holds."""

    BOOLEAN = 1
    INT8 = 2
    INT16 = 3
    INT32 = 4
    INT64 = 5
    FLOAT = 6
    DOUBLE = 7
    DECIMAL = 8
    DATE = 9
    TIME = 10
    DATETIME = 11
    TIMESTAMP = 12
    UUID = 13
    STRING = 14
    BYTES = 15


INTEGER_BITS: Mapping[ColumnType, int] = {
    ColumnType.INT8: 8,
    ColumnType.INT16: 16,
    ColumnType.INT32: 32,
    ColumnType.INT64: 64,
}

WIDENINGS: Mapping[ColumnType, frozenset[ColumnType]] = {
    ColumnType.INT8: frozenset({ColumnType.INT16, ColumnType.INT32, ColumnType.INT64}),
    ColumnType.INT16: frozenset({ColumnType.INT32, ColumnType.INT64}),
    ColumnType.INT32: frozenset({ColumnType.INT64}),
    ColumnType.FLOAT: frozenset({ColumnType.DOUBLE}),
}

WITH_LENGTH = frozenset({ColumnType.STRING, ColumnType.BYTES})
WITH_PRECISION = frozenset({ColumnType.DECIMAL, ColumnType.TIME, ColumnType.DATETIME, ColumnType.TIMESTAMP})
PRECISION_MAX: Mapping[ColumnType, int] = {
    ColumnType.DECIMAL: 32767,
    ColumnType.TIME: 9,
    ColumnType.DATETIME: 9,
    ColumnType.TIMESTAMP: 9,
}
LENGTH_MAX = 65536

Literal: TypeAlias = bool | int | float | str | bytes


@dataclass(frozen=True, slots=True)
class Constant:
    """A default that is the same for every row. Dates, times, decimals and UUIDs are given as text."""

    value: Literal


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A default that a function makes anew for every row."""

    function: str


DefaultValue: TypeAlias = Constant | FunctionCall

FUNCTIONS: Mapping[str, ColumnType] = {
    "gen_random_uuid": ColumnType.UUID,
    "current_timestamp": ColumnType.TIMESTAMP,
    "current_date": ColumnType.DATE,
}
"""The functions that a default may call, and what they give."""

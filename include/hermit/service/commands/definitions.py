"""How a command describes a column, and the rules that such a description must keep."""

from __future__ import annotations

import datetime
import decimal
import math
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from hermit.service.commands.base import check_distinct, check_name
from hermit.service.commands.fields import check_fields, is_text
from hermit.service.descriptors import TableColumnDescriptor
from hermit.service.errors import InvalidCommand
from hermit.service.types import (
    FUNCTIONS,
    INTEGER_BITS,
    LENGTH_MAX,
    PRECISION_MAX,
    WITH_LENGTH,
    ColumnType,
    Constant,
    DefaultValue,
    FunctionCall,
)

COLUMNS_MAX = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnDefinition:
    """A column that does not exist yet."""

    name: str
    type: ColumnType
    nullable: bool = True
    length: int | None = None
    precision: int | None = None
    scale: int | None = None
    default: DefaultValue | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        check_name(self.name, "column")
        check_column(self)

    def descriptor(self, id: int) -> TableColumnDescriptor:
        """The column, as part of a table."""
        return TableColumnDescriptor(
            id=id,
            name=self.name,
            type=self.type,
            nullable=self.nullable,
            length=self.length,
            precision=self.precision,
            scale=self.scale,
            default=self.default,
        )


def check_definitions(columns: Sequence[ColumnDefinition]) -> None:
    """Refuse no columns, too many, and doubled names."""
    if not 1 <= len(columns) <= COLUMNS_MAX:
        raise InvalidCommand(f"{len(columns)} columns are not possible", hint=f"1 to {COLUMNS_MAX}")
    check_distinct([column.name for column in columns], "column")


def check_column(column: ColumnDefinition | TableColumnDescriptor) -> None:
    """Refuse a type, a size or a default that makes no sense."""
    _check_length(column)
    _check_precision(column)
    if column.default is not None:
        _check_default(column, column.default)


def _check_length(column: ColumnDefinition | TableColumnDescriptor) -> None:
    if column.length is None:
        return
    if column.type not in WITH_LENGTH:
        raise InvalidCommand(f"column {column.name!r}: {column.type.name} has no length")
    if not 1 <= column.length <= LENGTH_MAX:
        raise InvalidCommand(f"column {column.name!r}: length {column.length} is not 1 to {LENGTH_MAX}")


def _check_precision(column: ColumnDefinition | TableColumnDescriptor) -> None:
    if column.precision is not None:
        maximum = PRECISION_MAX.get(column.type)
        minimum = 1 if column.type is ColumnType.DECIMAL else 0
        if maximum is None:
            raise InvalidCommand(f"column {column.name!r}: {column.type.name} has no precision")
        if not minimum <= column.precision <= maximum:
            raise InvalidCommand(
                f"column {column.name!r}: precision {column.precision} is not {minimum} to {maximum}"
            )
    if column.scale is not None:
        if column.type is not ColumnType.DECIMAL:
            raise InvalidCommand(f"column {column.name!r}: {column.type.name} has no scale")
        if not 0 <= column.scale <= (column.precision or PRECISION_MAX[ColumnType.DECIMAL]):
            raise InvalidCommand(f"column {column.name!r}: scale {column.scale} is larger than the precision")


def _check_default(column: ColumnDefinition | TableColumnDescriptor, default: DefaultValue) -> None:
    if not isinstance(default, Constant | FunctionCall):
        raise InvalidCommand(
            f"column {column.name!r}: {default!r} is no default", hint="give a Constant or a FunctionCall"
        )
    if isinstance(default, FunctionCall):
        if FUNCTIONS.get(default.function) is not column.type:
            known = ", ".join(f"{name} ({type_.name})" for name, type_ in FUNCTIONS.items())
            raise InvalidCommand(
                f"column {column.name!r}: {default.function!r} gives no {column.type.name}",
                hint=f"known functions: {known}",
            )
        return
    if not _fits(column, default):
        raise InvalidCommand(
            f"column {column.name!r}: {default.value!r} is no {column.type.name}",
            hint="dates, times, decimals and UUIDs are given as text",
        )


def _fits(column: ColumnDefinition | TableColumnDescriptor, default: Constant) -> bool:
    value = default.value
    if column.type in INTEGER_BITS:
        bound = 1 << INTEGER_BITS[column.type] - 1
        return isinstance(value, int) and not isinstance(value, bool) and -bound <= value < bound
    if column.type in _PARSERS:
        return isinstance(value, str) and _parses(_PARSERS[column.type], value)
    if not isinstance(value, _PYTHON_TYPES[column.type]):
        return False
    if isinstance(value, float):
        return math.isfinite(value)
    if not is_text(value):
        return False
    return column.length is None or not isinstance(value, str | bytes) or len(value) <= column.length


def _parses(parse: Callable[[str], object], text: str) -> bool:
    try:
        parse(text)
    except (ValueError, decimal.InvalidOperation):
        return False
    return True


_PARSERS: Mapping[ColumnType, Callable[[str], object]] = {
    ColumnType.DECIMAL: decimal.Decimal,
    ColumnType.DATE: datetime.date.fromisoformat,
    ColumnType.TIME: datetime.time.fromisoformat,
    ColumnType.DATETIME: datetime.datetime.fromisoformat,
    ColumnType.TIMESTAMP: datetime.datetime.fromisoformat,
    ColumnType.UUID: uuid.UUID,
}

_PYTHON_TYPES: Mapping[ColumnType, type] = {
    ColumnType.BOOLEAN: bool,
    ColumnType.FLOAT: float,
    ColumnType.DOUBLE: float,
    ColumnType.STRING: str,
    ColumnType.BYTES: bytes,
}

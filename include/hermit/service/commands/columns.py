"""Commands about the columns of a table.

A table that is live keeps its rows: a change is accepted only if every value that may be stored still fits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from hermit.service.catalog import Catalog
from hermit.service.commands.base import SchemaObjectCommand, check_distinct, check_name, find_member
from hermit.service.commands.definitions import (
    COLUMNS_MAX,
    ColumnDefinition,
    check_column,
    check_definitions,
)
from hermit.service.descriptors import TableColumnDescriptor, TableDescriptor
from hermit.service.entries import AlterColumnEntry, DropColumnsEntry, NewColumnsEntry, UpdateEntry
from hermit.service.errors import (
    ColumnChangeRefused,
    ColumnExists,
    ColumnInUse,
    ColumnNotFound,
    InvalidCommand,
)
from hermit.service.types import WIDENINGS, ColumnType, Constant, DefaultValue, FunctionCall

UNCHANGED: Final = object()
"""Leave the default of a column as it is: None means that there is to be none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddColumns(SchemaObjectCommand):
    """More columns for a table, given as its name."""

    columns: tuple[ColumnDefinition, ...]
    if_table_exists: bool = False
    if_not_exists: bool = False

    def validate(self) -> None:
        SchemaObjectCommand.validate(self)
        check_definitions(self.columns)
        for column in self.columns:
            if not column.nullable and column.default is None:
                raise InvalidCommand(
                    f"new column {column.name!r} is not nullable and has no default",
                    hint="rows that exist need a value: give a default, or allow null",
                )

    def plan(self, catalog: Catalog) -> list[UpdateEntry]:
        table = find_member(catalog, self.schema, self.name, TableDescriptor, if_exists=self.if_table_exists)
        if table is None:
            return []
        fresh = [column for column in self.columns if table.column(column.name) is None]
        if len(fresh) < len(self.columns) and not self.if_not_exists:
            taken = next(column for column in self.columns if table.column(column.name) is not None)
            raise ColumnExists(f"table {catalog.path(table)} has a column {taken.name!r} already")
        if len(table.columns) + len(fresh) > COLUMNS_MAX:
            raise InvalidCommand(f"table {catalog.path(table)} would have more than {COLUMNS_MAX} columns")
        first = table.last_column_id + 1
        columns = tuple(column.descriptor(number) for number, column in enumerate(fresh, start=first))
        return [NewColumnsEntry(table.id, columns)] if columns else []


@dataclass(frozen=True, slots=True, kw_only=True)
class DropColumns(SchemaObjectCommand):
    """Fewer columns for a table, given as its name."""

    columns: tuple[str, ...]
    if_table_exists: bool = False
    if_exists: bool = False

    def validate(self) -> None:
        SchemaObjectCommand.validate(self)
        if not self.columns:
            raise InvalidCommand(f"no columns of {self.name!r} are named to be dropped")
        check_distinct(self.columns, "column")

    def plan(self, catalog: Catalog) -> list[UpdateEntry]:
        table = find_member(catalog, self.schema, self.name, TableDescriptor, if_exists=self.if_table_exists)
        if table is None:
            return []
        found = [column for column in table.columns if column.name in self.columns]
        if len(found) < len(self.columns) and not self.if_exists:
            missing = next(name for name in self.columns if table.column(name) is None)
            raise _no_column(catalog, table, missing)
        for column in found:
            _check_unused(catalog, table, column)
        return [DropColumnsEntry(table.id, tuple(column.id for column in found))] if found else []


@dataclass(frozen=True, slots=True, kw_only=True)
class RenameColumn(SchemaObjectCommand):
    """Another name for a column of a table, which is given as `name`."""

    column: str
    new_name: str
    if_table_exists: bool = False

    def validate(self) -> None:
        SchemaObjectCommand.validate(self)
        check_name(self.column, "column")
        check_name(self.new_name, "column")

    def plan(self, catalog: Catalog) -> list[UpdateEntry]:
        table = find_member(catalog, self.schema, self.name, TableDescriptor, if_exists=self.if_table_exists)
        if table is None:
            return []
        column = _column(catalog, table, self.column)
        if table.column(self.new_name) is not None:
            raise ColumnExists(f"table {catalog.path(table)} has a column {self.new_name!r} already")
        return [AlterColumnEntry(table.id, replace(column, name=self.new_name))]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterColumn(SchemaObjectCommand):
    """Another type, size, default or nullability for a column; what is not given stays."""

    column: str
    type: ColumnType | None = None
    length: int | None = None
    precision: int | None = None
    nullable: bool | None = None
    default: DefaultValue | Any | None = UNCHANGED
    if_table_exists: bool = False

    def validate(self) -> None:
        SchemaObjectCommand.validate(self)
        check_name(self.column, "column")
        if self.default is not UNCHANGED and not isinstance(self.default, Constant | FunctionCall | None):
            raise InvalidCommand(
                f"column {self.column!r}: {self.default!r} is no default",
                hint="give a Constant, a FunctionCall, or None for no default",
            )

    def plan(self, catalog: Catalog) -> list[UpdateEntry]:
        table = find_member(catalog, self.schema, self.name, TableDescriptor, if_exists=self.if_table_exists)
        if table is None:
            return []
        column = _column(catalog, table, self.column)
        given: dict[str, Any] = {
            key: value
            for key, value in (
                ("type", self.type),
                ("length", self.length),
                ("precision", self.precision),
                ("nullable", self.nullable),
            )
            if value is not None
        }
        if self.default is not UNCHANGED:
            given["default"] = self.default
        altered = replace(column, **given)
        if altered == column:
            return []
        _check_change(catalog, table, column, altered)
        check_column(altered)
        return [AlterColumnEntry(table.id, altered)]


def _column(catalog: Catalog, table: TableDescriptor, name: str) -> TableColumnDescriptor:
    found = table.column(name)
    if found is None:
        raise _no_column(catalog, table, name)
    return found


def _no_column(catalog: Catalog, table: TableDescriptor, name: str) -> ColumnNotFound:
    return ColumnNotFound(
        f"table {catalog.path(table)} has no column {name!r}",
        hint=f"it has {', '.join(column.name for column in table.columns[:10])}",
    )


def _check_unused(catalog: Catalog, table: TableDescriptor, column: TableColumnDescriptor) -> None:
    """Refuse to drop a column of the key or of an index."""
    if column.id in table.primary_key:
        raise ColumnInUse(f"column {column.name!r} is part of the primary key of {catalog.path(table)}")
    for index in catalog.indexes_of(table.id):
        if any(part.column_id == column.id for part in index.columns):
            raise ColumnInUse(
                f"column {column.name!r} is part of index {catalog.path(index)}", hint="drop the index first"
            )


def _check_change(
    catalog: Catalog, table: TableDescriptor, old: TableColumnDescriptor, new: TableColumnDescriptor
) -> None:
    """Refuse what stored rows might not fit."""
    where = f"column {old.name!r} of {catalog.path(table)}"
    if old.id in table.primary_key and replace(new, default=old.default) != old:
        raise ColumnChangeRefused(f"{where} is part of the primary key", hint="only its default may change")
    if old.type is not new.type and new.type not in WIDENINGS.get(old.type, ()):
        allowed = ", ".join(sorted(type_.name for type_ in WIDENINGS.get(old.type, ()))) or "none"
        raise ColumnChangeRefused(
            f"{where} cannot change from {old.type.name} to {new.type.name}", hint=f"possible: {allowed}"
        )
    if old.nullable and not new.nullable:
        raise ColumnChangeRefused(f"{where} may hold nulls", hint="it can become nullable, not the reverse")
    for what in ("length", "precision"):
        before, after = getattr(old, what), getattr(new, what)
        if before != after and (before is None or (after is not None and after < before)):
            raise ColumnChangeRefused(f"the {what} of {where} cannot shrink from {before} to {after}")

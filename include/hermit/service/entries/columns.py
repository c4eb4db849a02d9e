"""Entries that change the columns of a table: each gives the table its next schema version."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from hermit.service.catalog import Catalog
from hermit.service.clock import HybridTimestamp
from hermit.service.descriptors import TableColumnDescriptor, TableDescriptor
from hermit.service.entries.base import UpdateEntry, existing
from hermit.service.events import CatalogEvent, EventType
from hermit.service.marshallable import MarshalledType

Columns = tuple[TableColumnDescriptor, ...]


@dataclass(frozen=True, slots=True)
class ColumnsEntry(UpdateEntry):
    """A change to the columns of one table."""

    table_id: int

    @abstractmethod
    def change(self, columns: Columns) -> Columns:
        """The columns afterwards."""

    def apply(self, catalog: Catalog, timestamp: HybridTimestamp) -> Catalog:
        table = existing(catalog, self.table_id, TableDescriptor)
        return catalog.put(table.with_columns(self.change(table.columns)).at(timestamp))

    def event(self, before: Catalog, after: Catalog) -> CatalogEvent:
        table = existing(after, self.table_id, TableDescriptor)
        former = before.object_by_id(self.table_id)
        return CatalogEvent(EventType.TABLE_ALTERED, after.version, after.time, table, former)


@dataclass(frozen=True, slots=True)
class NewColumnsEntry(ColumnsEntry):
    """More columns."""

    marshalled_type: ClassVar[MarshalledType] = MarshalledType.NEW_COLUMNS

    columns: Columns

    def change(self, columns: Columns) -> Columns:
        return (*columns, *self.columns)


@dataclass(frozen=True, slots=True)
class DropColumnsEntry(ColumnsEntry):
    """Fewer columns."""

    marshalled_type: ClassVar[MarshalledType] = MarshalledType.DROP_COLUMNS

    column_ids: tuple[int, ...]

    def change(self, columns: Columns) -> Columns:
        return tuple(column for column in columns if column.id not in self.column_ids)


@dataclass(frozen=True, slots=True)
class AlterColumnEntry(ColumnsEntry):
    """A column in the place of the one with its identifier."""

    marshalled_type: ClassVar[MarshalledType] = MarshalledType.ALTER_COLUMN

    column: TableColumnDescriptor

    def change(self, columns: Columns) -> Columns:
        return tuple(self.column if column.id == self.column.id else column for column in columns)

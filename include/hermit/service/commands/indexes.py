"""Commands about indexes."""

from __future__ import annotations

from dataclasses import dataclass

from hermit.service.catalog import Catalog
from hermit.service.commands.base import (
    SchemaObjectCommand,
    check_distinct,
    check_name,
    created,
    drop,
    find_schema,
    is_there,
    member,
    rename,
)
from hermit.service.descriptors import (
    Collation,
    IndexColumnDescriptor,
    IndexDescriptor,
    IndexKind,
    ObjectType,
    TableDescriptor,
)
from hermit.service.entries import NewIndexEntry, UpdateEntry
from hermit.service.errors import ColumnNotFound, InvalidCommand


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateIndex(SchemaObjectCommand):
    """A new index. Collations, one for each column, make it a sorted one."""

    table: str
    columns: tuple[str, ...]
    collations: tuple[Collation, ...] = ()
    is_unique: bool = False
    if_not_exists: bool = False

    def validate(self) -> None:
        SchemaObjectCommand.validate(self)
        check_name(self.table, "table")
        if not self.columns:
            raise InvalidCommand(f"index {self.name!r} names no columns")
        check_distinct(self.columns, "index column")
        if self.collations and len(self.collations) != len(self.columns):
            raise InvalidCommand(
                f"index {self.name!r} has {len(self.columns)} columns and {len(self.collations)} collations"
            )
        if Collation.NONE in self.collations:
            raise InvalidCommand(f"a column of the sorted index {self.name!r} has no order")

    def plan(self, catalog: Catalog) -> list[UpdateEntry]:
        schema = find_schema(catalog, self.schema)
        if is_there(schema, self.name, ObjectType.INDEX, self.if_not_exists):
            return []
        table = member(catalog, self.schema, self.table, TableDescriptor)
        ids = [self._column_id(catalog, table, name) for name in self.columns]
        if self.is_unique and not set(table.colocation) <= set(ids):
            raise InvalidCommand(
                f"the unique index {self.name!r} does not hold all colocation columns of {table.name!r}",
                hint="uniqueness is checked where rows are stored together",
            )
        collations = self.collations or (Collation.NONE,) * len(ids)
        index = IndexDescriptor(
            id=catalog.next_id,
            name=self.name,
            schema_id=schema.id,
            table_id=table.id,
            kind=IndexKind.SORTED if self.collations else IndexKind.HASH,
            columns=tuple(IndexColumnDescriptor(*pair) for pair in zip(ids, collations, strict=True)),
            is_unique=self.is_unique,
        )
        return created(NewIndexEntry(index))

    def _column_id(self, catalog: Catalog, table: TableDescriptor, name: str) -> int:
        column = table.column(name)
        if column is None:
            raise ColumnNotFound(f"table {catalog.path(table)} has no column {name!r}")
        return column.id


@dataclass(frozen=True, slots=True, kw_only=True)
class RenameIndex(SchemaObjectCommand):
    """Another name for an index."""

    new_name: str
    if_exists: bool = False

    def validate(self) -> None:
        SchemaObjectCommand.validate(self)
        check_name(self.new_name, "index")

    def plan(self, catalog: Catalog) -> list[UpdateEntry]:
        return rename(catalog, self, IndexDescriptor, self.new_name, self.if_exists)


@dataclass(frozen=True, slots=True, kw_only=True)
class DropIndex(SchemaObjectCommand):
    """The end of an index."""

    if_exists: bool = False

    def plan(self, catalog: Catalog) -> list[UpdateEntry]:
        return drop(catalog, self, IndexDescriptor, self.if_exists)

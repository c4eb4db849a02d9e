"""Commands about whole tables."""

from __future__ import annotations

from dataclasses import dataclass

from hermit.service.catalog import Catalog
from hermit.service.commands.base import (
    SchemaObjectCommand,
    check_distinct,
    check_name,
    created,
    find_member,
    find_schema,
    is_there,
    rename,
)
from hermit.service.commands.definitions import ColumnDefinition, check_definitions
from hermit.service.descriptors import IndexDescriptor, ObjectType, TableDescriptor, ZoneDescriptor
from hermit.service.entries import DropEntry, NewTableEntry, UpdateEntry
from hermit.service.errors import InvalidCommand, ObjectInUse, ObjectNotFound


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTable(SchemaObjectCommand):
    """A new table. Without `colocation` its rows are spread by the primary key."""

    columns: tuple[ColumnDefinition, ...]
    primary_key: tuple[str, ...]
    colocation: tuple[str, ...] = ()
    zone: str | None = None
    if_not_exists: bool = False

    def validate(self) -> None:
        SchemaObjectCommand.validate(self)
        check_definitions(self.columns)
        if self.zone is not None:
            check_name(self.zone, "zone")
        self._check_primary_key()
        check_distinct(self.colocation, "colocation column")
        strangers = [name for name in self.colocation if name not in self.primary_key]
        if strangers:
            raise InvalidCommand(
                f"colocation column {strangers[0]!r} is not part of the primary key of {self.name!r}"
            )

    def _check_primary_key(self) -> None:
        if not self.primary_key:
            raise InvalidCommand(f"table {self.name!r} has no primary key", hint="name at least one column")
        check_distinct(self.primary_key, "key column")
        columns = {column.name: column for column in self.columns}
        for name in self.primary_key:
            if name not in columns:
                raise InvalidCommand(f"key column {name!r} is not a column of {self.name!r}")
            if columns[name].nullable:
                raise InvalidCommand(f"key column {name!r} is nullable", hint="pass nullable=False")

    def plan(self, catalog: Catalog) -> list[UpdateEntry]:
        schema = find_schema(catalog, self.schema)
        if is_there(schema, self.name, ObjectType.TABLE, self.if_not_exists):
            return []
        ids = {column.name: number for number, column in enumerate(self.columns, start=1)}
        table = TableDescriptor(
            id=catalog.next_id,
            name=self.name,
            schema_id=schema.id,
            zone_id=self._zone(catalog).id,
            columns=tuple(column.descriptor(ids[column.name]) for column in self.columns),
            primary_key=tuple(ids[name] for name in self.primary_key),
            colocation=tuple(ids[name] for name in self.colocation or self.primary_key),
            last_column_id=len(ids),
        )
        return created(NewTableEntry(table))

    def _zone(self, catalog: Catalog) -> ZoneDescriptor:
        zone = catalog.default_zone if self.zone is None else catalog.zone(self.zone)
        if zone is None:
            named = "no default zone" if self.zone is None else f"no zone {self.zone!r}"
            raise ObjectNotFound(f"there is {named}", hint="create it, or name another one")
        return zone


@dataclass(frozen=True, slots=True, kw_only=True)
class RenameTable(SchemaObjectCommand):
    """Another name for a table."""

    new_name: str
    if_exists: bool = False

    def validate(self) -> None:
        SchemaObjectCommand.validate(self)
        check_name(self.new_name, "table")

    def plan(self, catalog: Catalog) -> list[UpdateEntry]:
        return rename(catalog, self, TableDescriptor, self.new_name, self.if_exists)


@dataclass(frozen=True, slots=True, kw_only=True)
class DropTable(SchemaObjectCommand):
    """The end of a table and of its indexes."""

    if_exists: bool = False

    def plan(self, catalog: Catalog) -> list[UpdateEntry]:
        table = find_member(catalog, self.schema, self.name, TableDescriptor, if_exists=self.if_exists)
        if table is None:
            return []
        users = catalog.users_of(table.id)
        others = [user for user in users if not isinstance(user, IndexDescriptor)]
        if others:
            names = tuple(f"{user.object_type.word} {catalog.path(user)}" for user in others)
            raise ObjectInUse(
                f"table {catalog.path(table)} is used by {names[0]}",
                hint="drop that first",
                dependents=names,
            )
        return [*(DropEntry(user.id) for user in users), DropEntry(table.id)]

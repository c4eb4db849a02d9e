"""Commands about views."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hermit.service.catalog import Catalog
from hermit.service.commands.base import (
    SchemaObjectCommand,
    check_distinct,
    check_name,
    created,
    drop,
    find_member,
    find_schema,
    is_there,
    rename,
)
from hermit.service.descriptors import ObjectType, TableDescriptor, ViewDescriptor
from hermit.service.entries import AlterViewEntry, NewViewEntry, UpdateEntry
from hermit.service.errors import InvalidCommand, ObjectNotFound

Relation = tuple[str, str]
"""A relation by the names of its schema and its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateView(SchemaObjectCommand):
    """A new view, with the relations that its query reads."""

    query: str
    depends_on: tuple[Relation, ...] = ()
    if_not_exists: bool = False

    def validate(self) -> None:
        SchemaObjectCommand.validate(self)
        _check_query(self.name, self.query, self.depends_on)

    def plan(self, catalog: Catalog) -> list[UpdateEntry]:
        schema = find_schema(catalog, self.schema)
        if is_there(schema, self.name, ObjectType.VIEW, self.if_not_exists):
            return []
        view = ViewDescriptor(
            id=catalog.next_id,
            name=self.name,
            schema_id=schema.id,
            query=self.query,
            depends_on=_relation_ids(catalog, self.depends_on),
        )
        return created(NewViewEntry(view))


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterView(SchemaObjectCommand):
    """Another query for a view."""

    query: str
    depends_on: tuple[Relation, ...] = ()
    if_exists: bool = False

    def validate(self) -> None:
        SchemaObjectCommand.validate(self)
        _check_query(self.name, self.query, self.depends_on)

    def plan(self, catalog: Catalog) -> list[UpdateEntry]:
        view = find_member(catalog, self.schema, self.name, ViewDescriptor, if_exists=self.if_exists)
        if view is None:
            return []
        altered = replace(view, query=self.query, depends_on=_relation_ids(catalog, self.depends_on))
        if _reaches(catalog, altered.depends_on, view.id):
            raise InvalidCommand(f"view {catalog.path(view)} would depend on itself")
        return [] if altered == view else [AlterViewEntry(altered)]


@dataclass(frozen=True, slots=True, kw_only=True)
class RenameView(SchemaObjectCommand):
    """Another name for a view."""

    new_name: str
    if_exists: bool = False

    def validate(self) -> None:
        SchemaObjectCommand.validate(self)
        check_name(self.new_name, "view")

    def plan(self, catalog: Catalog) -> list[UpdateEntry]:
        return rename(catalog, self, ViewDescriptor, self.new_name, self.if_exists)


@dataclass(frozen=True, slots=True, kw_only=True)
class DropView(SchemaObjectCommand):
    """The end of a view that no other view reads."""

    if_exists: bool = False

    def plan(self, catalog: Catalog) -> list[UpdateEntry]:
        return drop(catalog, self, ViewDescriptor, self.if_exists)


def _check_query(name: str, query: str, depends_on: tuple[Relation, ...]) -> None:
    if not query.strip():
        raise InvalidCommand(f"the query of view {name!r} is empty")
    check_distinct([".".join(relation) for relation in depends_on], "relation")


def _relation_ids(catalog: Catalog, relations: tuple[Relation, ...]) -> tuple[int, ...]:
    ids = []
    for schema, name in relations:
        home = catalog.schema(schema)
        found = None if home is None else home.named(name)
        if not isinstance(found, TableDescriptor | ViewDescriptor):
            raise ObjectNotFound(f"there is no table or view {schema}.{name}", hint="check the name")
        ids.append(found.id)
    return tuple(ids)


def _reaches(catalog: Catalog, ids: tuple[int, ...], target: int) -> bool:
    """Whether the target is among these relations or those that they read."""
    pending, seen = list(ids), set(ids)
    while pending:
        id_ = pending.pop()
        if id_ == target:
            return True
        view = catalog.view_by_id(id_)
        for below in view.depends_on if view else ():
            if below not in seen:
                seen.add(below)
                pending.append(below)
    return False

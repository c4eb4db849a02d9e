"""Commands about schemas."""

from __future__ import annotations

from dataclasses import dataclass

from hermit.service.catalog import Catalog
from hermit.service.commands.base import CatalogCommand, check_name, created, find_schema
from hermit.service.descriptors import CatalogObjectDescriptor, SchemaDescriptor
from hermit.service.entries import DropEntry, NewSchemaEntry, RenameEntry, UpdateEntry
from hermit.service.errors import ObjectExists, ObjectInUse, ObjectNotFound


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateSchema(CatalogCommand):
    """A new, empty schema."""

    name: str
    if_not_exists: bool = False

    def validate(self) -> None:
        check_name(self.name, "schema")

    def plan(self, catalog: Catalog) -> list[UpdateEntry]:
        if catalog.schema(self.name) is not None:
            if self.if_not_exists:
                return []
            raise ObjectExists(f"schema {self.name!r} exists already")
        return created(NewSchemaEntry(SchemaDescriptor(id=catalog.next_id, name=self.name)))


@dataclass(frozen=True, slots=True, kw_only=True)
class RenameSchema(CatalogCommand):
    """Another name for a schema."""

    name: str
    new_name: str
    if_exists: bool = False

    def validate(self) -> None:
        check_name(self.name, "schema")
        check_name(self.new_name, "schema")

    def plan(self, catalog: Catalog) -> list[UpdateEntry]:
        if self.if_exists and catalog.schema(self.name) is None:
            return []
        schema = find_schema(catalog, self.name)
        if catalog.schema(self.new_name) is not None:
            raise ObjectExists(f"schema {self.new_name!r} exists already", hint="choose another name")
        return [RenameEntry(schema.id, self.new_name)]


@dataclass(frozen=True, slots=True, kw_only=True)
class DropSchema(CatalogCommand):
    """The end of a schema; with `cascade` also of everything in it."""

    name: str
    if_exists: bool = False
    cascade: bool = False

    def validate(self) -> None:
        check_name(self.name, "schema")

    def plan(self, catalog: Catalog) -> list[UpdateEntry]:
        schema = catalog.schema(self.name)
        if schema is None:
            if self.if_exists:
                return []
            raise ObjectNotFound(f"there is no schema {self.name!r}")
        if not schema.is_empty and not self.cascade:
            names = tuple(f"{each.object_type.word} {each.name}" for each in schema.members())
            raise ObjectInUse(
                f"schema {self.name!r} holds {len(names)} objects, among them {names[0]}",
                hint="drop them first, or pass cascade",
                dependents=names,
            )
        return [*_drop_members(catalog, schema), DropEntry(schema.id)]


def _drop_members(catalog: Catalog, schema: SchemaDescriptor) -> list[UpdateEntry]:
    """Drop what is in a schema, users before what they use. What others use from outside is refused."""
    drops: dict[int, DropEntry] = {}
    # A stack and no recursion: views may read views which read views, as deep as anybody likes.
    pending: list[CatalogObjectDescriptor] = list(schema.members())
    while pending:
        descriptor = pending[-1]
        users = [user for user in catalog.users_of(descriptor.id) if user.id not in drops]
        for user in users:
            _check_is_inside(catalog, schema, descriptor, user)
        if users:
            pending += users
            continue
        pending.pop()
        drops[descriptor.id] = DropEntry(descriptor.id)
    return list(drops.values())


def _check_is_inside(
    catalog: Catalog,
    schema: SchemaDescriptor,
    descriptor: CatalogObjectDescriptor,
    user: CatalogObjectDescriptor,
) -> None:
    if getattr(user, "schema_id", 0) != schema.id:
        raise ObjectInUse(
            f"{catalog.path(descriptor)} is used by {user.object_type.word} {catalog.path(user)}",
            hint="drop that first",
            dependents=(catalog.path(user),),
        )

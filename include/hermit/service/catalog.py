"""The catalog at one version: immutable, and sharing structure with the versions before it.

Beside the objects themselves it keeps two indexes, which are worked out from the descriptors and never
written to the log: where an object lives (its type and schema, by identifier), and who refers to it. Both
are persistent maps too, so that `put` and `remove` touch a handful of trie nodes whatever the number of
objects. Nothing here checks the rules of commands; entries are applied as they were accepted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from hermit.errors import violated
from hermit.service.clock import BEGINNING, HybridTimestamp
from hermit.service.descriptors import (
    MEMBERS,
    CatalogObjectDescriptor,
    IndexDescriptor,
    Objects,
    ObjectType,
    SchemaDescriptor,
    SchemaObjectDescriptor,
    SequenceDescriptor,
    TableDescriptor,
    ViewDescriptor,
    ZoneDescriptor,
)
from hermit.service.evolve import evolve
from hermit.service.persistent import PersistentMap

O = TypeVar("O", bound=CatalogObjectDescriptor)  # noqa: E741


class Home(NamedTuple):
    """Where an object lives: `schema_id` is 0 for schemas and zones."""

    type: ObjectType
    schema_id: int


Users = PersistentMap[int, None]
Homes = PersistentMap[int, Home]
UsersOf = PersistentMap[int, "Users | list[int]"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Catalog:
    """Every object of the cluster, as of one version."""

    version: int = 0
    time: HybridTimestamp = BEGINNING
    next_id: int = 1
    default_zone_id: int | None = None
    zones: Objects[ZoneDescriptor] = field(default_factory=Objects)
    schemas: Objects[SchemaDescriptor] = field(default_factory=Objects)
    homes: Homes = PersistentMap()  # noqa: RUF009  (immutable)
    users: UsersOf = PersistentMap()  # noqa: RUF009  (immutable)

    # By identifier

    def object_by_id(self, id: int) -> CatalogObjectDescriptor | None:
        """The object with this identifier, of whatever type."""
        home = self.homes.get(id)
        return None if home is None else self._container(home).get(id)

    def table_by_id(self, id: int) -> TableDescriptor | None:
        """A table."""
        return self._typed(id, TableDescriptor)

    def index_by_id(self, id: int) -> IndexDescriptor | None:
        """An index."""
        return self._typed(id, IndexDescriptor)

    def view_by_id(self, id: int) -> ViewDescriptor | None:
        """A view."""
        return self._typed(id, ViewDescriptor)

    def sequence_by_id(self, id: int) -> SequenceDescriptor | None:
        """A sequence."""
        return self._typed(id, SequenceDescriptor)

    def schema_by_id(self, id: int) -> SchemaDescriptor | None:
        """A schema."""
        return self.schemas.get(id)

    def zone_by_id(self, id: int) -> ZoneDescriptor | None:
        """A zone."""
        return self.zones.get(id)

    # By name

    def schema(self, name: str) -> SchemaDescriptor | None:
        """A schema."""
        return self.schemas.named(name)

    def zone(self, name: str) -> ZoneDescriptor | None:
        """A zone."""
        return self.zones.named(name)

    def table(self, schema: str, name: str) -> TableDescriptor | None:
        """A table."""
        found = self.schemas.named(schema)
        return None if found is None else found.tables.named(name)

    def index(self, schema: str, name: str) -> IndexDescriptor | None:
        """An index."""
        found = self.schemas.named(schema)
        return None if found is None else found.indexes.named(name)

    def view(self, schema: str, name: str) -> ViewDescriptor | None:
        """A view."""
        found = self.schemas.named(schema)
        return None if found is None else found.views.named(name)

    def sequence(self, schema: str, name: str) -> SequenceDescriptor | None:
        """A sequence."""
        found = self.schemas.named(schema)
        return None if found is None else found.sequences.named(name)

    # Relations between objects

    @property
    def default_zone(self) -> ZoneDescriptor | None:
        """The zone of tables that name none."""
        return None if self.default_zone_id is None else self.zones.get(self.default_zone_id)

    def indexes_of(self, table_id: int) -> list[IndexDescriptor]:
        """The indexes on a table."""
        return [each for each in self.users_of(table_id) if isinstance(each, IndexDescriptor)]

    def users_of(self, id: int) -> list[CatalogObjectDescriptor]:
        """The objects that refer to this one."""
        found = [self.object_by_id(user) for user in sorted(self.users.get(id, ()))]
        return [each for each in found if each is not None]

    def path(self, descriptor: CatalogObjectDescriptor) -> str:
        """The name of an object as people write it."""
        if isinstance(descriptor, SchemaObjectDescriptor):
            schema = self.schemas.get(descriptor.schema_id)
            return f"{schema.name if schema else '?'}.{descriptor.name}"
        return descriptor.name

    def __len__(self) -> int:
        return len(self.homes)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Catalog):
            return NotImplemented
        return self._facts() == other._facts()

    __hash__ = None  # type: ignore[assignment]

    # Successors

    def put(self, descriptor: CatalogObjectDescriptor) -> Catalog:
        """With this descriptor, in the place of the one with its identifier if there is one."""
        home, id = home_of(descriptor), descriptor.id
        known = self.homes.get(id)
        if known is None:
            homes, users = self.homes.set(id, home), _add(self.users, descriptor.references, id)
        elif known == home:
            former = self._container(home)[id]
            homes, users = self.homes, self.users
            if former.references != descriptor.references:
                users = _add(_discard(users, former.references, id), descriptor.references, id)
        else:
            violated("an object does not change its type or its schema", id=id)
        return self._with(home, self._container(home).put(descriptor), homes, users)

    def remove(self, id: int) -> Catalog:
        """Without this object, which nobody may refer to any more."""
        home = self.homes.get(id)
        if home is None:
            violated("what is dropped exists", id=id)
        if self.users.get(id):
            violated("nothing refers to what is dropped", id=id)
        container = self._container(home)
        descriptor = container[id]
        users = _discard(self.users, descriptor.references, id)
        return self._with(home, container.remove(descriptor), self.homes.remove(id), users)

    def at(self, version: int, time: HybridTimestamp) -> Catalog:
        """The same objects, as the contents of a version."""
        return evolve(self, version=version, time=time)

    # Inside

    def _typed(self, id: int, type_: type[O]) -> O | None:
        found = self.object_by_id(id)
        return found if isinstance(found, type_) else None

    def _container(self, home: Home) -> Objects[Any]:
        if home.type is ObjectType.ZONE:
            return self.zones
        if home.type is ObjectType.SCHEMA:
            return self.schemas
        schema = self.schemas.get(home.schema_id)
        if schema is None:
            violated("an object's schema exists", schema_id=home.schema_id)
        found: Objects[Any] = getattr(schema, MEMBERS[home.type])
        return found

    def _with(self, home: Home, container: Objects[Any], homes: Homes, users: UsersOf) -> Catalog:
        if home.type is ObjectType.ZONE:
            return evolve(self, zones=container, homes=homes, users=users)
        if home.type is not ObjectType.SCHEMA:
            schema = self.schemas[home.schema_id].with_members(home.type, container)
            container = self.schemas.put(schema)
        return evolve(self, schemas=container, homes=homes, users=users)

    def _facts(self) -> tuple[Any, ...]:
        return (self.version, self.time, self.next_id, self.default_zone_id, self.zones, self.schemas)


def home_of(descriptor: CatalogObjectDescriptor) -> Home:
    """Where an object lives."""
    schema_id = descriptor.schema_id if isinstance(descriptor, SchemaObjectDescriptor) else 0
    return Home(descriptor.object_type, schema_id)


def _add(users: UsersOf, references: Iterable[int], id: int) -> UsersOf:
    for reference in references:
        users = users.set(reference, _persistent(users.get(reference)).set(id, None))
    return users


def _discard(users: UsersOf, references: Iterable[int], id: int) -> UsersOf:
    for reference in references:
        rest = _persistent(users.get(reference)).remove(id)
        users = users.set(reference, rest) if len(rest) else users.remove(reference)
    return users


def _persistent(found: Users | list[int] | None) -> Users:
    """The users of an object. A snapshot leaves them as a plain list until somebody changes them."""
    if found is None:
        return PersistentMap()
    return PersistentMap(dict.fromkeys(found)) if isinstance(found, list) else found

"""Descriptors: the immutable facts about every object that the catalog manages.

All descend from `CatalogObjectDescriptor`. An identifier is never given twice within a catalog, and stays
with its object through every change and renaming. Columns have identifiers of their own, unique within
their table for ever, so that keys and indexes follow a column through a renaming by themselves.

A schema's descriptor holds its tables, indexes, views and sequences in persistent maps: adding a table
gives another schema that shares all others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum, unique
from typing import Any, ClassVar, Generic, Self, TypeVar

from hermit.service.clock import BEGINNING, HybridTimestamp
from hermit.service.evolve import evolve
from hermit.service.marshallable import MarshalledType
from hermit.service.persistent import PersistentMap
from hermit.service.types import ColumnType, DefaultValue


@unique
class ObjectType(IntEnum):
    """The types of objects with an identifier and a name."""

    ZONE = 1
    SCHEMA = 2
    TABLE = 3
    INDEX = 4
    VIEW = 5
    SEQUENCE = 6

    @property
    def word(self) -> str:
        """The type in a message."""
        return self.name.lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogObjectDescriptor:
    """What every object of the catalog has."""

    object_type: ClassVar[ObjectType]
    marshalled_type: ClassVar[MarshalledType]

    id: int
    name: str
    updated: HybridTimestamp = BEGINNING

    @property
    def references(self) -> tuple[int, ...]:
        """The objects without which this one makes no sense: they cannot be dropped before it."""
        return ()

    def at(self, timestamp: HybridTimestamp) -> Self:
        """The descriptor, as changed at this time."""
        return evolve(self, updated=timestamp)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaObjectDescriptor(CatalogObjectDescriptor):
    """An object that lives in a schema."""

    schema_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneDescriptor(CatalogObjectDescriptor):
    """How the data of some tables is spread over the cluster."""

    object_type = ObjectType.ZONE
    marshalled_type = MarshalledType.ZONE

    partitions: int = 25
    replicas: int = 1
    filter: str = "$..*"
    storage_profiles: tuple[str, ...] = ("default",)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumnDescriptor:
    """One column of a table."""

    marshalled_type: ClassVar[MarshalledType] = MarshalledType.TABLE_COLUMN

    id: int
    name: str
    type: ColumnType
    nullable: bool = True
    length: int | None = None
    precision: int | None = None
    scale: int | None = None
    default: DefaultValue | None = None


@dataclass(frozen=True, slots=True)
class TableSchemaVersions:
    """The columns that a table had before, oldest first. The first of them is schema version `base`."""

    marshalled_type: ClassVar[MarshalledType] = MarshalledType.TABLE_SCHEMA_VERSIONS

    base: int = 1
    past: tuple[tuple[TableColumnDescriptor, ...], ...] = ()

    def followed_by(self, columns: tuple[TableColumnDescriptor, ...]) -> TableSchemaVersions:
        """The history with one more version in it."""
        return TableSchemaVersions(self.base, (*self.past, columns))


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDescriptor(SchemaObjectDescriptor):
    """A table: its columns, its key, where its data lives, and what its columns were before."""

    object_type = ObjectType.TABLE
    marshalled_type = MarshalledType.TABLE

    zone_id: int
    columns: tuple[TableColumnDescriptor, ...]
    primary_key: tuple[int, ...]
    colocation: tuple[int, ...]
    last_column_id: int
    schema_versions: TableSchemaVersions = TableSchemaVersions()

    @property
    def references(self) -> tuple[int, ...]:
        return (self.zone_id,)

    @property
    def schema_version(self) -> int:
        """The number of the current version of the columns."""
        return self.schema_versions.base + len(self.schema_versions.past)

    def column(self, name: str) -> TableColumnDescriptor | None:
        """The column of this name."""
        return next((column for column in self.columns if column.name == name), None)

    def column_by_id(self, id: int) -> TableColumnDescriptor | None:
        """The column with this identifier."""
        return next((column for column in self.columns if column.id == id), None)

    def columns_at(self, schema_version: int) -> tuple[TableColumnDescriptor, ...] | None:
        """The columns of a version of this table, if it is known."""
        if schema_version == self.schema_version:
            return self.columns
        index = schema_version - self.schema_versions.base
        past = self.schema_versions.past
        return past[index] if 0 <= index < len(past) else None

    def with_columns(self, columns: tuple[TableColumnDescriptor, ...]) -> TableDescriptor:
        """The table in its next schema version."""
        return evolve(
            self,
            columns=columns,
            last_column_id=max(self.last_column_id, *(column.id for column in columns)),
            schema_versions=self.schema_versions.followed_by(self.columns),
        )


@unique
class IndexKind(IntEnum):
    """How an index finds rows."""

    HASH = 1
    SORTED = 2


@unique
class Collation(IntEnum):
    """The order of one column of a sorted index."""

    NONE = 0
    ASC_NULLS_FIRST = 1
    ASC_NULLS_LAST = 2
    DESC_NULLS_FIRST = 3
    DESC_NULLS_LAST = 4


@dataclass(frozen=True, slots=True)
class IndexColumnDescriptor:
    """One column of an index."""

    marshalled_type: ClassVar[MarshalledType] = MarshalledType.INDEX_COLUMN

    column_id: int
    collation: Collation = Collation.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexDescriptor(SchemaObjectDescriptor):
    """An index on a table."""

    object_type = ObjectType.INDEX
    marshalled_type = MarshalledType.INDEX

    table_id: int
    kind: IndexKind
    columns: tuple[IndexColumnDescriptor, ...]
    is_unique: bool = False

    @property
    def references(self) -> tuple[int, ...]:
        return (self.table_id,)


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewDescriptor(SchemaObjectDescriptor):
    """A query with a name, and the relations that it reads."""

    object_type = ObjectType.VIEW
    marshalled_type = MarshalledType.VIEW

    query: str
    depends_on: tuple[int, ...] = ()

    @property
    def references(self) -> tuple[int, ...]:
        return self.depends_on


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceDescriptor(SchemaObjectDescriptor):
    """Where a sequence starts, and how it goes on."""

    object_type = ObjectType.SEQUENCE
    marshalled_type = MarshalledType.SEQUENCE

    start: int = 1
    increment: int = 1
    minimum: int = 1
    maximum: int = 2**63 - 1
    cycle: bool = False


O = TypeVar("O", bound=CatalogObjectDescriptor)  # noqa: E741


class Objects(Generic[O]):
    """Descriptors of one type by identifier and by name, shared between versions."""

    __slots__ = ("by_id", "ids")

    def __init__(
        self,
        by_id: PersistentMap[int, O] | None = None,
        ids: PersistentMap[str, int] | None = None,
    ) -> None:
        self.by_id: PersistentMap[int, O] = PersistentMap() if by_id is None else by_id
        self.ids: PersistentMap[str, int] = PersistentMap() if ids is None else ids

    @classmethod
    def of(cls, descriptors: Iterable[O]) -> Objects[O]:
        """These descriptors."""
        found = list(descriptors)
        return cls(
            PersistentMap({each.id: each for each in found}),
            PersistentMap({each.name: each.id for each in found}),
        )

    def named(self, name: str) -> O | None:
        """The object of this name."""
        found = self.ids.get(name)
        return None if found is None else self.by_id[found]

    def get(self, id: int) -> O | None:
        """The object with this identifier."""
        return self.by_id.get(id)

    def put(self, descriptor: O) -> Objects[O]:
        """With this descriptor in the place of the one that had its identifier, if any."""
        former, ids = self.by_id.get(descriptor.id), self.ids
        if former is None or former.name != descriptor.name:
            if former is not None:
                ids = ids.remove(former.name)
            ids = ids.set(descriptor.name, descriptor.id)
        return Objects(self.by_id.set(descriptor.id, descriptor), ids)

    def remove(self, descriptor: O) -> Objects[O]:
        """Without this object."""
        return Objects(self.by_id.remove(descriptor.id), self.ids.remove(descriptor.name))

    def __len__(self) -> int:
        return len(self.by_id)

    def __iter__(self) -> Iterator[O]:
        return iter(sorted(self.by_id.values(), key=lambda each: each.id))

    def __getitem__(self, id: int) -> O:
        return self.by_id[id]

    def __contains__(self, name: object) -> bool:
        return name in self.ids

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Objects) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{len(self)} objects>"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaDescriptor(CatalogObjectDescriptor):
    """A schema and all that is in it. Tables, views, sequences and indexes share one space of names."""

    object_type = ObjectType.SCHEMA
    marshalled_type = MarshalledType.SCHEMA

    tables: Objects[TableDescriptor] = field(default_factory=Objects)
    indexes: Objects[IndexDescriptor] = field(default_factory=Objects)
    views: Objects[ViewDescriptor] = field(default_factory=Objects)
    sequences: Objects[SequenceDescriptor] = field(default_factory=Objects)

    def named(self, name: str) -> SchemaObjectDescriptor | None:
        """Whatever has this name here."""
        return (
            self.tables.named(name)
            or self.indexes.named(name)
            or self.views.named(name)
            or self.sequences.named(name)
        )

    def members(self) -> Iterator[SchemaObjectDescriptor]:
        """Everything in the schema, by type, then by identifier."""
        for attribute in MEMBERS.values():
            yield from getattr(self, attribute)

    def with_members(self, type_: ObjectType, members: Objects[Any]) -> SchemaDescriptor:
        """The schema with these as its objects of one type."""
        changed: dict[str, Any] = {MEMBERS[type_]: members}
        return evolve(self, **changed)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is in the schema."""
        return not any(len(getattr(self, attribute)) for attribute in MEMBERS.values())


MEMBERS: Mapping[ObjectType, str] = {
    ObjectType.TABLE: "tables",
    ObjectType.INDEX: "indexes",
    ObjectType.VIEW: "views",
    ObjectType.SEQUENCE: "sequences",
}
"""Where a schema keeps the objects of each type."""

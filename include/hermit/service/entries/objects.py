"""Entries that make, rename and drop whole objects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from hermit.service.catalog import Catalog
from hermit.service.clock import HybridTimestamp
from hermit.service.descriptors import (
    CatalogObjectDescriptor,
    IndexDescriptor,
    SchemaDescriptor,
    SequenceDescriptor,
    TableDescriptor,
    ViewDescriptor,
    ZoneDescriptor,
)
from hermit.service.entries.base import UpdateEntry, existing
from hermit.service.events import CatalogEvent, EventType
from hermit.service.evolve import evolve
from hermit.service.marshallable import MarshalledType

O = TypeVar("O", bound=CatalogObjectDescriptor)  # noqa: E741


@dataclass(frozen=True, slots=True)
class NewObjectEntry(UpdateEntry, Generic[O]):
    """A new object."""

    descriptor: O

    def apply(self, catalog: Catalog, timestamp: HybridTimestamp) -> Catalog:
        return catalog.put(self.descriptor.at(timestamp))

    def event(self, before: Catalog, after: Catalog) -> CatalogEvent:
        found = existing(after, self.descriptor.id, CatalogObjectDescriptor)
        return CatalogEvent(EventType.created(found.object_type), after.version, after.time, found)


@dataclass(frozen=True, slots=True)
class NewTableEntry(NewObjectEntry[TableDescriptor]):
    """A new table."""

    marshalled_type: ClassVar[MarshalledType] = MarshalledType.NEW_TABLE


@dataclass(frozen=True, slots=True)
class NewIndexEntry(NewObjectEntry[IndexDescriptor]):
    """A new index."""

    marshalled_type: ClassVar[MarshalledType] = MarshalledType.NEW_INDEX


@dataclass(frozen=True, slots=True)
class NewZoneEntry(NewObjectEntry[ZoneDescriptor]):
    """A new zone."""

    marshalled_type: ClassVar[MarshalledType] = MarshalledType.NEW_ZONE


@dataclass(frozen=True, slots=True)
class NewViewEntry(NewObjectEntry[ViewDescriptor]):
    """A new view."""

    marshalled_type: ClassVar[MarshalledType] = MarshalledType.NEW_VIEW


@dataclass(frozen=True, slots=True)
class NewSequenceEntry(NewObjectEntry[SequenceDescriptor]):
    """A new sequence."""

    marshalled_type: ClassVar[MarshalledType] = MarshalledType.NEW_SEQUENCE


@dataclass(frozen=True, slots=True)
class NewSchemaEntry(NewObjectEntry[SchemaDescriptor]):
    """A new schema, with whatever is in it from the start."""

    marshalled_type: ClassVar[MarshalledType] = MarshalledType.NEW_SCHEMA

    def apply(self, catalog: Catalog, timestamp: HybridTimestamp) -> Catalog:
        schema = self.descriptor
        bare = SchemaDescriptor(id=schema.id, name=schema.name, updated=timestamp)
        catalog = catalog.put(bare)
        for member in schema.members():
            catalog = catalog.put(member.at(timestamp))
        return catalog


@dataclass(frozen=True, slots=True)
class RenameEntry(UpdateEntry):
    """Another name for an object, whatever its type."""

    marshalled_type: ClassVar[MarshalledType] = MarshalledType.RENAME

    id: int
    name: str

    def apply(self, catalog: Catalog, timestamp: HybridTimestamp) -> Catalog:
        found = existing(catalog, self.id, CatalogObjectDescriptor)
        return catalog.put(evolve(found, name=self.name, updated=timestamp))

    def event(self, before: Catalog, after: Catalog) -> CatalogEvent:
        found = existing(after, self.id, CatalogObjectDescriptor)
        former = before.object_by_id(self.id)
        return CatalogEvent(EventType.altered(found.object_type), after.version, after.time, found, former)


@dataclass(frozen=True, slots=True)
class DropEntry(UpdateEntry):
    """The end of an object, whatever its type. Whatever referred to it went before."""

    marshalled_type: ClassVar[MarshalledType] = MarshalledType.DROP

    id: int

    def apply(self, catalog: Catalog, timestamp: HybridTimestamp) -> Catalog:
        return catalog.remove(self.id)

    def event(self, before: Catalog, after: Catalog) -> CatalogEvent:
        former = existing(before, self.id, CatalogObjectDescriptor)
        return CatalogEvent(EventType.dropped(former.object_type), after.version, after.time, None, former)

"""Entries that give an object other settings, and those of the catalog itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from hermit.service.catalog import Catalog
from hermit.service.clock import HybridTimestamp
from hermit.service.descriptors import (
    CatalogObjectDescriptor,
    SequenceDescriptor,
    ViewDescriptor,
    ZoneDescriptor,
)
from hermit.service.entries.base import UpdateEntry, existing
from hermit.service.events import CatalogEvent, EventType
from hermit.service.evolve import evolve
from hermit.service.marshallable import MarshalledType

O = TypeVar("O", bound=CatalogObjectDescriptor)  # noqa: E741


@dataclass(frozen=True, slots=True)
class AlterObjectEntry(UpdateEntry, Generic[O]):
    """A descriptor in the place of the one with its identifier."""

    descriptor: O

    def apply(self, catalog: Catalog, timestamp: HybridTimestamp) -> Catalog:
        existing(catalog, self.descriptor.id, type(self.descriptor))
        return catalog.put(self.descriptor.at(timestamp))

    def event(self, before: Catalog, after: Catalog) -> CatalogEvent:
        found = existing(after, self.descriptor.id, type(self.descriptor))
        former = before.object_by_id(self.descriptor.id)
        return CatalogEvent(EventType.altered(found.object_type), after.version, after.time, found, former)


@dataclass(frozen=True, slots=True)
class AlterZoneEntry(AlterObjectEntry[ZoneDescriptor]):
    """Other settings of a zone."""

    marshalled_type: ClassVar[MarshalledType] = MarshalledType.ALTER_ZONE


@dataclass(frozen=True, slots=True)
class AlterViewEntry(AlterObjectEntry[ViewDescriptor]):
    """Another query for a view."""

    marshalled_type: ClassVar[MarshalledType] = MarshalledType.ALTER_VIEW


@dataclass(frozen=True, slots=True)
class AlterSequenceEntry(AlterObjectEntry[SequenceDescriptor]):
    """Other settings of a sequence."""

    marshalled_type: ClassVar[MarshalledType] = MarshalledType.ALTER_SEQUENCE


@dataclass(frozen=True, slots=True)
class SetDefaultZoneEntry(UpdateEntry):
    """Another zone for tables that name none."""

    marshalled_type: ClassVar[MarshalledType] = MarshalledType.SET_DEFAULT_ZONE

    zone_id: int

    def apply(self, catalog: Catalog, timestamp: HybridTimestamp) -> Catalog:
        existing(catalog, self.zone_id, ZoneDescriptor)
        return evolve(catalog, default_zone_id=self.zone_id)

    def event(self, before: Catalog, after: Catalog) -> CatalogEvent:
        zone = existing(after, self.zone_id, ZoneDescriptor)
        return CatalogEvent(EventType.DEFAULT_ZONE_SET, after.version, after.time, zone, before.default_zone)


@dataclass(frozen=True, slots=True)
class ObjectIdGenUpdateEntry(UpdateEntry):
    """Identifiers that were given out, so that nobody gives them again."""

    marshalled_type: ClassVar[MarshalledType] = MarshalledType.OBJECT_ID_GEN_UPDATE

    count: int

    def apply(self, catalog: Catalog, timestamp: HybridTimestamp) -> Catalog:
        return evolve(catalog, next_id=catalog.next_id + self.count)

"""Snapshots: a whole catalog as the log holds it, and how one is taken up again without decoding it.

Objects in schemas stand in sections: all of one type in one schema, in the order of their identifiers. A
section lists identifiers, names, references and sizes as plain arrays in front of the objects themselves.
Taking up a snapshot reads the arrays, which is quick whatever their length, and leaves each object as bytes
until somebody asks for it. Writing the next snapshot copies the bytes of objects that nobody changed.

A store takes rows up to a certain size. What does not fit the row of the snapshot itself goes on in parts,
under keys of their own; every part is complete by itself.
"""

from __future__ import annotations

import itertools
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

from hermit.service.catalog import Catalog, Home, Homes, UsersOf
from hermit.service.clock import HybridTimestamp
from hermit.service.descriptors import (
    MEMBERS,
    CatalogObjectDescriptor,
    Objects,
    ObjectType,
    SchemaDescriptor,
    SchemaObjectDescriptor,
    ZoneDescriptor,
)
from hermit.service.errors import LogDamaged, MalformedBytes
from hermit.service.evolve import evolve
from hermit.service.marshallable import MarshalledType
from hermit.service.persistent import LazyMap, PersistentMap
from hermit.service.wire.io import Input, Output
from hermit.service.wire.registry import SerializerRegistry

PART_BYTES_MAX = 1024 * 1024
_USERS_LISTED_MAX = 16
_REFERENCES_FEW = 8


class Record(NamedTuple):
    """One object of a section, not decoded."""

    id: int
    name: str
    references: tuple[int, ...]
    data: bytes


@dataclass(frozen=True, slots=True)
class Section:
    """Objects of one type in one schema."""

    schema_id: int
    type: ObjectType
    ids: array[int]
    names: Sequence[str]
    reference_counts: array[int]
    references: array[int]
    sizes: array[int]
    data: bytes

    @classmethod
    def of(cls, schema_id: int, type_: ObjectType, records: Sequence[Record]) -> Section:
        """These objects."""
        return cls(
            schema_id,
            type_,
            array("Q", [record.id for record in records]),
            [record.name for record in records],
            array("I", [len(record.references) for record in records]),
            array("Q", [reference for record in records for reference in record.references]),
            array("I", [len(record.data) for record in records]),
            b"".join(record.data for record in records),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All of a catalog at one version, but for the objects in its parts."""

    marshalled_type: ClassVar[MarshalledType] = MarshalledType.SNAPSHOT

    version: int
    time: HybridTimestamp
    next_id: int
    default_zone_id: int | None
    zones: tuple[ZoneDescriptor, ...]
    schemas: tuple[SchemaDescriptor, ...]
    parts: int = 0
    sections: tuple[Section, ...] = ()


@dataclass(frozen=True, slots=True)
class SnapshotPart:
    """More objects of a snapshot."""

    marshalled_type: ClassVar[MarshalledType] = MarshalledType.SNAPSHOT_PART

    version: int
    number: int
    sections: tuple[Section, ...]


class PackedObjects(Mapping[int, Any]):
    """The objects of a section by identifier, each decoded when it is first asked for."""

    __slots__ = ("_decoded", "_ends", "_reference_ends", "_registry", "_section")

    def __init__(self, section: Section, registry: SerializerRegistry) -> None:
        self._section = section
        self._registry = registry
        self._ends: array[int] | None = None
        self._reference_ends: array[int] | None = None
        self._decoded: dict[int, CatalogObjectDescriptor] = {}

    def __getitem__(self, id: int) -> Any:
        place = self._find(id)
        if place is None:
            raise KeyError(id)
        return self._object(place)

    def get(self, id: int, default: Any = None) -> Any:
        """The object, or the default; without the detour over an exception."""
        place = self._find(id)
        return default if place is None else self._object(place)

    def __contains__(self, id: object) -> bool:
        return isinstance(id, int) and self._find(id) is not None

    def __iter__(self) -> Iterator[int]:
        return iter(self._section.ids)

    def __len__(self) -> int:
        return len(self._section.ids)

    def record(self, id: int) -> Record:
        """The object as it was written."""
        section, place = self._section, self._find(id)
        if place is None:
            raise KeyError(id)
        if self._reference_ends is None:
            self._reference_ends = array("Q", itertools.accumulate(section.reference_counts))
        end = self._reference_ends[place]
        references = tuple(section.references[end - section.reference_counts[place] : end])
        return Record(id, section.names[place], references, self._data(place))

    def _find(self, id: int) -> int | None:
        ids = self._section.ids
        place = bisect_left(ids, id)
        return place if place < len(ids) and ids[place] == id else None

    def _object(self, place: int) -> CatalogObjectDescriptor:
        # Two threads may decode one object at once. Both get equal ones, and either may stay.
        found = self._decoded.get(place)
        if found is None:
            inp = Input(self._data(place), self._registry)
            found = self._decoded[place] = inp.object(SchemaObjectDescriptor)
            inp.finish()
        return found

    def _data(self, place: int) -> bytes:
        if self._ends is None:
            self._ends = array("Q", itertools.accumulate(self._section.sizes))
        end = self._ends[place]
        return self._section.data[end - self._section.sizes[place] : end]


# Taking a snapshot


def take(
    catalog: Catalog, registry: SerializerRegistry, part_bytes_max: int = PART_BYTES_MAX
) -> tuple[Snapshot, list[SnapshotPart]]:
    """A catalog as a snapshot, and the parts that it goes on in."""
    groups = list(_cut(_sections(catalog, registry, part_bytes_max), part_bytes_max))
    first, *rest = groups or [[]]
    snapshot = Snapshot(
        version=catalog.version,
        time=catalog.time,
        next_id=catalog.next_id,
        default_zone_id=catalog.default_zone_id,
        zones=tuple(catalog.zones),
        schemas=tuple(
            SchemaDescriptor(id=schema.id, name=schema.name, updated=schema.updated)
            for schema in catalog.schemas
        ),
        parts=len(rest),
        sections=tuple(first),
    )
    return snapshot, [
        SnapshotPart(catalog.version, number, tuple(group)) for number, group in enumerate(rest, start=1)
    ]


def _sections(catalog: Catalog, registry: SerializerRegistry, bytes_max: int) -> Iterator[Section]:
    for schema in catalog.schemas:
        for type_, attribute in MEMBERS.items():
            batch: list[Record] = []
            size_bytes = 0
            for record in _records(getattr(schema, attribute), registry):
                if batch and size_bytes + len(record.data) > bytes_max // 2:
                    yield Section.of(schema.id, type_, batch)
                    batch, size_bytes = [], 0
                batch.append(record)
                size_bytes += len(record.data)
            if batch:
                yield Section.of(schema.id, type_, batch)


def _records(objects: Objects[Any], registry: SerializerRegistry) -> Iterator[Record]:
    """Every object in the order of identifiers. What nobody changed since it was read stays as it is.

    That holds even if a newer serializer exists by now: objects of all versions can be read for ever.
    """
    base = objects.by_id.base
    for id_ in sorted(objects.by_id):
        if isinstance(base, PackedObjects) and objects.by_id.unchanged(id_):
            yield base.record(id_)
            continue
        descriptor = objects.by_id[id_]
        out = Output(registry)
        out.object(descriptor)
        yield Record(id_, descriptor.name, descriptor.references, bytes(out.buffer))


def _cut(sections: Iterable[Section], bytes_max: int) -> Iterator[list[Section]]:
    group: list[Section] = []
    size_bytes = 0
    for section in sections:
        if group and size_bytes + len(section.data) > bytes_max:
            yield group
            group, size_bytes = [], 0
        group.append(section)
        size_bytes += len(section.data)
    if group:
        yield group


# Taking it up again


def restore(snapshot: Snapshot, parts: Sequence[SnapshotPart], registry: SerializerRegistry) -> Catalog:
    """The catalog that a snapshot and its parts were taken of."""
    found = [(part.version, part.number) for part in parts]
    wanted = [(snapshot.version, number) for number in range(1, snapshot.parts + 1)]
    if found != wanted:
        raise LogDamaged(
            f"the snapshot of version {snapshot.version} has {snapshot.parts} parts, not {found}",
            version=snapshot.version,
        )
    catalog = Catalog(next_id=snapshot.next_id, default_zone_id=snapshot.default_zone_id)
    for each in (*snapshot.zones, *snapshot.schemas):
        catalog = _put_tree(catalog, each)
    sections = [*snapshot.sections, *(section for part in parts for section in part.sections)]
    return _with_sections(catalog, sections, registry).at(snapshot.version, snapshot.time)


def _put_tree(catalog: Catalog, descriptor: CatalogObjectDescriptor) -> Catalog:
    """Put a zone, or a schema with everything that stands in it."""
    if not isinstance(descriptor, SchemaDescriptor):
        return catalog.put(descriptor)
    bare = SchemaDescriptor(id=descriptor.id, name=descriptor.name, updated=descriptor.updated)
    catalog = catalog.put(bare)
    for member in descriptor.members():
        catalog = catalog.put(member)
    return catalog


def _with_sections(catalog: Catalog, sections: Sequence[Section], registry: SerializerRegistry) -> Catalog:
    """What is looked up by name is found at once; what only changes need is worked out for the first one."""
    if not sections:
        return catalog
    grouped = itertools.groupby(sections, key=lambda section: (section.schema_id, section.type))
    merged = [_merged(list(group)) for _, group in grouped]
    schemas = catalog.schemas
    for section in merged:
        schema = schemas.get(section.schema_id)
        if schema is None or len(getattr(schema, MEMBERS[section.type])):
            raise MalformedBytes(f"a section of schema {section.schema_id} stands in the wrong place")
        objects = Objects(PersistentMap(PackedObjects(section, registry)), PersistentMap(_names(section)))
        schemas = schemas.put(schema.with_members(section.type, objects))
    return evolve(
        catalog,
        schemas=schemas,
        homes=PersistentMap(LazyMap(partial(_homes, catalog.homes, merged))),
        users=PersistentMap(LazyMap(partial(_users, catalog.users, merged))),
    )


def _names(section: Section) -> Mapping[str, int]:
    return LazyMap(lambda: dict(zip(section.names, section.ids, strict=True)))


def _homes(homes: Homes, sections: Sequence[Section]) -> dict[int, Home]:
    """Where each object is."""
    found = {id_: homes[id_] for id_ in homes}
    for section in sections:
        found.update(dict.fromkeys(section.ids, Home(section.type, section.schema_id)))
    return found


def _users(users: UsersOf, sections: Sequence[Section]) -> dict[int, Any]:
    """Who refers to each object."""
    found: dict[int, Any] = {id_: list(each) for id_, each in users.items()}
    for section in sections:
        _add_users(found, section)
    for id_, each in found.items():
        # A short list is turned into a map when somebody changes it; a long one now, once.
        if len(each) > _USERS_LISTED_MAX:
            found[id_] = PersistentMap(dict.fromkeys(each))
    return found


def _merged(sections: Sequence[Section]) -> Section:
    """Consecutive sections of one type in one schema as one."""
    first, *rest = sections
    if not rest:
        return first
    ids, counts, references, sizes = array("Q"), array("I"), array("Q"), array("I")
    for section in sections:
        ids += section.ids
        counts += section.reference_counts
        references += section.references
        sizes += section.sizes
    return Section(
        first.schema_id,
        first.type,
        ids,
        list(itertools.chain.from_iterable(section.names for section in sections)),
        counts,
        references,
        sizes,
        b"".join(section.data for section in sections),
    )


def _add_users(users: dict[int, Any], section: Section) -> None:
    """Note who refers to whom, as plain lists."""
    references = section.references
    owners: Sequence[int] = section.ids
    if len(references) != len(owners) or set(section.reference_counts) != {1}:
        pairs = zip(section.ids, section.reference_counts, strict=True)
        owners = [id_ for id_, count in pairs for _ in range(count)]
    distinct = set(references)
    if len(distinct) <= _REFERENCES_FEW:
        # Many tables in few zones: a pass for each zone is quicker than a step for each table.
        for reference in distinct:
            found = itertools.compress(owners, map(reference.__eq__, references))
            users.setdefault(reference, []).extend(found)
        return
    for owner, reference in zip(owners, references, strict=True):
        users.setdefault(reference, []).append(owner)

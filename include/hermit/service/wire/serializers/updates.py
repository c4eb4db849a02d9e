"""What the log holds under its keys: updates, snapshots and their parts.

The newest versions end in a checksum of the whole, which is compared before anything else is read.
"""

from __future__ import annotations

import sys
from array import array
from dataclasses import replace

from hermit.service.clock import HybridTimestamp
from hermit.service.descriptors import IndexDescriptor, Objects, ObjectType, SchemaDescriptor, ZoneDescriptor
from hermit.service.entries import UpdateEntry
from hermit.service.errors import MalformedBytes
from hermit.service.marshallable import MarshalledType
from hermit.service.snapshot import Section, Snapshot, SnapshotPart
from hermit.service.update import Origin, VersionedUpdate
from hermit.service.wire.io import Input, Output
from hermit.service.wire.registry import CatalogObjectSerializer, catalog_serializer


@catalog_serializer(version=1, since="0.1.0")
class VersionedUpdateSerializerV1(CatalogObjectSerializer[VersionedUpdate]):
    """Version, time and entries."""

    type = MarshalledType.VERSIONED_UPDATE

    def write(self, value: VersionedUpdate, out: Output) -> None:
        out.varint(value.version)
        out.long(value.time)
        out.objects(value.entries)

    def read(self, inp: Input) -> VersionedUpdate:
        return VersionedUpdate(inp.varint(), HybridTimestamp(inp.long()), inp.objects(UpdateEntry))  # type: ignore[type-abstract]


@catalog_serializer(version=2, since="0.1.0")
class VersionedUpdateSerializerV2(CatalogObjectSerializer[VersionedUpdate]):
    """The origin as well, and a checksum."""

    type = MarshalledType.VERSIONED_UPDATE

    def write(self, value: VersionedUpdate, out: Output) -> None:
        out.varint(value.version)
        out.long(value.time)
        out.long(value.origin.node)
        out.varint(value.origin.sequence)
        out.objects(value.entries)
        out.checksum()

    def read(self, inp: Input) -> VersionedUpdate:
        inp.checksum()
        version, time = inp.varint(), HybridTimestamp(inp.long())
        origin = Origin(inp.long(), inp.varint())
        return VersionedUpdate(version, time, inp.objects(UpdateEntry), origin)  # type: ignore[type-abstract]


@catalog_serializer(version=1, since="0.1.0")
class SnapshotSerializerV1(CatalogObjectSerializer[Snapshot]):
    """Every object, one after the other, in one piece."""

    type = MarshalledType.SNAPSHOT

    def write(self, value: Snapshot, out: Output) -> None:
        out.varint(value.version)
        out.long(value.time)
        out.varint(value.next_id)
        out.optional(value.default_zone_id)
        out.objects(value.zones)
        out.objects(value.schemas)
        out.list(value.schemas, lambda schema: out.objects(schema.indexes))

    def read(self, inp: Input) -> Snapshot:
        version, time = inp.varint(), HybridTimestamp(inp.long())
        next_id, default_zone_id = inp.varint(), inp.optional()
        zones, schemas = inp.objects(ZoneDescriptor), inp.objects(SchemaDescriptor)
        indexes = inp.list(lambda: Objects.of(inp.objects(IndexDescriptor)))
        if len(indexes) != len(schemas):
            raise MalformedBytes(f"{len(schemas)} schemas have {len(indexes)} lists of indexes")
        return Snapshot(
            version=version,
            time=time,
            next_id=next_id,
            default_zone_id=default_zone_id,
            zones=zones,
            schemas=tuple(
                replace(schema, indexes=found) for schema, found in zip(schemas, indexes, strict=True)
            ),
        )


class _Sections:
    """Sections, as the serializers below share them. The arrays are big-endian, as everything is."""

    def write_sections(self, sections: tuple[Section, ...], out: Output) -> None:
        out.varint(len(sections))
        for section in sections:
            out.varint(section.schema_id)
            out.varint(section.type)
            out.varint(len(section.ids))
            out.raw(self._bytes(section.ids))
            out.text("\0".join(section.names))
            out.list(section.reference_counts, out.varint)
            out.varint(len(section.references))
            out.raw(self._bytes(section.references))
            out.raw(self._bytes(section.sizes))
            out.blob(section.data)

    def read_sections(self, inp: Input) -> tuple[Section, ...]:
        return inp.list(lambda: self._read_section(inp))

    def _read_section(self, inp: Input) -> Section:
        schema_id, type_, count = inp.varint(), inp.enum(ObjectType), inp.varint()
        ids, names = self._array(inp, "Q", count), inp.text().split("\0")
        counts = self._counts(inp)
        references = self._array(inp, "Q", inp.varint())
        sizes, data = self._array(inp, "I", count), inp.blob()
        if list(ids) != sorted(set(ids)):
            raise MalformedBytes(f"the identifiers in a section of schema {schema_id} are not in order")
        if not len(names) == len(counts) == count or sum(counts) != len(references):
            raise MalformedBytes(f"a section of schema {schema_id} does not hold {count} of everything")
        if sum(sizes) != len(data):
            raise MalformedBytes(f"the objects of a section of schema {schema_id} do not fill it")
        return Section(schema_id, type_, ids, names, counts, references, sizes, data)

    def _counts(self, inp: Input) -> array[int]:
        """The numbers of references, which are nearly always one byte each."""
        start, count = inp.position, inp.varint()
        counts = inp.raw(count)
        if counts.isascii():
            return array("I", list(counts))
        inp.position = start
        return array("I", inp.list(inp.varint))

    def _array(self, inp: Input, code: str, count: int) -> array[int]:
        found: array[int] = array(code)
        found.frombytes(inp.raw(count * found.itemsize))
        if sys.byteorder == "little":
            found.byteswap()
        return found

    def _bytes(self, values: array[int]) -> bytes:
        if sys.byteorder == "big":
            return values.tobytes()
        swapped = values[:]
        swapped.byteswap()
        return swapped.tobytes()


@catalog_serializer(version=2, since="0.1.0")
class SnapshotSerializerV2(_Sections, CatalogObjectSerializer[Snapshot]):
    """Objects in sections that need not be decoded, parts, and a checksum."""

    type = MarshalledType.SNAPSHOT

    def write(self, value: Snapshot, out: Output) -> None:
        out.varint(value.version)
        out.long(value.time)
        out.varint(value.next_id)
        out.optional(value.default_zone_id)
        out.objects(value.zones)
        out.objects(value.schemas)
        out.varint(value.parts)
        self.write_sections(value.sections, out)
        out.checksum()

    def read(self, inp: Input) -> Snapshot:
        inp.checksum()
        return Snapshot(
            version=inp.varint(),
            time=HybridTimestamp(inp.long()),
            next_id=inp.varint(),
            default_zone_id=inp.optional(),
            zones=inp.objects(ZoneDescriptor),
            schemas=inp.objects(SchemaDescriptor),
            parts=inp.varint(),
            sections=self.read_sections(inp),
        )


@catalog_serializer(version=1, since="0.1.0")
class SnapshotPartSerializerV1(_Sections, CatalogObjectSerializer[SnapshotPart]):
    """Sections, and a checksum."""

    type = MarshalledType.SNAPSHOT_PART

    def write(self, value: SnapshotPart, out: Output) -> None:
        out.varint(value.version)
        out.varint(value.number)
        self.write_sections(value.sections, out)
        out.checksum()

    def read(self, inp: Input) -> SnapshotPart:
        inp.checksum()
        return SnapshotPart(inp.varint(), inp.varint(), self.read_sections(inp))

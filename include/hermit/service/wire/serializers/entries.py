"""Update entries."""

from __future__ import annotations

from dataclasses import replace

from hermit.service.descriptors import (
    IndexDescriptor,
    Objects,
    SchemaDescriptor,
    SequenceDescriptor,
    TableColumnDescriptor,
    TableDescriptor,
    ViewDescriptor,
    ZoneDescriptor,
)
from hermit.service.entries import (
    AlterColumnEntry,
    AlterSequenceEntry,
    AlterViewEntry,
    AlterZoneEntry,
    DropColumnsEntry,
    DropEntry,
    NewColumnsEntry,
    NewIndexEntry,
    NewSchemaEntry,
    NewSequenceEntry,
    NewTableEntry,
    NewViewEntry,
    NewZoneEntry,
    ObjectIdGenUpdateEntry,
    RenameEntry,
    SetDefaultZoneEntry,
)
from hermit.service.marshallable import MarshalledType
from hermit.service.wire.io import Input, Output
from hermit.service.wire.registry import CatalogObjectSerializer, catalog_serializer


@catalog_serializer(version=1, since="0.1.0")
class NewSchemaSerializerV1(CatalogObjectSerializer[NewSchemaEntry]):
    """The schema, which holds its tables, views and sequences; and beside it its indexes."""

    type = MarshalledType.NEW_SCHEMA

    def write(self, value: NewSchemaEntry, out: Output) -> None:
        out.object(value.descriptor)
        out.objects(value.descriptor.indexes)

    def read(self, inp: Input) -> NewSchemaEntry:
        schema, indexes = inp.object(SchemaDescriptor), inp.objects(IndexDescriptor)
        return NewSchemaEntry(replace(schema, indexes=Objects.of(indexes)))


@catalog_serializer(version=1, since="0.1.0")
class NewTableSerializerV1(CatalogObjectSerializer[NewTableEntry]):
    """The table."""

    type = MarshalledType.NEW_TABLE

    def write(self, value: NewTableEntry, out: Output) -> None:
        out.object(value.descriptor)

    def read(self, inp: Input) -> NewTableEntry:
        return NewTableEntry(inp.object(TableDescriptor))


@catalog_serializer(version=1, since="0.1.0")
class NewIndexSerializerV1(CatalogObjectSerializer[NewIndexEntry]):
    """The index."""

    type = MarshalledType.NEW_INDEX

    def write(self, value: NewIndexEntry, out: Output) -> None:
        out.object(value.descriptor)

    def read(self, inp: Input) -> NewIndexEntry:
        return NewIndexEntry(inp.object(IndexDescriptor))


@catalog_serializer(version=1, since="0.1.0")
class NewZoneSerializerV1(CatalogObjectSerializer[NewZoneEntry]):
    """The zone."""

    type = MarshalledType.NEW_ZONE

    def write(self, value: NewZoneEntry, out: Output) -> None:
        out.object(value.descriptor)

    def read(self, inp: Input) -> NewZoneEntry:
        return NewZoneEntry(inp.object(ZoneDescriptor))


@catalog_serializer(version=1, since="0.1.0")
class NewViewSerializerV1(CatalogObjectSerializer[NewViewEntry]):
    """The view."""

    type = MarshalledType.NEW_VIEW

    def write(self, value: NewViewEntry, out: Output) -> None:
        out.object(value.descriptor)

    def read(self, inp: Input) -> NewViewEntry:
        return NewViewEntry(inp.object(ViewDescriptor))


@catalog_serializer(version=1, since="0.1.0")
class NewSequenceSerializerV1(CatalogObjectSerializer[NewSequenceEntry]):
    """The sequence."""

    type = MarshalledType.NEW_SEQUENCE

    def write(self, value: NewSequenceEntry, out: Output) -> None:
        out.object(value.descriptor)

    def read(self, inp: Input) -> NewSequenceEntry:
        return NewSequenceEntry(inp.object(SequenceDescriptor))


@catalog_serializer(version=1, since="0.1.0")
class RenameSerializerV1(CatalogObjectSerializer[RenameEntry]):
    """Which object, and its name from now on."""

    type = MarshalledType.RENAME

    def write(self, value: RenameEntry, out: Output) -> None:
        out.varint(value.id)
        out.text(value.name)

    def read(self, inp: Input) -> RenameEntry:
        return RenameEntry(inp.varint(), inp.text())


@catalog_serializer(version=1, since="0.1.0")
class DropSerializerV1(CatalogObjectSerializer[DropEntry]):
    """Which object."""

    type = MarshalledType.DROP

    def write(self, value: DropEntry, out: Output) -> None:
        out.varint(value.id)

    def read(self, inp: Input) -> DropEntry:
        return DropEntry(inp.varint())


@catalog_serializer(version=1, since="0.1.0")
class NewColumnsSerializerV1(CatalogObjectSerializer[NewColumnsEntry]):
    """Which table, and its new columns."""

    type = MarshalledType.NEW_COLUMNS

    def write(self, value: NewColumnsEntry, out: Output) -> None:
        out.varint(value.table_id)
        out.objects(value.columns)

    def read(self, inp: Input) -> NewColumnsEntry:
        return NewColumnsEntry(inp.varint(), inp.objects(TableColumnDescriptor))


@catalog_serializer(version=1, since="0.1.0")
class DropColumnsSerializerV1(CatalogObjectSerializer[DropColumnsEntry]):
    """Which table, and which columns."""

    type = MarshalledType.DROP_COLUMNS

    def write(self, value: DropColumnsEntry, out: Output) -> None:
        out.varint(value.table_id)
        out.list(value.column_ids, out.varint)

    def read(self, inp: Input) -> DropColumnsEntry:
        return DropColumnsEntry(inp.varint(), inp.list(inp.varint))


@catalog_serializer(version=1, since="0.1.0")
class AlterColumnSerializerV1(CatalogObjectSerializer[AlterColumnEntry]):
    """Which table, and the column as it is from now on."""

    type = MarshalledType.ALTER_COLUMN

    def write(self, value: AlterColumnEntry, out: Output) -> None:
        out.varint(value.table_id)
        out.object(value.column)

    def read(self, inp: Input) -> AlterColumnEntry:
        return AlterColumnEntry(inp.varint(), inp.object(TableColumnDescriptor))


@catalog_serializer(version=1, since="0.1.0")
class AlterZoneSerializerV1(CatalogObjectSerializer[AlterZoneEntry]):
    """The zone as it is from now on."""

    type = MarshalledType.ALTER_ZONE

    def write(self, value: AlterZoneEntry, out: Output) -> None:
        out.object(value.descriptor)

    def read(self, inp: Input) -> AlterZoneEntry:
        return AlterZoneEntry(inp.object(ZoneDescriptor))


@catalog_serializer(version=1, since="0.1.0")
class AlterViewSerializerV1(CatalogObjectSerializer[AlterViewEntry]):
    """The view as it is from now on."""

    type = MarshalledType.ALTER_VIEW

    def write(self, value: AlterViewEntry, out: Output) -> None:
        out.object(value.descriptor)

    def read(self, inp: Input) -> AlterViewEntry:
        return AlterViewEntry(inp.object(ViewDescriptor))


@catalog_serializer(version=1, since="0.1.0")
class AlterSequenceSerializerV1(CatalogObjectSerializer[AlterSequenceEntry]):
    """The sequence as it is from now on."""

    type = MarshalledType.ALTER_SEQUENCE

    def write(self, value: AlterSequenceEntry, out: Output) -> None:
        out.object(value.descriptor)

    def read(self, inp: Input) -> AlterSequenceEntry:
        return AlterSequenceEntry(inp.object(SequenceDescriptor))


@catalog_serializer(version=1, since="0.1.0")
class SetDefaultZoneSerializerV1(CatalogObjectSerializer[SetDefaultZoneEntry]):
    """Which zone."""

    type = MarshalledType.SET_DEFAULT_ZONE

    def write(self, value: SetDefaultZoneEntry, out: Output) -> None:
        out.varint(value.zone_id)

    def read(self, inp: Input) -> SetDefaultZoneEntry:
        return SetDefaultZoneEntry(inp.varint())


@catalog_serializer(version=1, since="0.1.0")
class ObjectIdGenUpdateSerializerV1(CatalogObjectSerializer[ObjectIdGenUpdateEntry]):
    """How many identifiers were given out."""

    type = MarshalledType.OBJECT_ID_GEN_UPDATE

    def write(self, value: ObjectIdGenUpdateEntry, out: Output) -> None:
        out.varint(value.count)

    def read(self, inp: Input) -> ObjectIdGenUpdateEntry:
        return ObjectIdGenUpdateEntry(inp.varint())

"""Descriptors of objects. Each begins with identifier, name and the time of the last change."""

from __future__ import annotations

from hermit.service.clock import HybridTimestamp
from hermit.service.descriptors import (
    IndexColumnDescriptor,
    IndexDescriptor,
    IndexKind,
    Objects,
    SchemaDescriptor,
    SequenceDescriptor,
    TableColumnDescriptor,
    TableDescriptor,
    TableSchemaVersions,
    ViewDescriptor,
    ZoneDescriptor,
)
from hermit.service.marshallable import MarshalledType
from hermit.service.wire.io import Input, Output
from hermit.service.wire.registry import CatalogObjectSerializer, catalog_serializer


@catalog_serializer(version=1, since="0.1.0")
class ZoneSerializerV1(CatalogObjectSerializer[ZoneDescriptor]):
    """Partitions and replicas; every zone took all nodes and the default storage profile."""

    type = MarshalledType.ZONE

    def write(self, value: ZoneDescriptor, out: Output) -> None:
        out.varint(value.id)
        out.text(value.name)
        out.varint(value.updated)
        out.varint(value.partitions)
        out.varint(value.replicas)

    def read(self, inp: Input) -> ZoneDescriptor:
        return ZoneDescriptor(
            id=inp.varint(),
            name=inp.text(),
            updated=HybridTimestamp(inp.varint()),
            partitions=inp.varint(),
            replicas=inp.varint(),
        )


@catalog_serializer(version=2, since="0.1.0")
class ZoneSerializerV2(CatalogObjectSerializer[ZoneDescriptor]):
    """Filter and storage profiles as well."""

    type = MarshalledType.ZONE

    def write(self, value: ZoneDescriptor, out: Output) -> None:
        out.varint(value.id)
        out.text(value.name)
        out.varint(value.updated)
        out.varint(value.partitions)
        out.varint(value.replicas)
        out.text(value.filter)
        out.list(value.storage_profiles, out.text)

    def read(self, inp: Input) -> ZoneDescriptor:
        return ZoneDescriptor(
            id=inp.varint(),
            name=inp.text(),
            updated=HybridTimestamp(inp.varint()),
            partitions=inp.varint(),
            replicas=inp.varint(),
            filter=inp.text(),
            storage_profiles=inp.list(inp.text),
        )


@catalog_serializer(version=1, since="0.1.0")
class SchemaSerializerV1(CatalogObjectSerializer[SchemaDescriptor]):
    """The schema with its tables, views and sequences. Indexes are written by whoever writes the schema."""

    type = MarshalledType.SCHEMA

    def write(self, value: SchemaDescriptor, out: Output) -> None:
        out.varint(value.id)
        out.text(value.name)
        out.varint(value.updated)
        out.objects(value.tables)
        out.objects(value.views)
        out.objects(value.sequences)

    def read(self, inp: Input) -> SchemaDescriptor:
        return SchemaDescriptor(
            id=inp.varint(),
            name=inp.text(),
            updated=HybridTimestamp(inp.varint()),
            tables=Objects.of(inp.objects(TableDescriptor)),
            views=Objects.of(inp.objects(ViewDescriptor)),
            sequences=Objects.of(inp.objects(SequenceDescriptor)),
        )


@catalog_serializer(version=1, since="0.1.0")
class TableSerializerV1(CatalogObjectSerializer[TableDescriptor]):
    """Rows were spread by the primary key, always."""

    type = MarshalledType.TABLE

    def write(self, value: TableDescriptor, out: Output) -> None:
        out.varint(value.id)
        out.text(value.name)
        out.varint(value.updated)
        out.varint(value.schema_id)
        out.varint(value.zone_id)
        out.object(value.schema_versions)
        out.objects(value.columns)
        out.list(value.primary_key, out.varint)
        out.varint(value.last_column_id)

    def read(self, inp: Input) -> TableDescriptor:
        id_, name, updated = inp.varint(), inp.text(), HybridTimestamp(inp.varint())
        schema_id, zone_id = inp.varint(), inp.varint()
        versions, columns = inp.object(TableSchemaVersions), inp.objects(TableColumnDescriptor)
        primary_key = inp.list(inp.varint)
        return TableDescriptor(
            id=id_,
            name=name,
            updated=updated,
            schema_id=schema_id,
            zone_id=zone_id,
            schema_versions=versions,
            columns=columns,
            primary_key=primary_key,
            colocation=primary_key,
            last_column_id=inp.varint(),
        )


@catalog_serializer(version=2, since="0.1.0")
class TableSerializerV2(CatalogObjectSerializer[TableDescriptor]):
    """Colocation columns of their own."""

    type = MarshalledType.TABLE

    def write(self, value: TableDescriptor, out: Output) -> None:
        out.varint(value.id)
        out.text(value.name)
        out.varint(value.updated)
        out.varint(value.schema_id)
        out.varint(value.zone_id)
        out.object(value.schema_versions)
        out.objects(value.columns)
        out.list(value.primary_key, out.varint)
        out.list(value.colocation, out.varint)
        out.varint(value.last_column_id)

    def read(self, inp: Input) -> TableDescriptor:
        return TableDescriptor(
            id=inp.varint(),
            name=inp.text(),
            updated=HybridTimestamp(inp.varint()),
            schema_id=inp.varint(),
            zone_id=inp.varint(),
            schema_versions=inp.object(TableSchemaVersions),
            columns=inp.objects(TableColumnDescriptor),
            primary_key=inp.list(inp.varint),
            colocation=inp.list(inp.varint),
            last_column_id=inp.varint(),
        )


@catalog_serializer(version=1, since="0.1.0")
class IndexSerializerV1(CatalogObjectSerializer[IndexDescriptor]):
    """An index of either kind."""

    type = MarshalledType.INDEX

    def write(self, value: IndexDescriptor, out: Output) -> None:
        out.varint(value.id)
        out.text(value.name)
        out.varint(value.updated)
        out.varint(value.schema_id)
        out.varint(value.table_id)
        out.varint(value.kind)
        out.objects(value.columns)
        out.flag(value.is_unique)

    def read(self, inp: Input) -> IndexDescriptor:
        return IndexDescriptor(
            id=inp.varint(),
            name=inp.text(),
            updated=HybridTimestamp(inp.varint()),
            schema_id=inp.varint(),
            table_id=inp.varint(),
            kind=inp.enum(IndexKind),
            columns=inp.objects(IndexColumnDescriptor),
            is_unique=inp.flag(),
        )


@catalog_serializer(version=1, since="0.1.0")
class ViewSerializerV1(CatalogObjectSerializer[ViewDescriptor]):
    """The query alone."""

    type = MarshalledType.VIEW

    def write(self, value: ViewDescriptor, out: Output) -> None:
        out.varint(value.id)
        out.text(value.name)
        out.varint(value.updated)
        out.varint(value.schema_id)
        out.text(value.query)

    def read(self, inp: Input) -> ViewDescriptor:
        return ViewDescriptor(
            id=inp.varint(),
            name=inp.text(),
            updated=HybridTimestamp(inp.varint()),
            schema_id=inp.varint(),
            query=inp.text(),
        )


@catalog_serializer(version=2, since="0.1.0")
class ViewSerializerV2(CatalogObjectSerializer[ViewDescriptor]):
    """The relations that it reads as well."""

    type = MarshalledType.VIEW

    def write(self, value: ViewDescriptor, out: Output) -> None:
        out.varint(value.id)
        out.text(value.name)
        out.varint(value.updated)
        out.varint(value.schema_id)
        out.text(value.query)
        out.list(value.depends_on, out.varint)

    def read(self, inp: Input) -> ViewDescriptor:
        return ViewDescriptor(
            id=inp.varint(),
            name=inp.text(),
            updated=HybridTimestamp(inp.varint()),
            schema_id=inp.varint(),
            query=inp.text(),
            depends_on=inp.list(inp.varint),
        )


@catalog_serializer(version=1, since="0.1.0")
class SequenceSerializerV1(CatalogObjectSerializer[SequenceDescriptor]):
    """Every setting."""

    type = MarshalledType.SEQUENCE

    def write(self, value: SequenceDescriptor, out: Output) -> None:
        out.varint(value.id)
        out.text(value.name)
        out.varint(value.updated)
        out.varint(value.schema_id)
        out.signed(value.start)
        out.signed(value.increment)
        out.signed(value.minimum)
        out.signed(value.maximum)
        out.flag(value.cycle)

    def read(self, inp: Input) -> SequenceDescriptor:
        return SequenceDescriptor(
            id=inp.varint(),
            name=inp.text(),
            updated=HybridTimestamp(inp.varint()),
            schema_id=inp.varint(),
            start=inp.signed(),
            increment=inp.signed(),
            minimum=inp.signed(),
            maximum=inp.signed(),
            cycle=inp.flag(),
        )

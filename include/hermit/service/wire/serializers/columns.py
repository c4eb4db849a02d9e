"""Columns, and the columns that a table had before."""

from __future__ import annotations

from collections.abc import Callable

from hermit.service.descriptors import (
    Collation,
    IndexColumnDescriptor,
    TableColumnDescriptor,
    TableSchemaVersions,
)
from hermit.service.errors import MalformedBytes
from hermit.service.marshallable import MarshalledType
from hermit.service.types import ColumnType, Constant, DefaultValue, FunctionCall, Literal
from hermit.service.wire.io import Input, Output
from hermit.service.wire.registry import CatalogObjectSerializer, catalog_serializer


@catalog_serializer(version=1, since="0.1.0")
class ColumnSerializerV1(CatalogObjectSerializer[TableColumnDescriptor]):
    """Every field, whether it has a value or not; defaults are constants, as text."""

    type = MarshalledType.TABLE_COLUMN

    def write(self, value: TableColumnDescriptor, out: Output) -> None:
        out.varint(value.id)
        out.text(value.name)
        out.varint(value.type)
        out.flag(value.nullable)
        out.optional(value.length)
        out.optional(value.precision)
        out.optional(value.scale)
        default = value.default.value if isinstance(value.default, Constant) else None
        out.flag(isinstance(default, str))
        if isinstance(default, str):
            out.text(default)

    def read(self, inp: Input) -> TableColumnDescriptor:
        return TableColumnDescriptor(
            id=inp.varint(),
            name=inp.text(),
            type=inp.enum(ColumnType),
            nullable=inp.flag(),
            length=inp.optional(),
            precision=inp.optional(),
            scale=inp.optional(),
            default=Constant(inp.text()) if inp.flag() else None,
        )


@catalog_serializer(version=2, since="0.1.0")
class ColumnSerializerV2(CatalogObjectSerializer[TableColumnDescriptor]):
    """One byte says which fields follow; defaults of every type, and functions."""

    type = MarshalledType.TABLE_COLUMN

    def write(self, value: TableColumnDescriptor, out: Output) -> None:
        out.varint(value.id)
        out.text(value.name)
        out.varint(value.type)
        sizes = (value.length, value.precision, value.scale)
        flags = value.nullable | (value.default is not None) << 1
        for number, size in enumerate(sizes):
            flags |= (size is not None) << 2 + number
        out.varint(flags)
        for size in sizes:
            if size is not None:
                out.varint(size)
        if value.default is not None:
            self._write_default(value.default, out)

    def read(self, inp: Input) -> TableColumnDescriptor:
        id_, name, type_, flags = inp.varint(), inp.text(), inp.enum(ColumnType), inp.varint()
        if flags >> 5:
            raise MalformedBytes(f"column {name!r} has flags {flags:#x}")
        return TableColumnDescriptor(
            id=id_,
            name=name,
            type=type_,
            nullable=bool(flags & 1),
            length=inp.varint() if flags & 4 else None,
            precision=inp.varint() if flags & 8 else None,
            scale=inp.varint() if flags & 16 else None,
            default=self._read_default(inp) if flags & 2 else None,
        )

    def _write_default(self, default: DefaultValue, out: Output) -> None:
        value = default.function if isinstance(default, FunctionCall) else default.value
        if isinstance(default, FunctionCall):
            out.varint(0)
            out.text(default.function)
        elif isinstance(value, bool):
            out.varint(1)
            out.flag(value)
        elif isinstance(value, int):
            out.varint(2)
            out.signed(value)
        elif isinstance(value, float):
            out.varint(3)
            out.double(value)
        elif isinstance(value, str):
            out.varint(4)
            out.text(value)
        else:
            out.varint(5)
            out.blob(value)

    def _read_default(self, inp: Input) -> DefaultValue:
        tag = inp.varint()
        if tag == 0:
            return FunctionCall(inp.text())
        readers: dict[int, Callable[[], Literal]] = {
            1: inp.flag,
            2: inp.signed,
            3: inp.double,
            4: inp.text,
            5: inp.blob,
        }
        if tag not in readers:
            raise MalformedBytes(f"there is no default of kind {tag}")
        return Constant(readers[tag]())


@catalog_serializer(version=1, since="0.1.0")
class SchemaVersionsSerializerV1(CatalogObjectSerializer[TableSchemaVersions]):
    """The number of the first version, and the columns of each."""

    type = MarshalledType.TABLE_SCHEMA_VERSIONS

    def write(self, value: TableSchemaVersions, out: Output) -> None:
        out.varint(value.base)
        out.list(value.past, out.objects)

    def read(self, inp: Input) -> TableSchemaVersions:
        return TableSchemaVersions(inp.varint(), inp.list(lambda: inp.objects(TableColumnDescriptor)))


@catalog_serializer(version=1, since="0.1.0")
class IndexColumnSerializerV1(CatalogObjectSerializer[IndexColumnDescriptor]):
    """The column and its order."""

    type = MarshalledType.INDEX_COLUMN

    def write(self, value: IndexColumnDescriptor, out: Output) -> None:
        out.varint(value.column_id)
        out.varint(value.collation)

    def read(self, inp: Input) -> IndexColumnDescriptor:
        return IndexColumnDescriptor(inp.varint(), inp.enum(Collation))

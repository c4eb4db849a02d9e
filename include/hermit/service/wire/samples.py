"""One object of every type, with a value in every field: what golden bytes are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hermit.service.catalog import Catalog
from hermit.service.clock import hybrid
from hermit.service.descriptors import (
    Collation,
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
from hermit.service.snapshot import SnapshotPart, take
from hermit.service.types import ColumnType, Constant, FunctionCall
from hermit.service.update import Origin, VersionedUpdate
from hermit.service.wire.registry import unchecked_registry

_TIME = hybrid(1_700_000_000_123, 7)

ZONE = ZoneDescriptor(
    id=1,
    name="warm",
    updated=_TIME,
    partitions=200,
    replicas=3,
    filter="$[?(@.region == 'eu')]",
    storage_profiles=("default", "ssd"),
)
COLUMNS = (
    TableColumnDescriptor(
        id=1, name="id", type=ColumnType.UUID, nullable=False, default=FunctionCall("gen_random_uuid")
    ),
    TableColumnDescriptor(
        id=2, name="größe", type=ColumnType.DECIMAL, precision=12, scale=2, default=Constant("1.50")
    ),
    TableColumnDescriptor(id=3, name="note", type=ColumnType.STRING, length=300, default=Constant("none")),
    TableColumnDescriptor(id=4, name="count", type=ColumnType.INT64, default=Constant(-(2**40))),
    TableColumnDescriptor(id=5, name="ratio", type=ColumnType.DOUBLE, default=Constant(0.125)),
    TableColumnDescriptor(id=6, name="flag", type=ColumnType.BOOLEAN, default=Constant(True)),
    TableColumnDescriptor(id=7, name="blob", type=ColumnType.BYTES, default=Constant(b"\x00\xff")),
)
TABLE = TableDescriptor(
    id=3,
    name="orders",
    updated=_TIME,
    schema_id=2,
    zone_id=1,
    columns=COLUMNS,
    primary_key=(1, 4),
    colocation=(4,),
    last_column_id=9,
    schema_versions=TableSchemaVersions(2, (COLUMNS[:1], COLUMNS[:3])),
)
INDEX = IndexDescriptor(
    id=4,
    name="orders_by_count",
    updated=_TIME,
    schema_id=2,
    table_id=3,
    kind=IndexKind.SORTED,
    columns=(
        IndexColumnDescriptor(4, Collation.DESC_NULLS_LAST),
        IndexColumnDescriptor(2, Collation.ASC_NULLS_FIRST),
    ),
    is_unique=True,
)
VIEW = ViewDescriptor(
    id=5, name="large_orders", updated=_TIME, schema_id=2, query="select 1", depends_on=(3,)
)
SEQUENCE = SequenceDescriptor(
    id=6,
    name="numbers",
    updated=_TIME,
    schema_id=2,
    start=-5,
    increment=-2,
    minimum=-(2**63),
    maximum=0,
    cycle=True,
)
SCHEMA = SchemaDescriptor(
    id=2,
    name="shop",
    updated=_TIME,
    tables=Objects.of([TABLE]),
    indexes=Objects.of([INDEX]),
    views=Objects.of([VIEW]),
    sequences=Objects.of([SEQUENCE]),
)
CATALOG = NewSchemaEntry(SCHEMA).apply(
    Catalog(version=300, time=_TIME, next_id=7, default_zone_id=1).put(ZONE), _TIME
)


_ENTRIES = (
    NewSchemaEntry(SCHEMA),
    NewTableEntry(TABLE),
    NewIndexEntry(INDEX),
    NewZoneEntry(ZONE),
    NewViewEntry(VIEW),
    NewSequenceEntry(SEQUENCE),
    RenameEntry(3, "sales"),
    DropEntry(300),
    NewColumnsEntry(3, COLUMNS[5:]),
    DropColumnsEntry(3, (2, 300)),
    AlterColumnEntry(3, COLUMNS[1]),
    AlterZoneEntry(ZONE),
    AlterViewEntry(VIEW),
    AlterSequenceEntry(SEQUENCE),
    SetDefaultZoneEntry(1),
    ObjectIdGenUpdateEntry(300),
)
_SNAPSHOT, _ = take(CATALOG, unchecked_registry())
_VALUES: tuple[Any, ...] = (
    ZONE,
    # Whoever writes a schema writes its indexes beside it.
    replace(SCHEMA, indexes=Objects()),
    TABLE,
    COLUMNS[2],
    TABLE.schema_versions,
    INDEX,
    INDEX.columns[0],
    VIEW,
    SEQUENCE,
    *_ENTRIES,
    VersionedUpdate(300, _TIME, (_ENTRIES[3], *_ENTRIES[6:8]), Origin(2**60 + 1, 300)),
    replace(_SNAPSHOT, parts=2),
    SnapshotPart(300, 1, _SNAPSHOT.sections),
)
SAMPLES: Mapping[MarshalledType, Any] = {value.marshalled_type: value for value in _VALUES}


def sample(type_: MarshalledType, version: int) -> Any:
    """An object to write with this version of the serializer of its type."""
    if (type_, version) == (MarshalledType.SNAPSHOT, 1):
        # Schemas held everything that was in them.
        return replace(_SNAPSHOT, schemas=(SCHEMA,), sections=())
    return SAMPLES[type_]

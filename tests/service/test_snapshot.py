"""Snapshots: whole catalogs in bounded rows, taken up again without decoding what nobody asks for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hermit.service.catalog import Catalog
from hermit.service.commands import CreateIndex, CreateSchema, CreateView, DropTable, RenameTable
from hermit.service.descriptors import Objects
from hermit.service.errors import LogDamaged, ObjectInUse
from hermit.service.snapshot import PackedObjects, Snapshot, SnapshotPart, restore, take
from hermit.service.wire.marshaller import UpdateLogMarshaller
from hermit.service.wire.registry import default_registry
from tests.service.world import after, beginning, column, shop, table

REGISTRY = default_registry()
MARSHALLER = UpdateLogMarshaller()


def round_trip(catalog: Catalog, part_bytes_max: int = 2**20) -> Catalog:
    snapshot, parts = take(catalog, REGISTRY, part_bytes_max)
    stored = MARSHALLER.marshal(snapshot)
    stored_parts = [MARSHALLER.marshal(part) for part in parts]
    return restore(
        MARSHALLER.unmarshal(stored, Snapshot),
        [MARSHALLER.unmarshal(each, SnapshotPart) for each in stored_parts],
        REGISTRY,
    )


def large(tables: int) -> Catalog:
    return after(beginning(), *(table(f"t{number}", column("x")) for number in range(tables)))


def test_a_catalog_comes_back_from_its_snapshot_as_it_was() -> None:
    for catalog in (Catalog(), beginning(), shop(), large(300)):
        found = round_trip(catalog)
        assert found == catalog
        assert len(found) == len(catalog)
        for id_ in catalog.homes:
            assert found.homes[id_] == catalog.homes[id_]
            assert found.users_of(id_) == catalog.users_of(id_)


def test_rows_of_a_large_snapshot_keep_to_a_size() -> None:
    catalog = large(400)
    snapshot, parts = take(catalog, REGISTRY, part_bytes_max=4000)
    assert len(parts) > 3
    assert max(len(MARSHALLER.marshal(part)) for part in (snapshot, *parts)) < 12_000
    assert round_trip(catalog, 4000) == catalog


def test_a_snapshot_with_a_part_missing_or_doubled_is_refused() -> None:
    snapshot, parts = take(large(400), REGISTRY, part_bytes_max=4000)
    for wrong in (parts[1:], parts[:-1], [*parts, parts[-1]], [parts[1], parts[0], *parts[2:]]):
        with pytest.raises(LogDamaged):
            restore(snapshot, wrong, REGISTRY)
    with pytest.raises(LogDamaged):
        restore(snapshot, [replace(part, version=7) for part in parts], REGISTRY)


def test_nothing_is_decoded_until_it_is_asked_for() -> None:
    catalog = round_trip(large(300))
    schema = catalog.schema("shop")
    assert schema is not None
    packed = schema.tables.by_id.base
    assert isinstance(packed, PackedObjects)
    assert len(packed._decoded) == 0
    assert catalog.table("shop", "t7") is catalog.table("shop", "t7")
    assert len(packed._decoded) == 1


def test_commands_go_on_from_a_snapshot_as_from_the_catalog_itself() -> None:
    original, restored = shop(), round_trip(shop())
    commands = (
        table("more"),
        CreateIndex(schema="shop", name="i", table="more", columns=("id",)),
        CreateView(schema="shop", name="v", query="q", depends_on=(("shop", "more"), ("shop", "large"))),
        RenameTable(schema="shop", name="orders", new_name="sales"),
    )
    assert after(restored, *commands) == after(original, *commands)
    with pytest.raises(ObjectInUse):
        DropTable(schema="shop", name="orders").plan(restored)


def test_a_snapshot_of_a_restored_catalog_copies_what_nobody_changed() -> None:
    restored = round_trip(large(100))
    changed = after(restored, RenameTable(schema="shop", name="t5", new_name="five"), table("new"))
    schema = restored.schema("shop")
    assert schema is not None
    packed = schema.tables.by_id.base
    again = round_trip(changed)
    assert isinstance(packed, PackedObjects)
    assert len(packed._decoded) <= 2
    assert again == changed


def test_the_first_version_of_the_snapshot_is_still_read() -> None:
    catalog = shop()
    schemas = tuple(catalog.schemas)
    value = Snapshot(
        version=catalog.version,
        time=catalog.time,
        next_id=catalog.next_id,
        default_zone_id=catalog.default_zone_id,
        zones=tuple(catalog.zones),
        schemas=schemas,
    )
    data = UpdateLogMarshaller(
        REGISTRY.pinned({"TABLE": 2, "VIEW": 2, "ZONE": 2, "TABLE_COLUMN": 2})
    ).marshal(value)
    assert data[4] == 1
    assert restore(MARSHALLER.unmarshal(data, Snapshot), [], REGISTRY) == catalog


def test_an_empty_schema_stays_empty() -> None:
    catalog = round_trip(after(shop(), CreateSchema(name="empty")))
    schema = catalog.schema("empty")
    assert schema is not None
    assert schema.is_empty
    assert schema.tables == Objects()

"""The catalog: lookups by identifier and by name, shared structure, relations between objects."""

from __future__ import annotations

import pytest

from hermit.errors import InvariantViolation
from hermit.service.catalog import Catalog
from hermit.service.commands import DropTable, RenameTable
from hermit.service.descriptors import (
    CatalogObjectDescriptor,
    IndexDescriptor,
    SchemaDescriptor,
    SequenceDescriptor,
    TableDescriptor,
    ViewDescriptor,
    ZoneDescriptor,
)
from tests.service.world import after, beginning, shop, table


@pytest.mark.row("I-2")
def test_every_object_is_a_catalog_object_with_an_identifier_and_a_name() -> None:
    catalog = shop()
    found = [
        catalog.zone("warm"),
        catalog.schema("shop"),
        catalog.table("shop", "orders"),
        catalog.index("shop", "by_amount"),
        catalog.view("shop", "large"),
        catalog.sequence("shop", "numbers"),
    ]
    types = [ZoneDescriptor, SchemaDescriptor, TableDescriptor, IndexDescriptor, ViewDescriptor]
    assert [type(each) for each in found] == [*types, SequenceDescriptor]
    for each in found:
        assert isinstance(each, CatalogObjectDescriptor)
        assert catalog.object_by_id(each.id) == each
    assert len({each.id for each in found if each}) == len(found)


def test_an_object_is_found_by_identifier_only_as_what_it_is() -> None:
    catalog = shop()
    orders = catalog.table("shop", "orders")
    assert orders is not None
    assert catalog.table_by_id(orders.id) == orders
    assert catalog.index_by_id(orders.id) is None
    assert catalog.view_by_id(orders.id) is None
    assert catalog.sequence_by_id(orders.id) is None
    assert catalog.schema_by_id(orders.schema_id) == catalog.schema("shop")
    assert catalog.zone_by_id(orders.zone_id) == catalog.default_zone


def test_what_is_not_there_is_none() -> None:
    catalog = shop()
    assert catalog.object_by_id(999) is None
    for lookup in (catalog.table, catalog.index, catalog.view, catalog.sequence):
        assert lookup("shop", "nothing") is None
        assert lookup("nowhere", "orders") is None


def test_a_change_leaves_the_catalog_that_it_was_made_from_as_it_was() -> None:
    before = shop()
    renamed = after(before, RenameTable(schema="shop", name="orders", new_name="sales"))
    dropped = after(beginning(), table("a"), table("b"), DropTable(schema="shop", name="a"))
    assert before.table("shop", "orders") is not None
    assert before.table("shop", "sales") is None
    assert renamed.table("shop", "orders") is None
    assert renamed.table("shop", "sales") is not None
    assert dropped.table("shop", "a") is None
    assert before != renamed
    assert before == shop()


def test_versions_share_what_did_not_change() -> None:
    before = after(beginning(), *(table(f"t{number}") for number in range(100)))
    later = after(before, table("one_more"))
    for number in range(100):
        assert later.table("shop", f"t{number}") is before.table("shop", f"t{number}")


def test_users_of_an_object_are_known() -> None:
    catalog = shop()
    orders, warm = catalog.table("shop", "orders"), catalog.zone("warm")
    assert orders is not None
    assert warm is not None
    assert {user.name for user in catalog.users_of(orders.id)} == {"by_amount", "large"}
    assert [index.name for index in catalog.indexes_of(orders.id)] == ["by_amount"]
    assert [user.name for user in catalog.users_of(warm.id)] == ["orders"]
    assert len(catalog) == 7


def test_dropping_what_is_not_there_or_still_in_use_is_a_bug() -> None:
    catalog = shop()
    orders = catalog.table("shop", "orders")
    assert orders is not None
    with pytest.raises(InvariantViolation):
        catalog.remove(999)
    with pytest.raises(InvariantViolation):
        catalog.remove(orders.id)
    with pytest.raises(InvariantViolation):
        Catalog().put(orders)

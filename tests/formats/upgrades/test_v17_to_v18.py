"""v17 to v18: numbers become an enum and a oneof."""

from __future__ import annotations

import pytest

from hermit.formats.errors import CannotConvert
from hermit.formats.gen import objects_v17_pb2 as v17
from hermit.formats.gen import objects_v18_pb2 as v18
from hermit.formats.upgrades.v17_to_v18 import upgrade
from tests.formats.old_catalog import OldCatalog

_OWNER = v17.RoleId(system=1)


def _items(*types: int) -> OldCatalog:
    schema = v17.SchemaId(user=1)
    return OldCatalog(
        v17,
        {
            "items": [
                (v17.ItemKey(id=f"u{each}"), v17.ItemValue(schema_id=schema, item_type=each, owner_id=_OWNER))
                for each in types
            ]
        },
    )


def _cluster(value: v17.ClusterValue) -> OldCatalog:
    return OldCatalog(v17, {"clusters": [(v17.ClusterKey(id=v17.ClusterId(user=1)), value)]})


@pytest.mark.row("F-7")
def test_every_number_of_an_item_becomes_its_enum() -> None:
    new = _items(*range(10)).after(upgrade, v18)["items"]
    names = {int(key.id[1:]): v18.ItemType.Name(value.item_type) for key, value in new}
    assert names[0] == "ITEM_TYPE_TABLE"
    assert names[2] == "ITEM_TYPE_MATERIALIZED_VIEW"
    assert names[9] == "ITEM_TYPE_CONNECTION"
    assert len(set(names.values())) == 10


@pytest.mark.parametrize("number", [10, 1 << 63])
def test_a_number_without_a_meaning_stops_the_upgrade(number: int) -> None:
    with pytest.raises(CannotConvert, match=f"{number} is no type of an item"):
        _items(0, number).run(upgrade)


def test_a_managed_cluster_keeps_its_settings() -> None:
    old = v17.ClusterValue(
        name="c",
        variant=1,
        size="large",
        replication_factor=2,
        availability_zones=["a", "b"],
        owner_id=_OWNER,
    )
    ((_, new),) = _cluster(old).after(upgrade, v18)["clusters"]
    assert new.managed == v18.ManagedCluster(
        size="large", replication_factor=2, availability_zones=["a", "b"]
    )
    assert (new.name, new.owner_id) == ("c", v18.RoleId(system=1))


def test_an_unmanaged_cluster_loses_the_settings_that_meant_nothing() -> None:
    old = v17.ClusterValue(name="c", variant=0, size="large", replication_factor=2, owner_id=_OWNER)
    ((_, new),) = _cluster(old).after(upgrade, v18)["clusters"]
    assert new == v18.ClusterValue(name="c", unmanaged=v18.Unit(), owner_id=v18.RoleId(system=1))


def test_an_unknown_variant_stops_the_upgrade() -> None:
    with pytest.raises(CannotConvert, match="2 is no variant of a cluster"):
        _cluster(v17.ClusterValue(name="c", variant=2, owner_id=_OWNER)).run(upgrade)

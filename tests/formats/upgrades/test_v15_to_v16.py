"""v15 to v16: everything that can be owned gets an owner."""

from __future__ import annotations

import pytest

from hermit.formats.gen import objects_v15_pb2 as v15
from hermit.formats.gen import objects_v16_pb2 as v16
from hermit.formats.upgrades.v15_to_v16 import upgrade
from tests.formats.old_catalog import OldCatalog

_ROLE = v15.RoleValue(name="r", attributes=v15.RoleAttributes(), membership=v15.RoleMembership())


def test_the_system_owns_its_objects_and_the_first_user_the_rest() -> None:
    old = OldCatalog(
        v15,
        {
            "roles": [(v15.RoleKey(id=v15.RoleId(user=number)), _ROLE) for number in (7, 3, 12)],
            "databases": [
                (v15.DatabaseKey(id=v15.DatabaseId(system=1)), v15.DatabaseValue(name="s")),
                (v15.DatabaseKey(id=v15.DatabaseId(user=1)), v15.DatabaseValue(name="u")),
            ],
        },
    )
    new = old.after(upgrade, v16)
    assert {value.name: value.owner_id for _, value in new["databases"]} == {
        "s": v16.RoleId(system=1),
        "u": v16.RoleId(user=3),
    }


def test_without_a_user_role_the_system_owns_everything() -> None:
    old = OldCatalog(v15, {"schemas": [(v15.SchemaKey(id=v15.SchemaId(user=1)), v15.SchemaValue(name="s"))]})
    ((_, schema),) = old.after(upgrade, v16)["schemas"]
    assert schema.owner_id == v16.RoleId(system=1)


@pytest.mark.row("F-6")
def test_every_kind_that_has_an_owner_gets_one_and_keeps_the_rest() -> None:
    cluster = v15.ClusterValue(name="c", variant=1, size="small", replication_factor=2)
    replica = v15.ClusterReplicaValue(
        cluster_id=v15.ClusterId(user=1),
        name="r1",
        managed=v15.ManagedLocation(size="small"),
        logging=v15.ReplicaLogging(),
    )
    item = v15.ItemValue(schema_id=v15.SchemaId(user=1), name="i", item_type=3, create_sql="CREATE", oid=9)
    old = OldCatalog(
        v15,
        {
            "clusters": [(v15.ClusterKey(id=v15.ClusterId(user=1)), cluster)],
            "cluster_replicas": [(v15.ClusterReplicaKey(id=v15.ReplicaId(user=1)), replica)],
            "items": [(v15.ItemKey(id="u1"), item), (v15.ItemKey(id="s1"), item)],
        },
    )
    new = old.after(upgrade, v16)
    owner = v16.RoleId(system=1)
    ((_, new_cluster),) = new["clusters"]
    assert new_cluster == v16.ClusterValue(
        name="c", variant=1, size="small", replication_factor=2, owner_id=owner
    )
    ((_, new_replica),) = new["cluster_replicas"]
    assert (new_replica.owner_id, new_replica.managed.size) == (owner, "small")
    assert [(key.id, value.owner_id, value.create_sql) for key, value in new["items"]] == [
        ("s1", owner, "CREATE"),
        ("u1", owner, "CREATE"),
    ]

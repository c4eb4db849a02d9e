"""Clusters, replicas, databases, schemas and items get a mandatory owner.

Until 15, only a superuser could alter or drop an object, so nobody needed to know whose it was. From 16
on the owner may. Everything that exists gets one: what belongs to the system is owned by the system
role s1; the rest by the user role with the lowest number, who set the environment up, or by s1 where
there is no user role.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermit.formats.actions import Action, Old, Update, carry
from hermit.formats.gen import objects_v15_pb2 as v15
from hermit.formats.gen import objects_v16_pb2 as v16

_SYSTEM_ROLE = v16.RoleId(system=1)


def upgrade(old: Old) -> Iterator[Action]:
    """Set `owner_id` everywhere."""
    user_role = _first_user_role(old)

    def owner(is_system: bool) -> v16.RoleId:
        return _SYSTEM_ROLE if is_system else user_role

    for cluster in old.messages("clusters", v15.ClusterKey, v15.ClusterValue):
        new_cluster = carry(cluster.value, v16.ClusterValue)
        new_cluster.owner_id.CopyFrom(owner(cluster.key.id.HasField("system")))
        yield Update(cluster, new_cluster)
    for replica in old.messages("cluster_replicas", v15.ClusterReplicaKey, v15.ClusterReplicaValue):
        new_replica = carry(replica.value, v16.ClusterReplicaValue)
        new_replica.owner_id.CopyFrom(owner(replica.key.id.HasField("system")))
        yield Update(replica, new_replica)
    for database in old.messages("databases", v15.DatabaseKey, v15.DatabaseValue):
        new_database = carry(database.value, v16.DatabaseValue)
        new_database.owner_id.CopyFrom(owner(database.key.id.HasField("system")))
        yield Update(database, new_database)
    for schema in old.messages("schemas", v15.SchemaKey, v15.SchemaValue):
        new_schema = carry(schema.value, v16.SchemaValue)
        new_schema.owner_id.CopyFrom(owner(schema.key.id.HasField("system")))
        yield Update(schema, new_schema)
    for item in old.messages("items", v15.ItemKey, v15.ItemValue):
        new_item = carry(item.value, v16.ItemValue)
        new_item.owner_id.CopyFrom(owner(item.key.id.startswith("s")))
        yield Update(item, new_item)


def _first_user_role(old: Old) -> v16.RoleId:
    numbers = [
        role.key.id.user
        for role in old.messages("roles", v15.RoleKey, v15.RoleValue)
        if role.key.id.HasField("user")
    ]
    return v16.RoleId(user=min(numbers)) if numbers else _SYSTEM_ROLE

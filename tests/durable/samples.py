"""One object of every kind, and as many more as a test wants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hermit.durable.table import Object
from hermit.formats.gen import objects_pb2 as pb

OWNER = pb.RoleId(user=1)
ACL = [pb.AclItem(grantee=OWNER, grantor=pb.RoleId(system=1), mode=pb.AclMode(bits=3))]


def item(number: int, name: str | None = None, schema: int = 1, **fields: Any) -> Object[Any, Any]:
    value = pb.ItemValue(
        schema_id=pb.SchemaId(user=schema),
        name=name or f"item_{number}",
        create_sql=f"CREATE TABLE item_{number} (a int)",
        privileges=ACL,
        oid=30_000 + number,
        owner_id=OWNER,
        item_type=fields.pop("item_type", pb.ITEM_TYPE_TABLE),
        **fields,
    )
    return Object(pb.ItemKey(gid=pb.GlobalId(user=number)), value)


def role(number: int, name: str | None = None) -> Object[Any, Any]:
    value = pb.RoleValue(
        name=name or f"role_{number}", membership=pb.RoleMembership(), oid=40_000 + number, permissions=1
    )
    return Object(pb.RoleKey(id=pb.RoleId(user=number)), value)


def audit_event(number: int) -> Object[Any, Any]:
    value = pb.AuditLogValue(
        event_type=pb.EVENT_TYPE_CREATE,
        object_type=pb.OBJECT_TYPE_TABLE,
        user="someone",
        occurred_at_ms=1_000 + number,
        id_name=pb.IdName(id=f"u{number}", name=f"item_{number}"),
    )
    return Object(pb.AuditLogKey(id=1_000 + number), value)


def storage_usage(number: int) -> Object[Any, Any]:
    value = pb.StorageUsageValue(shard_id=f"s{number}", size_bytes=number, collected_at_ms=number)
    return Object(pb.StorageUsageKey(id=1_000 + number), value)


def cluster(number: int) -> Object[Any, Any]:
    value = pb.ClusterValue(
        name=f"cluster_{number}",
        owner_id=OWNER,
        privileges=ACL,
        managed=pb.ManagedCluster(size="small", replication_factor=1),
    )
    return Object(pb.ClusterKey(id=pb.ClusterId(user=100 + number)), value)


def cluster_replica(number: int, size: str = "small") -> Object[Any, Any]:
    value = pb.ClusterReplicaValue(
        cluster_id=pb.ClusterId(user=100 + number),
        name=f"replica_{number}",
        owner_id=OWNER,
        managed=pb.ManagedLocation(size=size),
        logging=pb.ReplicaLogging(log_logging=False),
    )
    return Object(pb.ClusterReplicaKey(id=pb.ReplicaId(user=100 + number)), value)


def introspection_index(number: int) -> Object[Any, Any]:
    key = pb.ClusterIntrospectionSourceIndexKey(cluster_id=pb.ClusterId(user=100), name=f"log_{number}")
    return Object(key, pb.ClusterIntrospectionSourceIndexValue(index_id=5_000 + number, oid=6_000 + number))


def config(number: int) -> Object[Any, Any]:
    return Object(pb.ConfigKey(key=f"config_{number}"), pb.ConfigValue(value=2**64 - 1 - number))


def database(number: int) -> Object[Any, Any]:
    value = pb.DatabaseValue(name=f"database_{number}", owner_id=OWNER, privileges=ACL, oid=number)
    return Object(pb.DatabaseKey(id=pb.DatabaseId(user=100 + number)), value)


def default_privileges(number: int) -> Object[Any, Any]:
    key = pb.DefaultPrivilegesKey(
        role_id=pb.RoleId(user=number), object_type=pb.OBJECT_TYPE_TABLE, grantee=OWNER
    )
    return Object(key, pb.DefaultPrivilegesValue(privileges=pb.AclMode(bits=number)))


def id_allocator(number: int) -> Object[Any, Any]:
    return Object(pb.IdAllocatorKey(name=f"allocator_{number}"), pb.IdAllocatorValue(next_id=number))


def schema(number: int) -> Object[Any, Any]:
    value = pb.SchemaValue(
        database_id=pb.DatabaseId(user=1), name=f"schema_{number}", owner_id=OWNER, oid=7_000 + number
    )
    return Object(pb.SchemaKey(id=pb.SchemaId(user=100 + number)), value)


def setting(number: int) -> Object[Any, Any]:
    return Object(pb.SettingKey(name=f"setting_{number}"), pb.SettingValue(value=str(number)))


def system_configuration(number: int) -> Object[Any, Any]:
    key = pb.SystemConfigurationKey(name=f"max_tables_{number}")
    return Object(key, pb.SystemConfigurationValue(value=str(number)))


def system_object_mapping(number: int, fingerprint: str = "abc") -> Object[Any, Any]:
    key = pb.SystemObjectMappingKey(
        schema_name="hermit_catalog", object_type=pb.OBJECT_TYPE_VIEW, object_name=f"view_{number}"
    )
    return Object(key, pb.SystemObjectMappingValue(id=8_000 + number, fingerprint=fingerprint))


def system_privileges(number: int) -> Object[Any, Any]:
    key = pb.SystemPrivilegesKey(grantee=pb.RoleId(user=number), grantor=OWNER)
    return Object(key, pb.SystemPrivilegesValue(privileges=pb.AclMode(bits=number)))


def timestamp(number: int) -> Object[Any, Any]:
    return Object(pb.TimestampKey(timeline=f"timeline_{number}"), pb.TimestampValue(ts_ms=number))


def update_log(number: int) -> Object[Any, Any]:
    key = pb.UpdateLogKey(key=f"catalog.update.{number}")
    return Object(key, pb.UpdateLogValue(entry=bytes([number % 256])))


SAMPLES: dict[str, Callable[[int], Object[Any, Any]]] = {
    "audit_log": audit_event,
    "clusters": cluster,
    "cluster_replicas": cluster_replica,
    "cluster_introspection_source_indexes": introspection_index,
    "config": config,
    "databases": database,
    "default_privileges": default_privileges,
    "id_allocators": id_allocator,
    "items": item,
    "roles": role,
    "schemas": schema,
    "settings": setting,
    "storage_usage": storage_usage,
    "system_configurations": system_configuration,
    "system_object_mappings": system_object_mapping,
    "system_privileges": system_privileges,
    "timestamps": timestamp,
    "update_log": update_log,
}
"""By kind: the object with a number. Numbers from 1 up do not collide with what a new catalog has."""

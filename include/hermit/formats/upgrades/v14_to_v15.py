"""Every object changes from JSON to protobuf, with the same contents.

Version 14 stored JSON, in types that all versions shared, so that a type could only ever grow optional
fields. Version 15 is the first with a frozen schema. Nothing is added or dropped; fields that were
missing get the values that version 14 took for them. The update log did not exist, and config keeps the
encoding that it always had.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from google.protobuf.message import Message

from hermit.formats import legacy_json_objects as v14
from hermit.formats.actions import Action, Old, Update
from hermit.formats.errors import CannotConvert
from hermit.formats.gen import objects_v15_pb2 as v15

_ID = re.compile(r"([su])(0|[1-9][0-9]{0,19})")
_MAX_U32 = (1 << 32) - 1

Id = TypeVar("Id", v15.RoleId, v15.ClusterId, v15.ReplicaId, v15.DatabaseId, v15.SchemaId)


def upgrade(old: Old) -> Iterator[Action]:
    """Convert every collection."""
    for collection, (key_type, value_type, new_key, new_value) in _KINDS.items():
        read_key = v14.reader(key_type, collection, "key")
        read_value = v14.reader(value_type, collection, "value")
        for row in old.rows(collection, read_key, read_value):
            try:
                yield Update(row, new_value(row.value), new_key(row.key))
            except ValueError as error:
                raise CannotConvert(collection, repr(row.key), str(error)) from error


def _id(cls: type[Id], text: str) -> Id:
    match = _ID.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no identifier")
    return cls(system=int(match[2])) if match[1] == "s" else cls(user=int(match[2]))


def _role_id(text: str) -> v15.RoleId:
    return v15.RoleId(public=v15.Unit()) if text == "p" else _id(v15.RoleId, text)


def _acl(items: Iterable[v14.AclItem] | None) -> list[v15.AclItem]:
    return [
        v15.AclItem(
            grantee=_role_id(item.grantee),
            grantor=_role_id(item.grantor),
            mode=v15.AclMode(bits=item.acl_mode),
        )
        for item in items or ()
    ]


def _object_type(name: str) -> v15.ObjectType.ValueType:
    return v15.ObjectType.Value(f"OBJECT_TYPE_{name.upper()}")


def _full_name(name: v14.FullName) -> v15.FullName:
    return v15.FullName(database=name.database, schema=name.schema, item=name.item)


def _audit_log_key(key: v14.AuditLogKey) -> v15.AuditLogKey:
    return v15.AuditLogKey(id=key.id)


def _audit_log_value(value: v14.AuditLogValue) -> v15.AuditLogValue:
    new = v15.AuditLogValue(
        event_type=v15.EventType.Value(f"EVENT_TYPE_{value.event_type.upper()}"),
        object_type=_object_type(value.object_type),
        user=value.user,
        occurred_at_ms=value.occurred_at,
    )
    match value.details:
        case v14.EventDetails(id_name=v14.IdName() as event):
            new.id_name.CopyFrom(v15.IdName(id=event.id, name=event.name))
        case v14.EventDetails(item=v14.ItemEvent() as event):
            new.item.CopyFrom(v15.ItemEvent(id=event.id, name=_full_name(event.name)))
        case v14.EventDetails(rename_item=v14.RenameItemEvent() as event):
            old_name, new_name = _full_name(event.old_name), _full_name(event.new_name)
            new.rename_item.CopyFrom(v15.RenameItemEvent(id=event.id, old_name=old_name, new_name=new_name))
        case v14.EventDetails(replica=v14.ReplicaEvent() as event):
            new.replica.CopyFrom(
                v15.ReplicaEvent(
                    cluster_id=event.cluster_id,
                    cluster_name=event.cluster_name,
                    replica_id=event.replica_id,
                    replica_name=event.replica_name,
                    logical_size=event.logical_size,
                )
            )
        case v14.EventDetails(privilege=v14.PrivilegeEvent() as event):
            new.privilege.CopyFrom(
                v15.PrivilegeEvent(
                    object_id=event.object_id,
                    grantee_id=event.grantee_id,
                    grantor_id=event.grantor_id,
                    privileges=event.privileges,
                )
            )
        case _:
            raise ValueError("the event has no details")
    return new


def _cluster_key(key: v14.ClusterKey) -> v15.ClusterKey:
    return v15.ClusterKey(id=_id(v15.ClusterId, key.id))


def _cluster_value(value: v14.ClusterValue) -> v15.ClusterValue:
    return v15.ClusterValue(
        name=value.name,
        variant=value.variant,
        size=value.size or "",
        replication_factor=_u32(value.replication_factor or 0),
        availability_zones=value.availability_zones or (),
        privileges=_acl(value.privileges),
    )


def _replica_key(key: v14.ClusterReplicaKey) -> v15.ClusterReplicaKey:
    return v15.ClusterReplicaKey(id=_id(v15.ReplicaId, key.id))


def _replica_value(value: v14.ClusterReplicaValue) -> v15.ClusterReplicaValue:
    logging = value.logging or v14.ReplicaLogging(log_logging=False)
    new = v15.ClusterReplicaValue(
        cluster_id=_id(v15.ClusterId, value.cluster_id),
        name=value.name,
        logging=v15.ReplicaLogging(log_logging=logging.log_logging, interval_us=logging.interval_us),
    )
    match value.managed, value.unmanaged:
        case v14.ManagedLocation() as managed, None:
            new.managed.CopyFrom(
                v15.ManagedLocation(
                    size=managed.size,
                    availability_zone=managed.availability_zone,
                    billed_as=managed.billed_as,
                )
            )
        case None, v14.UnmanagedLocation() as unmanaged:
            new.unmanaged.CopyFrom(
                v15.UnmanagedLocation(
                    compute_addresses=unmanaged.compute_addresses,
                    storage_addresses=unmanaged.storage_addresses,
                    workers=unmanaged.workers,
                )
            )
        case _:
            raise ValueError("a replica is either managed or not")
    return new


def _index_key(key: v14.ClusterIntrospectionSourceIndexKey) -> v15.ClusterIntrospectionSourceIndexKey:
    return v15.ClusterIntrospectionSourceIndexKey(
        cluster_id=_id(v15.ClusterId, key.cluster_id), name=key.name
    )


def _index_value(value: v14.ClusterIntrospectionSourceIndexValue) -> v15.ClusterIntrospectionSourceIndexValue:
    return v15.ClusterIntrospectionSourceIndexValue(index_id=value.index_id, oid=_u32(value.oid))


def _database_key(key: v14.DatabaseKey) -> v15.DatabaseKey:
    return v15.DatabaseKey(id=_id(v15.DatabaseId, key.id))


def _database_value(value: v14.DatabaseValue) -> v15.DatabaseValue:
    return v15.DatabaseValue(name=value.name, privileges=_acl(value.privileges), oid=_u32(value.oid))


def _default_privileges_key(key: v14.DefaultPrivilegesKey) -> v15.DefaultPrivilegesKey:
    return v15.DefaultPrivilegesKey(
        role_id=_role_id(key.role_id),
        database_id=None if key.database_id is None else _id(v15.DatabaseId, key.database_id),
        schema_id=None if key.schema_id is None else _id(v15.SchemaId, key.schema_id),
        object_type=_object_type(key.object_type),
        grantee=_role_id(key.grantee),
    )


def _default_privileges_value(value: v14.DefaultPrivilegesValue) -> v15.DefaultPrivilegesValue:
    return v15.DefaultPrivilegesValue(privileges=v15.AclMode(bits=value.privileges))


def _id_allocator_key(key: v14.IdAllocatorKey) -> v15.IdAllocatorKey:
    return v15.IdAllocatorKey(name=key.name)


def _id_allocator_value(value: v14.IdAllocatorValue) -> v15.IdAllocatorValue:
    return v15.IdAllocatorValue(next_id=value.next_id)


def _item_key(key: v14.ItemKey) -> v15.ItemKey:
    return v15.ItemKey(id=key.gid)


def _item_value(value: v14.ItemValue) -> v15.ItemValue:
    return v15.ItemValue(
        schema_id=_id(v15.SchemaId, value.schema_id),
        name=value.name,
        item_type=value.item_type,
        create_sql=value.create_sql,
        privileges=_acl(value.privileges),
        oid=_u32(value.oid),
    )


def _role_key(key: v14.RoleKey) -> v15.RoleKey:
    return v15.RoleKey(id=_role_id(key.id))


def _role_value(value: v14.RoleValue) -> v15.RoleValue:
    return v15.RoleValue(
        name=value.name,
        attributes=v15.RoleAttributes(
            inherit=value.inherit,
            create_role=value.create_role,
            create_db=value.create_db,
            create_cluster=value.create_cluster,
        ),
        membership=v15.RoleMembership(
            entries=[
                v15.RoleMembershipEntry(role=_role_id(entry.role), grantor=_role_id(entry.grantor))
                for entry in value.membership or ()
            ]
        ),
        variables=[v15.RoleVariable(name=each.name, values=each.values) for each in value.variables or ()],
        oid=_u32(value.oid),
    )


def _schema_key(key: v14.SchemaKey) -> v15.SchemaKey:
    return v15.SchemaKey(id=_id(v15.SchemaId, key.id))


def _schema_value(value: v14.SchemaValue) -> v15.SchemaValue:
    return v15.SchemaValue(
        database_id=None if value.database_id is None else _id(v15.DatabaseId, value.database_id),
        name=value.name,
        privileges=_acl(value.privileges),
        oid=_u32(value.oid),
    )


def _setting_key(key: v14.SettingKey) -> v15.SettingKey:
    return v15.SettingKey(name=key.name, system_variable=bool(key.system_variable))


def _setting_value(value: v14.SettingValue) -> v15.SettingValue:
    return v15.SettingValue(value=value.value)


def _storage_usage_key(key: v14.StorageUsageKey) -> v15.StorageUsageKey:
    return v15.StorageUsageKey(id=key.id)


def _storage_usage_value(value: v14.StorageUsageValue) -> v15.StorageUsageValue:
    return v15.StorageUsageValue(
        shard_id=value.shard_id, size_bytes=value.size_bytes, collected_at_ms=value.collected_at
    )


def _mapping_key(key: v14.SystemObjectMappingKey) -> v15.SystemObjectMappingKey:
    return v15.SystemObjectMappingKey(
        schema_name=key.schema_name,
        object_type=_object_type(key.object_type),
        object_name=key.object_name,
    )


def _mapping_value(value: v14.SystemObjectMappingValue) -> v15.SystemObjectMappingValue:
    return v15.SystemObjectMappingValue(id=value.id, fingerprint=value.fingerprint)


def _system_privileges_key(key: v14.SystemPrivilegesKey) -> v15.SystemPrivilegesKey:
    return v15.SystemPrivilegesKey(grantee=_role_id(key.grantee), grantor=_role_id(key.grantor))


def _system_privileges_value(value: v14.SystemPrivilegesValue) -> v15.SystemPrivilegesValue:
    return v15.SystemPrivilegesValue(privileges=v15.AclMode(bits=value.privileges))


def _timestamp_key(key: v14.TimestampKey) -> v15.TimestampKey:
    return v15.TimestampKey(timeline=key.timeline)


def _timestamp_value(value: v14.TimestampValue) -> v15.TimestampValue:
    return v15.TimestampValue(ts_ms=value.ts)


def _u32(number: int) -> int:
    if number > _MAX_U32:
        raise ValueError(f"{number} does not fit into 32 bits")
    return number


_Convert = Callable[[Any], Message]
_KINDS: dict[str, tuple[type[Any], type[Any], _Convert, _Convert]] = {
    "audit_log": (v14.AuditLogKey, v14.AuditLogValue, _audit_log_key, _audit_log_value),
    "clusters": (v14.ClusterKey, v14.ClusterValue, _cluster_key, _cluster_value),
    "cluster_replicas": (v14.ClusterReplicaKey, v14.ClusterReplicaValue, _replica_key, _replica_value),
    "cluster_introspection_source_indexes": (
        v14.ClusterIntrospectionSourceIndexKey,
        v14.ClusterIntrospectionSourceIndexValue,
        _index_key,
        _index_value,
    ),
    "databases": (v14.DatabaseKey, v14.DatabaseValue, _database_key, _database_value),
    "default_privileges": (
        v14.DefaultPrivilegesKey,
        v14.DefaultPrivilegesValue,
        _default_privileges_key,
        _default_privileges_value,
    ),
    "id_allocators": (v14.IdAllocatorKey, v14.IdAllocatorValue, _id_allocator_key, _id_allocator_value),
    "items": (v14.ItemKey, v14.ItemValue, _item_key, _item_value),
    "roles": (v14.RoleKey, v14.RoleValue, _role_key, _role_value),
    "schemas": (v14.SchemaKey, v14.SchemaValue, _schema_key, _schema_value),
    "settings": (v14.SettingKey, v14.SettingValue, _setting_key, _setting_value),
    "storage_usage": (v14.StorageUsageKey, v14.StorageUsageValue, _storage_usage_key, _storage_usage_value),
    "system_object_mappings": (
        v14.SystemObjectMappingKey,
        v14.SystemObjectMappingValue,
        _mapping_key,
        _mapping_value,
    ),
    "system_privileges": (
        v14.SystemPrivilegesKey,
        v14.SystemPrivilegesValue,
        _system_privileges_key,
        _system_privileges_value,
    ),
    "timestamps": (v14.TimestampKey, v14.TimestampValue, _timestamp_key, _timestamp_value),
}

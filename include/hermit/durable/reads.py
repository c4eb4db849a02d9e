"""The getters of every kind, over two hooks: all objects of a kind, and the object under a key."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from google.protobuf.message import Message

from hermit.durable import abc as api
from hermit.durable.table import Object
from hermit.errors import CorruptData, invariant
from hermit.formats import config
from hermit.formats.gen import objects_pb2 as pb


def as_tombstone(value: int | None) -> bool | None:
    """A config value as a tombstone: absent, 0 and 1 are three different things, and there is no fourth."""
    if value not in (None, 0, 1):
        raise CorruptData(f"the tombstone in the config is {value}: neither 0 nor 1", value=value)
    return None if value is None else bool(value)


class Reads(ABC):
    """Getters by kind and by identifier."""

    @abstractmethod
    def objects(self, kind: str) -> list[Object[Any, Any]]: ...

    @abstractmethod
    def object(self, kind: str, key: Message) -> Object[Any, Any] | None: ...

    def get_audit_log(self) -> list[api.AuditEvent]:
        return self.objects("audit_log")

    def get_clusters(self) -> list[api.Cluster]:
        return self.objects("clusters")

    def get_cluster_replicas(self) -> list[api.ClusterReplica]:
        return self.objects("cluster_replicas")

    def get_cluster_introspection_source_indexes(self) -> list[api.IntrospectionSourceIndex]:
        return self.objects("cluster_introspection_source_indexes")

    def get_config(self) -> list[api.Config]:
        return self.objects("config")

    def get_databases(self) -> list[api.Database]:
        return self.objects("databases")

    def get_default_privileges(self) -> list[api.DefaultPrivileges]:
        return self.objects("default_privileges")

    def get_id_allocators(self) -> list[api.IdAllocator]:
        return self.objects("id_allocators")

    def get_items(self) -> list[api.Item]:
        return self.objects("items")

    def get_roles(self) -> list[api.Role]:
        return self.objects("roles")

    def get_schemas(self) -> list[api.Schema]:
        return self.objects("schemas")

    def get_settings(self) -> list[api.Setting]:
        return self.objects("settings")

    def get_storage_usage(self) -> list[api.StorageUsage]:
        return self.objects("storage_usage")

    def get_system_configurations(self) -> list[api.SystemConfiguration]:
        return self.objects("system_configurations")

    def get_system_object_mappings(self) -> list[api.SystemObjectMapping]:
        return self.objects("system_object_mappings")

    def get_system_privileges(self) -> list[api.SystemPrivileges]:
        return self.objects("system_privileges")

    def get_timestamps(self) -> list[api.Timestamp]:
        return self.objects("timestamps")

    def get_update_log(self) -> list[api.UpdateLogEntry]:
        return self.objects("update_log")

    def get_audit_event_by_id(self, id: int) -> api.AuditEvent | None:
        return self.object("audit_log", pb.AuditLogKey(id=id))

    def get_cluster_by_id(self, id: pb.ClusterId) -> api.Cluster | None:
        return self.object("clusters", pb.ClusterKey(id=id))

    def get_cluster_replica_by_id(self, id: pb.ReplicaId) -> api.ClusterReplica | None:
        return self.object("cluster_replicas", pb.ClusterReplicaKey(id=id))

    def get_cluster_introspection_source_index_by_id(
        self, cluster_id: pb.ClusterId, name: str
    ) -> api.IntrospectionSourceIndex | None:
        key = pb.ClusterIntrospectionSourceIndexKey(cluster_id=cluster_id, name=name)
        return self.object("cluster_introspection_source_indexes", key)

    def get_config_by_key(self, key: str) -> int | None:
        found = self.object("config", pb.ConfigKey(key=key))
        return None if found is None else int(found.value.value)

    def get_database_by_id(self, id: pb.DatabaseId) -> api.Database | None:
        return self.object("databases", pb.DatabaseKey(id=id))

    def get_default_privileges_by_key(self, key: pb.DefaultPrivilegesKey) -> api.DefaultPrivileges | None:
        return self.object("default_privileges", key)

    def get_id_allocator_by_name(self, name: str) -> api.IdAllocator | None:
        return self.object("id_allocators", pb.IdAllocatorKey(name=name))

    def get_item_by_id(self, id: pb.GlobalId) -> api.Item | None:
        return self.object("items", pb.ItemKey(gid=id))

    def get_role_by_id(self, id: pb.RoleId) -> api.Role | None:
        return self.object("roles", pb.RoleKey(id=id))

    def get_schema_by_id(self, id: pb.SchemaId) -> api.Schema | None:
        return self.object("schemas", pb.SchemaKey(id=id))

    def get_setting_by_name(self, name: str) -> api.Setting | None:
        return self.object("settings", pb.SettingKey(name=name))

    def get_storage_usage_by_id(self, id: int) -> api.StorageUsage | None:
        return self.object("storage_usage", pb.StorageUsageKey(id=id))

    def get_system_configuration_by_name(self, name: str) -> api.SystemConfiguration | None:
        return self.object("system_configurations", pb.SystemConfigurationKey(name=name))

    def get_system_object_mapping_by_key(
        self, key: pb.SystemObjectMappingKey
    ) -> api.SystemObjectMapping | None:
        return self.object("system_object_mappings", key)

    def get_system_privileges_by_key(self, key: pb.SystemPrivilegesKey) -> api.SystemPrivileges | None:
        return self.object("system_privileges", key)

    def get_timestamp_by_timeline(self, timeline: str) -> api.Timestamp | None:
        return self.object("timestamps", pb.TimestampKey(timeline=timeline))

    def deploy_generation(self) -> int | None:
        return self.get_config_by_key(config.DEPLOY_GENERATION)

    def format_version(self) -> int:
        version = self.get_config_by_key(config.USER_VERSION)
        invariant(version is not None, "an opened catalog has a format version")
        return version or 0

    def tombstone(self) -> bool | None:
        return as_tombstone(self.get_config_by_key(config.TOMBSTONE))

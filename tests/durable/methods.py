"""Every method of the interface as a call, so that a state can be tried on all of them at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hermit.formats import config
from hermit.formats.gen import objects_pb2 as pb

from . import samples

Call = Callable[[Any], Any]

PROPERTIES = {"store", "boot_ts", "epoch", "token", "is_read_only"}
"""What a handle knows without asking the store."""

READS: Mapping[str, Call] = {
    "objects": lambda c: c.objects("roles"),
    "object": lambda c: c.object("roles", pb.RoleKey(id=pb.RoleId(system=1))),
    "get_audit_log": lambda c: c.get_audit_log(),
    "get_clusters": lambda c: c.get_clusters(),
    "get_cluster_replicas": lambda c: c.get_cluster_replicas(),
    "get_cluster_introspection_source_indexes": lambda c: c.get_cluster_introspection_source_indexes(),
    "get_config": lambda c: c.get_config(),
    "get_databases": lambda c: c.get_databases(),
    "get_default_privileges": lambda c: c.get_default_privileges(),
    "get_id_allocators": lambda c: c.get_id_allocators(),
    "get_items": lambda c: c.get_items(),
    "get_roles": lambda c: c.get_roles(),
    "get_schemas": lambda c: c.get_schemas(),
    "get_settings": lambda c: c.get_settings(),
    "get_storage_usage": lambda c: c.get_storage_usage(),
    "get_system_configurations": lambda c: c.get_system_configurations(),
    "get_system_object_mappings": lambda c: c.get_system_object_mappings(),
    "get_system_privileges": lambda c: c.get_system_privileges(),
    "get_timestamps": lambda c: c.get_timestamps(),
    "get_update_log": lambda c: c.get_update_log(),
    "get_audit_event_by_id": lambda c: c.get_audit_event_by_id(1),
    "get_cluster_by_id": lambda c: c.get_cluster_by_id(pb.ClusterId(user=1)),
    "get_cluster_replica_by_id": lambda c: c.get_cluster_replica_by_id(pb.ReplicaId(user=2)),
    "get_cluster_introspection_source_index_by_id": lambda c: c.get_cluster_introspection_source_index_by_id(
        pb.ClusterId(user=1), "arrangement_sizes"
    ),
    "get_config_by_key": lambda c: c.get_config_by_key(config.USER_VERSION),
    "get_database_by_id": lambda c: c.get_database_by_id(pb.DatabaseId(user=1)),
    "get_default_privileges_by_key": lambda c: c.get_default_privileges_by_key(
        samples.default_privileges(1).key
    ),
    "get_id_allocator_by_name": lambda c: c.get_id_allocator_by_name("item"),
    "get_item_by_id": lambda c: c.get_item_by_id(pb.GlobalId(user=1)),
    "get_role_by_id": lambda c: c.get_role_by_id(pb.RoleId(system=1)),
    "get_schema_by_id": lambda c: c.get_schema_by_id(pb.SchemaId(user=1)),
    "get_setting_by_name": lambda c: c.get_setting_by_name("catalog_content_version"),
    "get_storage_usage_by_id": lambda c: c.get_storage_usage_by_id(1),
    "get_system_configuration_by_name": lambda c: c.get_system_configuration_by_name("max_tables"),
    "get_system_object_mapping_by_key": lambda c: c.get_system_object_mapping_by_key(
        samples.system_object_mapping(1).key
    ),
    "get_system_privileges_by_key": lambda c: c.get_system_privileges_by_key(
        samples.system_privileges(1).key
    ),
    "get_timestamp_by_timeline": lambda c: c.get_timestamp_by_timeline("epoch_ms"),
    "deploy_generation": lambda c: c.deploy_generation(),
    "format_version": lambda c: c.format_version(),
    "tombstone": lambda c: c.tombstone(),
    "confirm_leadership": lambda c: c.confirm_leadership(),
    "content_version": lambda c: c.content_version(),
    "snapshot": lambda c: list(c.snapshot()),
    "snapshot_unconsolidated": lambda c: list(c.snapshot_unconsolidated()),
    "digests": lambda c: c.digests(),
    "metrics": lambda c: c.metrics(),
    "dump": lambda c: c.dump(),
    "subscribe": lambda c: c.subscribe().poll(),
}


def _commit(catalog: Any) -> None:
    with catalog.transaction() as transaction:
        transaction.settings.set(*samples.setting(77))
        catalog.commit_transaction(transaction)


WRITES: Mapping[str, Call] = {
    "transaction": lambda c: c.transaction().discard(),
    "commit_transaction": _commit,
    "set_objects": lambda c: c.set_objects("items", [samples.item(77)]),
    "set_system_object_mapping": lambda c: c.set_system_object_mapping([samples.system_object_mapping(77)]),
    "set_cluster_introspection_source_indexes": lambda c: c.set_cluster_introspection_source_indexes(
        [samples.introspection_index(77)]
    ),
    "set_cluster_replica": lambda c: c.set_cluster_replica(samples.cluster_replica(77)),
    "set_config": lambda c: c.set_config("something", 77),
    "set_deploy_generation": lambda c: c.set_deploy_generation(77),
    "set_setting": lambda c: c.set_setting("something", "77"),
    "set_system_configuration": lambda c: c.set_system_configuration("max_tables", "77"),
    "set_timestamp": lambda c: c.set_timestamp("epoch_ms", 77),
    "set_tombstone": lambda c: c.set_tombstone(True),
    "allocate_id": lambda c: c.allocate_id("item"),
    "append_audit_log": lambda c: c.append_audit_log([samples.audit_event(77).value]),
    "append_storage_usage": lambda c: c.append_storage_usage([samples.storage_usage(77).value]),
    "prune_storage_usage": lambda c: c.prune_storage_usage(10**15),
}

UNOPENED: Mapping[str, Call] = {
    "is_initialized": lambda u: u.is_initialized(),
    "epoch": lambda u: u.epoch(),
    "config": lambda u: u.config("anything"),
    "format_version": lambda u: u.format_version(),
    "deploy_generation": lambda u: u.deploy_generation(),
    "tombstone": lambda u: u.tombstone(),
    "holder": lambda u: u.holder(),
}
OPENING = {"adopt_boot_ts", "open", "open_read_only", "open_savepoint", "check_open", "inspect", "resume"}


def public(protocol: type) -> set[str]:
    return {name for name in vars(protocol) if not name.startswith("_")}

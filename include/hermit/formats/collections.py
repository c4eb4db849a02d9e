"""The names of the collections, and of the messages that they hold. Light: imports no generated code.

In every version, collection `items` holds `ItemKey` and `ItemValue`, and so on. A version that does not
define the messages does not have the collection.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

MESSAGES: Mapping[str, str] = MappingProxyType(
    {
        "audit_log": "AuditLog",
        "clusters": "Cluster",
        "cluster_replicas": "ClusterReplica",
        "cluster_introspection_source_indexes": "ClusterIntrospectionSourceIndex",
        "config": "Config",
        "databases": "Database",
        "default_privileges": "DefaultPrivileges",
        "id_allocators": "IdAllocator",
        "items": "Item",
        "roles": "Role",
        "schemas": "Schema",
        "settings": "Setting",
        "storage_usage": "StorageUsage",
        "system_configurations": "SystemConfiguration",
        "system_object_mappings": "SystemObjectMapping",
        "system_privileges": "SystemPrivileges",
        "timestamps": "Timestamp",
        "update_log": "UpdateLog",
    }
)
"""Collection to the stem of its messages' names."""

COLLECTIONS: tuple[str, ...] = tuple(MESSAGES)

APPEND_ONLY = frozenset({"audit_log", "storage_usage"})
"""Rows are only ever added; they are not kept in memory."""

UNCACHED = APPEND_ONLY | {"update_log"}
"""Not kept in memory. The service reads `update_log` itself."""

"""The contents of a new catalog, written directly in the current version.

A new catalog never runs an upgrade: creating one takes one step however many versions there have been.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from google.protobuf.message import Message

from hermit.errors import HermitError
from hermit.formats import config
from hermit.formats.codec import encode_key, encode_value
from hermit.formats.collections import COLLECTIONS
from hermit.formats.gen import objects_pb2 as pb
from hermit.formats.versions import STASH_VERSION
from hermit.objects import KINDS
from hermit.rows import Row

_SYSTEM = pb.RoleId(system=1)
_PUBLIC = pb.RoleId(public=pb.Unit())
_USAGE = 1 << 8
_CREATE = 1 << 9
_FIRST_OID = 20_000

# Every identifier that the rows below use up, and so where each allocator goes on.
_NEXT_IDS = {
    "audit_log": 4,
    "cluster_replica": 3,
    "database": 2,
    "item": 1,
    "oid": _FIRST_OID,
    "schema": 2,
    "storage_usage": 1,
    "system_cluster": 2,
    "system_item": 14,
    "system_role": 3,
    "system_schema": 5,
    "user_cluster": 2,
    "user_role": 1,
}
_INTROSPECTION = ("active_dataflows", "arrangement_sizes", "peek_durations", "scheduling_elapsed")
_BUILTINS = ("hermit_clusters", "hermit_databases", "hermit_items", "hermit_roles", "hermit_schemas")


class CatalogNotEmpty(HermitError):
    """A new catalog was to be written over something."""

    collection: str


def initialize(
    read: Callable[[str], Iterable[tuple[bytes, bytes]]],
    write: Callable[[Sequence[tuple[Row, int]]], object],
    *,
    now_ms: int,
    deploy_generation: int | None = None,
) -> None:
    """Write a new catalog through a transaction, after making sure that nothing is there."""
    for collection in COLLECTIONS:
        if next(iter(read(collection)), None) is not None:
            raise CatalogNotEmpty(
                f"cannot initialize the catalog: {collection} is not empty",
                hint="open it instead; an old format is upgraded on opening",
                collection=collection,
            )
    write([(row, 1) for row in initial_rows(now_ms=now_ms, deploy_generation=deploy_generation)])


def initial_rows(*, now_ms: int, deploy_generation: int | None = None) -> list[Row]:
    """The rows of a new catalog at `STASH_VERSION`."""
    numbers = {config.USER_VERSION: STASH_VERSION}
    if deploy_generation is not None:
        numbers[config.DEPLOY_GENERATION] = deploy_generation
    rows = [
        Row(config.COLLECTION, config.encode_key(key), config.encode_value(value))
        for key, value in numbers.items()
    ]
    for collection, key, value in _objects(now_ms):
        rows.append(Row(collection, encode_key(collection, key), encode_value(collection, value)))
    return rows


def _objects(now_ms: int) -> Iterator[tuple[str, Message, Message]]:
    def object_of(collection: str, key: Mapping[str, Any], value: Mapping[str, Any]) -> Any:
        kind = KINDS[collection]
        return collection, kind.key(**key), kind.value(**value)

    for name, number in _NEXT_IDS.items():
        yield object_of("id_allocators", {"name": name}, {"next_id": number})
    yield object_of("timestamps", {"timeline": "epoch_ms"}, {"ts_ms": now_ms})
    yield object_of("settings", {"name": "catalog_content_version"}, {"value": "0"})
    yield from _roles()
    yield from _namespaces()
    yield from _clusters()
    for number, name in enumerate(_BUILTINS, start=1):
        key = {"schema_name": "hermit_catalog", "object_type": pb.OBJECT_TYPE_VIEW, "object_name": name}
        fingerprint = hashlib.sha256(name.encode()).hexdigest()
        yield object_of("system_object_mappings", key, {"id": number, "fingerprint": fingerprint})
    created = (
        (pb.OBJECT_TYPE_DATABASE, "u1", "hermit"),
        (pb.OBJECT_TYPE_SCHEMA, "u1", "public"),
        (pb.OBJECT_TYPE_CLUSTER, "u1", "default"),
    )
    for number, (object_type, identifier, name) in enumerate(created, start=1):
        yield object_of(
            "audit_log",
            {"id": number},
            {
                "event_type": pb.EVENT_TYPE_CREATE,
                "object_type": object_type,
                "occurred_at_ms": now_ms,
                "id_name": pb.IdName(id=identifier, name=name),
            },
        )


def _acl(*grants: tuple[pb.RoleId, int]) -> list[pb.AclItem]:
    return [
        pb.AclItem(grantee=grantee, grantor=_SYSTEM, mode=pb.AclMode(bits=bits)) for grantee, bits in grants
    ]


def _roles() -> Iterator[tuple[str, Message, Message]]:
    roles = (
        (_SYSTEM, "hermit_system", 15),
        (pb.RoleId(system=2), "hermit_support", 1),
        (_PUBLIC, "public", 1),
    )
    for oid, (identifier, name, permissions) in enumerate(roles, start=10_000):
        value = pb.RoleValue(name=name, permissions=permissions, membership=pb.RoleMembership(), oid=oid)
        yield "roles", pb.RoleKey(id=identifier), value
    privileges = pb.AclMode(bits=_CREATE)
    yield (
        "system_privileges",
        pb.SystemPrivilegesKey(grantee=_SYSTEM, grantor=_SYSTEM),
        pb.SystemPrivilegesValue(privileges=privileges),
    )
    yield (
        "default_privileges",
        pb.DefaultPrivilegesKey(role_id=_PUBLIC, object_type=pb.OBJECT_TYPE_TYPE, grantee=_PUBLIC),
        pb.DefaultPrivilegesValue(privileges=pb.AclMode(bits=_USAGE)),
    )


def _namespaces() -> Iterator[tuple[str, Message, Message]]:
    database = pb.DatabaseId(user=1)
    open_to_all = _acl((_PUBLIC, _USAGE), (_SYSTEM, _USAGE | _CREATE))
    yield (
        "databases",
        pb.DatabaseKey(id=database),
        pb.DatabaseValue(name="hermit", owner_id=_SYSTEM, privileges=open_to_all, oid=11_000),
    )
    yield (
        "schemas",
        pb.SchemaKey(id=pb.SchemaId(user=1)),
        pb.SchemaValue(
            database_id=database, name="public", owner_id=_SYSTEM, privileges=open_to_all, oid=12_000
        ),
    )
    builtin = ("hermit_catalog", "hermit_internal", "information_schema", "pg_catalog")
    for number, name in enumerate(builtin, start=1):
        value = pb.SchemaValue(
            name=name, owner_id=_SYSTEM, privileges=_acl((_PUBLIC, _USAGE)), oid=12_000 + number
        )
        yield "schemas", pb.SchemaKey(id=pb.SchemaId(system=number)), value


def _clusters() -> Iterator[tuple[str, Message, Message]]:
    clusters = (
        (pb.ClusterId(system=1), "hermit_system", pb.ReplicaId(system=1), 6),
        (pb.ClusterId(user=1), "default", pb.ReplicaId(user=2), 10),
    )
    for identifier, name, replica, first_index in clusters:
        managed = pb.ManagedCluster(size="small", replication_factor=1)
        privileges = _acl((_PUBLIC, _USAGE), (_SYSTEM, _USAGE | _CREATE))
        cluster = pb.ClusterValue(name=name, owner_id=_SYSTEM, managed=managed, privileges=privileges)
        yield "clusters", pb.ClusterKey(id=identifier), cluster
        yield (
            "cluster_replicas",
            pb.ClusterReplicaKey(id=replica),
            pb.ClusterReplicaValue(
                cluster_id=identifier,
                name="r1",
                owner_id=_SYSTEM,
                managed=pb.ManagedLocation(size="small"),
                logging=pb.ReplicaLogging(log_logging=False, interval_us=1_000_000),
            ),
        )
        for number, log in enumerate(_INTROSPECTION, start=first_index):
            key = pb.ClusterIntrospectionSourceIndexKey(cluster_id=identifier, name=log)
            index = pb.ClusterIntrospectionSourceIndexValue(index_id=number, oid=13_000 + number)
            yield "cluster_introspection_source_indexes", key, index

"""The objects of version 14, the last version that stored JSON. Do not use this module.

It exists for one purpose: `upgrades/v14_to_v15.py` reads a catalog that was last opened by a build from
before protobuf, and turns its rows into messages of version 15. (The generator of old catalogs, which
tests that step, writes them with it.) Nothing else may import it, and nothing may be added to it.

Why it is still here, and why it looks the way it does:

- Up to version 14 all keys and values were JSON, so that an operator could read the tables with a SQL
  shell. `hermit dump` has taken that role, for every version.
- The types were shared by all versions then: one dataclass had to read what an old build had written and
  what the new build would write, which is why so much of it is `| None`. A number could not become an
  enum, a field could not become mandatory, and each step was edited again whenever a type changed. That
  is what frozen protos ended. Please do not take these classes as a pattern.
- JSON has no canonical form. Version 14 wrote the keys of objects in sorted order and without spaces, but
  other orders may be stored, by older libraries or by hand. The step retracts the bytes that it read, and
  never what these classes would write.
- There is no checksum. Text that is not JSON, is no such object, or has a field too many or of another
  type is refused. A damaged letter inside a name cannot be noticed at this level; the page checksums of
  the stores have to.
- The config collection never was JSON in a catalog that this build can open: its encoding is fixed
  (`config.py`).

When `MIN_STASH_VERSION` is raised to 15, this module and `v14_to_v15.py` are deleted together.
"""

# ruff: noqa: D101
# (The fields are the documentation.)

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from hermit.formats.frame import corrupt

T = TypeVar("T")

_MAX_U64 = (1 << 64) - 1


# Identifiers are text: "u12" is a user's, "s3" the system's, and among roles "p" is everybody.


@dataclass(frozen=True)
class AclItem:
    grantee: str
    grantor: str
    acl_mode: int


@dataclass(frozen=True)
class AuditLogKey:
    id: int


@dataclass(frozen=True)
class FullName:
    database: str
    schema: str
    item: str


@dataclass(frozen=True)
class IdName:
    id: str
    name: str


@dataclass(frozen=True)
class ItemEvent:
    id: str
    name: FullName


@dataclass(frozen=True)
class RenameItemEvent:
    id: str
    old_name: FullName
    new_name: FullName


@dataclass(frozen=True)
class ReplicaEvent:
    cluster_id: str
    cluster_name: str
    replica_name: str
    logical_size: str
    replica_id: str | None = None


@dataclass(frozen=True)
class PrivilegeEvent:
    object_id: str
    grantee_id: str
    grantor_id: str
    privileges: str


@dataclass(frozen=True)
class EventDetails:
    """Exactly one of these is set."""

    id_name: IdName | None = None
    item: ItemEvent | None = None
    rename_item: RenameItemEvent | None = None
    replica: ReplicaEvent | None = None
    privilege: PrivilegeEvent | None = None


@dataclass(frozen=True)
class AuditLogValue:
    event_type: str
    object_type: str
    occurred_at: int
    details: EventDetails
    user: str | None = None


@dataclass(frozen=True)
class ClusterKey:
    id: str


@dataclass(frozen=True)
class ClusterValue:
    name: str
    variant: int
    size: str | None = None
    replication_factor: int | None = None
    availability_zones: list[str] | None = None
    privileges: list[AclItem] | None = None


@dataclass(frozen=True)
class ClusterReplicaKey:
    id: str


@dataclass(frozen=True)
class ManagedLocation:
    size: str
    availability_zone: str | None = None
    billed_as: str | None = None


@dataclass(frozen=True)
class UnmanagedLocation:
    compute_addresses: list[str]
    storage_addresses: list[str]
    workers: int


@dataclass(frozen=True)
class ReplicaLogging:
    log_logging: bool
    interval_us: int | None = None


@dataclass(frozen=True)
class ClusterReplicaValue:
    """Exactly one of `managed` and `unmanaged` is set."""

    cluster_id: str
    name: str
    managed: ManagedLocation | None = None
    unmanaged: UnmanagedLocation | None = None
    logging: ReplicaLogging | None = None


@dataclass(frozen=True)
class ClusterIntrospectionSourceIndexKey:
    cluster_id: str
    name: str


@dataclass(frozen=True)
class ClusterIntrospectionSourceIndexValue:
    index_id: int
    oid: int


@dataclass(frozen=True)
class DatabaseKey:
    id: str


@dataclass(frozen=True)
class DatabaseValue:
    name: str
    oid: int
    privileges: list[AclItem] | None = None


@dataclass(frozen=True)
class DefaultPrivilegesKey:
    role_id: str
    object_type: str
    grantee: str
    database_id: str | None = None
    schema_id: str | None = None


@dataclass(frozen=True)
class DefaultPrivilegesValue:
    privileges: int


@dataclass(frozen=True)
class IdAllocatorKey:
    name: str


@dataclass(frozen=True)
class IdAllocatorValue:
    next_id: int


@dataclass(frozen=True)
class ItemKey:
    gid: str


@dataclass(frozen=True)
class ItemValue:
    schema_id: str
    name: str
    item_type: int
    create_sql: str
    oid: int
    privileges: list[AclItem] | None = None


@dataclass(frozen=True)
class RoleKey:
    id: str


@dataclass(frozen=True)
class RoleMembershipEntry:
    role: str
    grantor: str


@dataclass(frozen=True)
class RoleVariable:
    name: str
    values: list[str]


@dataclass(frozen=True)
class RoleValue:
    name: str
    oid: int
    inherit: bool
    create_role: bool
    create_db: bool
    create_cluster: bool
    membership: list[RoleMembershipEntry] | None = None
    variables: list[RoleVariable] | None = None


@dataclass(frozen=True)
class SchemaKey:
    id: str


@dataclass(frozen=True)
class SchemaValue:
    name: str
    oid: int
    database_id: str | None = None
    privileges: list[AclItem] | None = None


@dataclass(frozen=True)
class SettingKey:
    name: str
    system_variable: bool | None = None


@dataclass(frozen=True)
class SettingValue:
    value: str


@dataclass(frozen=True)
class StorageUsageKey:
    id: int


@dataclass(frozen=True)
class StorageUsageValue:
    size_bytes: int
    collected_at: int
    shard_id: str | None = None


@dataclass(frozen=True)
class SystemObjectMappingKey:
    schema_name: str
    object_type: str
    object_name: str


@dataclass(frozen=True)
class SystemObjectMappingValue:
    id: int
    fingerprint: str


@dataclass(frozen=True)
class SystemPrivilegesKey:
    grantee: str
    grantor: str


@dataclass(frozen=True)
class SystemPrivilegesValue:
    privileges: int


@dataclass(frozen=True)
class TimestampKey:
    timeline: str


@dataclass(frozen=True)
class TimestampValue:
    ts: int


# ---- reading and writing ----


def write(obj: Any) -> bytes:
    """The JSON of an object, as version 14 wrote it: sorted, without spaces, absent fields left out."""
    return json.dumps(_without_none(asdict(obj)), sort_keys=True, separators=(",", ":")).encode()


def reader(cls: type[T], collection: str, part: str) -> Callable[[bytes], T]:
    """A function that reads stored JSON of one type, and refuses everything else."""
    hint: Any = cls
    convert = _converter(hint)

    def read(data: bytes) -> T:
        try:
            found: T = convert(json.loads(data))
        except (ValueError, RecursionError) as error:
            raise corrupt(collection, part, data, str(error)) from error
        return found

    return read


def _without_none(obj: Any) -> Any:
    if isinstance(obj, dict):
        return {name: _without_none(value) for name, value in obj.items() if value is not None}
    return [_without_none(element) for element in obj] if isinstance(obj, list) else obj


@cache
def _converter(hint: Any) -> Callable[[Any], Any]:
    if is_dataclass(hint):
        return _dataclass_converter(hint)
    if get_origin(hint) is list:
        element = _converter(get_args(hint)[0])
        return lambda obj: [element(each) for each in _expect(list, obj)]
    if isinstance(hint, UnionType):
        inner = _converter(next(arg for arg in get_args(hint) if arg is not NoneType))
        return lambda obj: None if obj is None else inner(obj)
    return _unsigned if hint is int else lambda obj: _expect(hint, obj)


def _dataclass_converter(cls: Any) -> Callable[[Any], Any]:
    hints = get_type_hints(cls)
    converters = {field.name: _converter(hints[field.name]) for field in fields(cls)}

    def convert(obj: Any) -> Any:
        _expect(dict, obj)
        try:
            return cls(**{name: converters[name](value) for name, value in obj.items()})
        except KeyError as error:
            raise ValueError(f"{cls.__name__} has no field {error}") from error
        except TypeError as error:
            raise ValueError(f"{cls.__name__} lacks a field") from error

    return convert


def _expect(cls: type, obj: Any) -> Any:
    if type(obj) is not cls:
        raise ValueError(f"{cls.__name__} expected, not {type(obj).__name__}")
    return obj


def _unsigned(obj: Any) -> int:
    if type(obj) is not int or not 0 <= obj <= _MAX_U64:
        raise ValueError(f"{obj!r} is no unsigned 64-bit number")
    return obj

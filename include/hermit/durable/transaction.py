"""A transaction: changes to any number of kinds, committed all at once by the catalog, or not at all.

It is laid over the catalog's memory and holds only what it changed: opening one copies nothing. It does
not commit itself, and it knows no store. While one is open the catalog gives out no second; dropping it
is enough to end it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol, TypeVar

from google.protobuf.message import Message

from hermit.durable.errors import IdsExhausted, TransactionFinished, UnknownKind, UnknownObject
from hermit.durable.store import Position
from hermit.durable.table import Base, Change, Object, TableTransaction
from hermit.formats.gen import objects_pb2 as pb
from hermit.objects import KINDS, Kind

K = TypeVar("K", bound=Message)
V = TypeVar("V", bound=Message)
_ID_MAX = 2**64 - 1


def kind_named(name: str) -> Kind:
    """The kind of this name, or an error that lists the names."""
    kind = KINDS.get(name)
    if kind is None:
        raise UnknownKind(f"there is no object type {name!r}", hint=f"one of {', '.join(KINDS)}")
    return kind


class TableView(Protocol[K, V]):
    """One kind, as a transaction sees it and changes it."""

    def get(self, key: K) -> V | None:
        """The value under this key."""

    def items(self) -> list[Object[K, V]]:
        """Every object, in the order of the encoded keys."""

    def insert(self, key: K, value: V) -> None:
        """Add an object whose key is not taken."""

    def update(self, key: K, value: V) -> V:
        """Give an existing object another value; returns the previous one."""

    def set(self, key: K, value: V | None) -> V | None:
        """Make this the object's value, or remove the object; returns the previous value, if any."""

    def delete(self, key: K) -> V:
        """Remove an object; returns what it was."""

    def delete_where(self, condition: Callable[[K, V], bool]) -> list[Object[K, V]]:
        """Remove every object that meets the condition; returns them."""


class CatalogTransaction(ABC):
    """Every kind as a typed table, whatever is below: one store, or two that are compared."""

    @abstractmethod
    def table(self, name: str) -> TableView[Any, Any]:
        """The kind of this name."""

    @abstractmethod
    def discard(self) -> None:
        """Forget the changes and let the catalog give out another transaction."""

    def __enter__(self) -> CatalogTransaction:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.discard()

    def allocate_id(self, allocator: str, amount: int = 1) -> list[int]:
        """Take the next identifiers of an allocator; they are this transaction's if it commits."""
        key = pb.IdAllocatorKey(name=allocator)
        found = self.id_allocators.get(key)
        if found is None:
            names = ", ".join(entry.key.name for entry in self.id_allocators.items())
            raise UnknownObject(f"there is no allocator {allocator!r}", hint=f"one of {names}")
        first, after = found.next_id, found.next_id + amount
        if amount < 0 or after > _ID_MAX:
            raise IdsExhausted(f"allocator {allocator!r} is at {first} and cannot give {amount} identifiers")
        self.id_allocators.set(key, pb.IdAllocatorValue(next_id=after))
        return list(range(first, after))

    @property
    def audit_log(self) -> TableView[pb.AuditLogKey, pb.AuditLogValue]:
        return self.table("audit_log")

    @property
    def clusters(self) -> TableView[pb.ClusterKey, pb.ClusterValue]:
        return self.table("clusters")

    @property
    def cluster_replicas(self) -> TableView[pb.ClusterReplicaKey, pb.ClusterReplicaValue]:
        return self.table("cluster_replicas")

    @property
    def cluster_introspection_source_indexes(
        self,
    ) -> TableView[pb.ClusterIntrospectionSourceIndexKey, pb.ClusterIntrospectionSourceIndexValue]:
        return self.table("cluster_introspection_source_indexes")

    @property
    def config(self) -> TableView[pb.ConfigKey, pb.ConfigValue]:
        return self.table("config")

    @property
    def databases(self) -> TableView[pb.DatabaseKey, pb.DatabaseValue]:
        return self.table("databases")

    @property
    def default_privileges(self) -> TableView[pb.DefaultPrivilegesKey, pb.DefaultPrivilegesValue]:
        return self.table("default_privileges")

    @property
    def id_allocators(self) -> TableView[pb.IdAllocatorKey, pb.IdAllocatorValue]:
        return self.table("id_allocators")

    @property
    def items(self) -> TableView[pb.ItemKey, pb.ItemValue]:
        return self.table("items")

    @property
    def roles(self) -> TableView[pb.RoleKey, pb.RoleValue]:
        return self.table("roles")

    @property
    def schemas(self) -> TableView[pb.SchemaKey, pb.SchemaValue]:
        return self.table("schemas")

    @property
    def settings(self) -> TableView[pb.SettingKey, pb.SettingValue]:
        return self.table("settings")

    @property
    def storage_usage(self) -> TableView[pb.StorageUsageKey, pb.StorageUsageValue]:
        return self.table("storage_usage")

    @property
    def system_configurations(
        self,
    ) -> TableView[pb.SystemConfigurationKey, pb.SystemConfigurationValue]:
        return self.table("system_configurations")

    @property
    def system_object_mappings(
        self,
    ) -> TableView[pb.SystemObjectMappingKey, pb.SystemObjectMappingValue]:
        return self.table("system_object_mappings")

    @property
    def system_privileges(self) -> TableView[pb.SystemPrivilegesKey, pb.SystemPrivilegesValue]:
        return self.table("system_privileges")

    @property
    def timestamps(self) -> TableView[pb.TimestampKey, pb.TimestampValue]:
        return self.table("timestamps")

    @property
    def update_log(self) -> TableView[pb.UpdateLogKey, pb.UpdateLogValue]:
        return self.table("update_log")


class Transaction(CatalogTransaction):
    """A transaction of one catalog handle."""

    def __init__(self, base: Callable[[Kind], Base], position: Position) -> None:
        self._base = base
        self._tables: dict[str, TableTransaction[Any, Any]] = {}
        self._open = True
        self.position = position
        """The state of the contents that it was opened on."""

    def table(self, name: str) -> TableTransaction[Any, Any]:
        self._must_be_open()
        found = self._tables.get(name)
        if found is None:
            kind = kind_named(name)
            found = self._tables[name] = TableTransaction(kind, self._base(kind))
        return found

    def discard(self) -> None:
        self._open = False
        self._tables.clear()

    @property
    def is_open(self) -> bool:
        return self._open

    def finish(self) -> dict[str, list[Change]]:
        """End the transaction and hand its changes to the catalog, by kind."""
        self._must_be_open()
        self._open = False
        changes = {name: table.changes() for name, table in self._tables.items()}
        return {name: changed for name, changed in changes.items() if changed}

    def _must_be_open(self) -> None:
        if not self._open:
            raise TransactionFinished("this transaction was committed or discarded")

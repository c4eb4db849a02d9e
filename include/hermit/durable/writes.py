"""The targeted setters: each is the transaction that one would write by hand, in one call and one commit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from hermit.durable import abc as api
from hermit.durable.errors import ConcurrentChange, GenerationTooOld
from hermit.durable.table import Object
from hermit.durable.transaction import CatalogTransaction
from hermit.formats import config
from hermit.formats.gen import objects_pb2 as pb

T = TypeVar("T")

AUDIT_LOG_ALLOCATOR = "audit_log"
STORAGE_USAGE_ALLOCATOR = "storage_usage"
_ATTEMPTS_MAX = 100


class Writes(ABC):
    """Setters by kind, over transactions."""

    @abstractmethod
    def transaction(self) -> CatalogTransaction: ...

    @abstractmethod
    def commit_transaction(self, transaction: CatalogTransaction) -> None: ...

    def set_objects(self, kind: str, objects: Sequence[Object[Any, Any]]) -> None:
        def change(transaction: CatalogTransaction) -> None:
            table = transaction.table(kind)
            for key, value in objects:
                table.set(key, value)

        self._transact(change)

    def set_system_object_mapping(self, mappings: Sequence[api.SystemObjectMapping]) -> None:
        self.set_objects("system_object_mappings", mappings)

    def set_cluster_introspection_source_indexes(
        self, indexes: Sequence[api.IntrospectionSourceIndex]
    ) -> None:
        self.set_objects("cluster_introspection_source_indexes", indexes)

    def set_cluster_replica(self, replica: api.ClusterReplica) -> None:
        self.set_objects("cluster_replicas", [replica])

    def set_config(self, key: str, value: int | None) -> None:
        stored = None if value is None else pb.ConfigValue(value=value)
        self._transact(lambda transaction: transaction.config.set(pb.ConfigKey(key=key), stored))

    def set_deploy_generation(self, generation: int) -> None:
        def change(transaction: CatalogTransaction) -> None:
            key = pb.ConfigKey(key=config.DEPLOY_GENERATION)
            stored = transaction.config.set(key, pb.ConfigValue(value=generation))
            if stored is not None and generation < stored.value:
                raise GenerationTooOld(
                    f"the deploy generation is {stored.value} and cannot go back to {generation}",
                    hint="a generation only grows",
                    given=generation,
                    stored=stored.value,
                )

        self._transact(change)

    def set_setting(self, name: str, value: str | None) -> None:
        stored = None if value is None else pb.SettingValue(value=value)
        self._transact(lambda transaction: transaction.settings.set(pb.SettingKey(name=name), stored))

    def set_system_configuration(self, name: str, value: str | None) -> None:
        key = pb.SystemConfigurationKey(name=name)
        stored = None if value is None else pb.SystemConfigurationValue(value=value)
        self._transact(lambda transaction: transaction.system_configurations.set(key, stored))

    def set_timestamp(self, timeline: str, ts_ms: int) -> None:
        key, value = pb.TimestampKey(timeline=timeline), pb.TimestampValue(ts_ms=ts_ms)
        self._transact(lambda transaction: transaction.timestamps.set(key, value))

    def set_tombstone(self, retired: bool) -> None:
        self.set_config(config.TOMBSTONE, int(retired))

    def allocate_id(self, allocator: str, amount: int = 1) -> list[int]:
        return self._transact(lambda transaction: transaction.allocate_id(allocator, amount))

    def append_audit_log(self, events: Sequence[pb.AuditLogValue]) -> list[int]:
        def change(transaction: CatalogTransaction) -> list[int]:
            ids = transaction.allocate_id(AUDIT_LOG_ALLOCATOR, len(events))
            for id_, event in zip(ids, events, strict=True):
                transaction.audit_log.insert(pb.AuditLogKey(id=id_), event)
            return ids

        return self._transact(change)

    def append_storage_usage(self, usages: Sequence[pb.StorageUsageValue]) -> list[int]:
        def change(transaction: CatalogTransaction) -> list[int]:
            ids = transaction.allocate_id(STORAGE_USAGE_ALLOCATOR, len(usages))
            for id_, usage in zip(ids, usages, strict=True):
                transaction.storage_usage.insert(pb.StorageUsageKey(id=id_), usage)
            return ids

        return self._transact(change)

    def prune_storage_usage(self, before_ms: int) -> int:
        return self._transact(
            lambda transaction: len(
                transaction.storage_usage.delete_where(lambda _, value: value.collected_at_ms < before_ms)
            )
        )

    def _transact(self, change: Callable[[CatalogTransaction], T]) -> T:
        """Run a change and commit it, over again when another holder of our token came between."""
        for _ in range(_ATTEMPTS_MAX - 1):
            with suppress(ConcurrentChange):
                return self._transact_once(change)
        return self._transact_once(change)

    def _transact_once(self, change: Callable[[CatalogTransaction], T]) -> T:
        with self.transaction() as transaction:
            result = change(transaction)
            self.commit_transaction(transaction)
        return result

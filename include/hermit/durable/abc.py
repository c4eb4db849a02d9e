"""The interface of a durable catalog. Stash, persist and shadow satisfy it; everything else uses only it.

An unopened state answers what bootstrapping needs, on any format, and changes nothing by answering. An
opened one gives the objects. They are two types: what must not be asked before opening cannot be written.

    init_*_catalog_state() -> UnopenedCatalogState --open*()--> DurableCatalogState

| mode        | writes at opening                   | commits go    | fails once                     |
|-------------|-------------------------------------|---------------|--------------------------------|
| `open`      | epoch, initialization, upgrade: one | to the store  | anybody else opened            |
| `read_only` | nothing                             | nowhere       | anybody opened since           |
| `savepoint` | nothing                             | to memory     | anybody opened since           |
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from types import TracebackType
from typing import Any, Protocol, TypeAlias

from google.protobuf.message import Message

from hermit.digest import Digest
from hermit.durable.model import CollectionMetrics, OpenCheck
from hermit.durable.subscription import Subscription
from hermit.durable.table import Object
from hermit.durable.token import FenceToken
from hermit.durable.transaction import CatalogTransaction
from hermit.formats.gen import objects_pb2 as pb
from hermit.rows import Row, Update

AuditEvent: TypeAlias = Object[pb.AuditLogKey, pb.AuditLogValue]
Cluster: TypeAlias = Object[pb.ClusterKey, pb.ClusterValue]
ClusterReplica: TypeAlias = Object[pb.ClusterReplicaKey, pb.ClusterReplicaValue]
IntrospectionSourceIndex: TypeAlias = Object[
    pb.ClusterIntrospectionSourceIndexKey, pb.ClusterIntrospectionSourceIndexValue
]
Config: TypeAlias = Object[pb.ConfigKey, pb.ConfigValue]
Database: TypeAlias = Object[pb.DatabaseKey, pb.DatabaseValue]
DefaultPrivileges: TypeAlias = Object[pb.DefaultPrivilegesKey, pb.DefaultPrivilegesValue]
IdAllocator: TypeAlias = Object[pb.IdAllocatorKey, pb.IdAllocatorValue]
Item: TypeAlias = Object[pb.ItemKey, pb.ItemValue]
Role: TypeAlias = Object[pb.RoleKey, pb.RoleValue]
Schema: TypeAlias = Object[pb.SchemaKey, pb.SchemaValue]
Setting: TypeAlias = Object[pb.SettingKey, pb.SettingValue]
StorageUsage: TypeAlias = Object[pb.StorageUsageKey, pb.StorageUsageValue]
SystemConfiguration: TypeAlias = Object[pb.SystemConfigurationKey, pb.SystemConfigurationValue]
SystemObjectMapping: TypeAlias = Object[pb.SystemObjectMappingKey, pb.SystemObjectMappingValue]
SystemPrivileges: TypeAlias = Object[pb.SystemPrivilegesKey, pb.SystemPrivilegesValue]
Timestamp: TypeAlias = Object[pb.TimestampKey, pb.TimestampValue]
UpdateLogEntry: TypeAlias = Object[pb.UpdateLogKey, pb.UpdateLogValue]


class CatalogInspection(Protocol):
    """A catalog as it is stored: any format, nothing decoded but for a dump. Fails once it is opened."""

    def content_version(self) -> int:
        """A number that grows exactly when the contents change."""

    def snapshot(self) -> Iterator[Row]:
        """Every row of the contents, in one consistent state."""

    def snapshot_unconsolidated(self) -> Iterator[Update]:
        """Every update that the store still holds, of the contents and the store's own config."""

    def digests(self) -> dict[str, Digest]:
        """A digest of the contents per collection."""

    def metrics(self) -> list[CollectionMetrics]:
        """Live rows and bytes per collection."""

    def dump(self) -> str:
        """The whole catalog as JSON for people."""

    def close(self) -> None:
        """Let go of the store."""

    def __enter__(self) -> CatalogInspection: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class UnopenedCatalogState(Protocol):
    """A catalog before it is opened. Nothing here writes but `open`."""

    @property
    def store(self) -> str:
        """`stash`, `persist` or `shadow`."""

    @property
    def boot_ts(self) -> int:
        """When this state was made, in ms of the clock it was given."""

    def adopt_boot_ts(self, boot_ts: int) -> None:
        """Count as made when another state was, so that both initialize a catalog alike."""

    def is_initialized(self) -> bool:
        """Whether anybody ever opened the catalog for writing."""

    def epoch(self) -> int | None:
        """The epoch that is stored; None when the catalog was never opened."""

    def config(self, key: str) -> int | None:
        """A config entry, whatever the format of the rest."""

    def format_version(self) -> int | None:
        """The version of the stored format; None when the catalog is not initialized."""

    def deploy_generation(self) -> int | None:
        """The generation of the deployment that last took over; None when none was given."""

    def tombstone(self) -> bool | None:
        """Whether this store is retired. None, never having moved, is not the same as False."""

    def holder(self) -> str | None:
        """Who holds the catalog open for writing now; None when nobody does, or it cannot be told."""

    def inspect(self) -> CatalogInspection:
        """Look at the contents as they are stored, whatever their format."""

    def open(
        self,
        *,
        epoch_min: int = 1,
        deploy_generation: int | None = None,
        clear_tombstone: bool = False,
        preload: bool = True,
    ) -> DurableCatalogState:
        """Open for reading and writing, and fence out whoever did before.

        One atomic write raises the epoch to at least `epoch_min`, initializes or upgrades the contents,
        and stores the deploy generation. `clear_tombstone` is for the emergency in which this store must
        serve although it was retired. Without `preload`, objects are read when first asked for.
        """

    def open_read_only(self, *, preload: bool = True) -> DurableCatalogState:
        """Open to read. Fails when the catalog is not initialized, or needs an upgrade."""

    def open_savepoint(self, *, deploy_generation: int | None = None) -> DurableCatalogState:
        """Open as `open` would, and commit to memory only: a dry run."""

    def check_open(self, *, replica_sizes: Collection[str] | None = None) -> OpenCheck:
        """Work out whether `open` would succeed, over every object, and change nothing.

        Fails on a catalog that is not initialized, whose upgrade fails, or, when sizes are given, one
        with a replica of another size.
        """

    def resume(self, token: FenceToken, *, preload: bool = False) -> DurableCatalogState:
        """Go on as the opener that got this token, unless somebody opened the catalog since."""


class DurableCatalogState(Protocol):
    """An opened catalog. Every method, reads too, fails with `Fenced` once somebody else took over."""

    @property
    def store(self) -> str:
        """`stash`, `persist` or `shadow`."""

    @property
    def boot_ts(self) -> int:
        """When this state was made, in ms of the clock it was given."""

    @property
    def epoch(self) -> int:
        """This opener's epoch: no other opener of the catalog ever has the same."""

    @property
    def token(self) -> FenceToken:
        """What another process needs to go on as this opener."""

    @property
    def is_read_only(self) -> bool:
        """Whether every mutation is refused."""

    # Objects

    def objects(self, kind: str) -> list[Object[Any, Any]]:
        """Every object of a kind, in the order of the encoded keys."""

    def object(self, kind: str, key: Message) -> Object[Any, Any] | None:
        """The object under a key."""

    def get_audit_log(self) -> list[AuditEvent]:
        """Every audit event; read from the store."""

    def get_clusters(self) -> list[Cluster]:
        """Every cluster."""

    def get_cluster_replicas(self) -> list[ClusterReplica]:
        """Every cluster replica."""

    def get_cluster_introspection_source_indexes(self) -> list[IntrospectionSourceIndex]:
        """Every introspection source index."""

    def get_config(self) -> list[Config]:
        """Every config entry."""

    def get_databases(self) -> list[Database]:
        """Every database."""

    def get_default_privileges(self) -> list[DefaultPrivileges]:
        """Every default privilege."""

    def get_id_allocators(self) -> list[IdAllocator]:
        """Every allocator."""

    def get_items(self) -> list[Item]:
        """Every item."""

    def get_roles(self) -> list[Role]:
        """Every role."""

    def get_schemas(self) -> list[Schema]:
        """Every schema."""

    def get_settings(self) -> list[Setting]:
        """Every setting."""

    def get_storage_usage(self) -> list[StorageUsage]:
        """Every storage usage event; read from the store."""

    def get_system_configurations(self) -> list[SystemConfiguration]:
        """Every system variable that was set."""

    def get_system_object_mappings(self) -> list[SystemObjectMapping]:
        """Every builtin object with its identifier and fingerprint."""

    def get_system_privileges(self) -> list[SystemPrivileges]:
        """Every privilege on the system."""

    def get_timestamps(self) -> list[Timestamp]:
        """The timestamp of every timeline."""

    def get_update_log(self) -> list[UpdateLogEntry]:
        """Every entry of the versioned catalog service's log."""

    # One object

    def get_audit_event_by_id(self, id: int) -> AuditEvent | None:
        """An audit event; read from the store."""

    def get_cluster_by_id(self, id: pb.ClusterId) -> Cluster | None:
        """A cluster."""

    def get_cluster_replica_by_id(self, id: pb.ReplicaId) -> ClusterReplica | None:
        """A cluster replica."""

    def get_cluster_introspection_source_index_by_id(
        self, cluster_id: pb.ClusterId, name: str
    ) -> IntrospectionSourceIndex | None:
        """An introspection source index."""

    def get_config_by_key(self, key: str) -> int | None:
        """A config entry's value."""

    def get_database_by_id(self, id: pb.DatabaseId) -> Database | None:
        """A database."""

    def get_default_privileges_by_key(self, key: pb.DefaultPrivilegesKey) -> DefaultPrivileges | None:
        """A default privilege."""

    def get_id_allocator_by_name(self, name: str) -> IdAllocator | None:
        """An allocator."""

    def get_item_by_id(self, id: pb.GlobalId) -> Item | None:
        """An item."""

    def get_role_by_id(self, id: pb.RoleId) -> Role | None:
        """A role."""

    def get_schema_by_id(self, id: pb.SchemaId) -> Schema | None:
        """A schema."""

    def get_setting_by_name(self, name: str) -> Setting | None:
        """A setting."""

    def get_storage_usage_by_id(self, id: int) -> StorageUsage | None:
        """A storage usage event; read from the store."""

    def get_system_configuration_by_name(self, name: str) -> SystemConfiguration | None:
        """A system variable that was set."""

    def get_system_object_mapping_by_key(self, key: pb.SystemObjectMappingKey) -> SystemObjectMapping | None:
        """A builtin object with its identifier and fingerprint."""

    def get_system_privileges_by_key(self, key: pb.SystemPrivilegesKey) -> SystemPrivileges | None:
        """A privilege on the system."""

    def get_timestamp_by_timeline(self, timeline: str) -> Timestamp | None:
        """The timestamp of a timeline."""

    def deploy_generation(self) -> int | None:
        """The generation of the deployment that last took over."""

    def format_version(self) -> int:
        """The version of the stored format: after opening, always the current one."""

    def tombstone(self) -> bool | None:
        """Whether this store is retired."""

    # Writing

    def transaction(self) -> CatalogTransaction:
        """Begin a transaction; a second one while it lives is refused."""

    def commit_transaction(self, transaction: CatalogTransaction) -> None:
        """Make all changes of the transaction durable, at once, or none."""

    def set_objects(self, kind: str, objects: Sequence[Object[Any, Any]]) -> None:
        """Insert or overwrite objects of one kind in one write."""

    def set_system_object_mapping(self, mappings: Sequence[SystemObjectMapping]) -> None:
        """Store builtin objects' identifiers and fingerprints."""

    def set_cluster_introspection_source_indexes(self, indexes: Sequence[IntrospectionSourceIndex]) -> None:
        """Store introspection source indexes."""

    def set_cluster_replica(self, replica: ClusterReplica) -> None:
        """Store a replica's configuration."""

    def set_config(self, key: str, value: int | None) -> None:
        """Store or remove a config entry."""

    def set_deploy_generation(self, generation: int) -> None:
        """Store the deploy generation; it never goes down."""

    def set_setting(self, name: str, value: str | None) -> None:
        """Store or remove a setting of the catalog itself."""

    def set_system_configuration(self, name: str, value: str | None) -> None:
        """Store or remove a system variable."""

    def set_timestamp(self, timeline: str, ts_ms: int) -> None:
        """Store the timestamp of a timeline."""

    def set_tombstone(self, retired: bool) -> None:
        """Say whether this store is retired."""

    def allocate_id(self, allocator: str, amount: int = 1) -> list[int]:
        """Take identifiers that nobody else ever gets."""

    def append_audit_log(self, events: Sequence[pb.AuditLogValue]) -> list[int]:
        """Record audit events; returns the identifiers that they got."""

    def append_storage_usage(self, usages: Sequence[pb.StorageUsageValue]) -> list[int]:
        """Record storage usage; returns the identifiers that the events got."""

    def prune_storage_usage(self, before_ms: int) -> int:
        """Remove storage usage collected before a time; returns how many events went."""

    # The whole

    def confirm_leadership(self) -> None:
        """Ask the store, linearized, whether this opener is still the one."""

    def content_version(self) -> int:
        """A number that grows exactly when the contents change: opening alone does not move it."""

    def snapshot(self) -> Iterator[Row]:
        """Every row of the contents, as stored, in one consistent state."""

    def snapshot_unconsolidated(self) -> Iterator[Update]:
        """Every update that the store still holds, of the contents and the store's own config."""

    def digests(self) -> dict[str, Digest]:
        """A digest of the contents per collection, equal on every store that holds the same."""

    def metrics(self) -> list[CollectionMetrics]:
        """Rows and bytes per collection."""

    def dump(self) -> str:
        """The whole catalog as JSON for people."""

    def subscribe(self) -> Subscription:
        """Follow changes from here on, in commit order."""

    # The handle

    def close(self) -> None:
        """Let go of the store. The catalog stays as it is; nothing is fenced by it."""

    def __enter__(self) -> DurableCatalogState: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

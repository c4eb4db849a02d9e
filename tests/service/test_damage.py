"""A log that cannot be read: a named error, nothing applied, nothing written."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest

from hermit.errors import CorruptData
from hermit.service import errors
from hermit.service.clock import hybrid
from hermit.service.commands import CreateSchema
from hermit.service.entries import DropEntry
from hermit.service.manager import CatalogManager
from hermit.service.update import VersionedUpdate
from tests.service.conftest import Cluster
from tests.service.test_manager import raw


def put(node: CatalogManager, key: str, data: bytes | None) -> None:
    """Write a row of the log past the service."""
    assert node._link.log is not None
    node._link.log.state.content_version()
    node._link.log.transact(lambda log: log.set(key, data))


def append_raw(node: CatalogManager, data: bytes) -> None:
    """Append bytes as the next version, as a node of another release might."""
    version = node.catalog_latest().version + 1
    put(node, f"catalog.update.{version}", data)
    put(node, "catalog.version", version.to_bytes(8, "big"))


def valid(node: CatalogManager) -> bytes:
    latest = node.catalog_latest()
    update = VersionedUpdate(latest.version + 1, hybrid(2**40), (DropEntry(2),))
    return node.marshaller.marshal(update)


DAMAGES: dict[str, tuple[Callable[[bytes], bytes], type[errors.WireError]]] = {
    "protocol": (lambda data: b"\0\x09" + data[2:], errors.UnsupportedProtocol),
    "type": (lambda data: data[:2] + b"\x7f\xff" + data[4:], errors.UnknownObjectType),
    "future": (lambda data: data[:4] + b"\x7f" + data[5:], errors.SerializerFromTheFuture),
    "truncated": (lambda data: data[:-9], errors.MalformedBytes),
    "short": (lambda data: data[:3], errors.Truncated),
    "flipped": (lambda data: data[:20] + bytes([data[20] ^ 1]) + data[21:], errors.MalformedBytes),
}


@pytest.mark.row("I-41")
@pytest.mark.parametrize("damage", DAMAGES)
def test_bytes_that_cannot_be_read_stop_every_node_and_change_nothing(
    stash_cluster: Cluster, damage: str
) -> None:
    node, other = stash_cluster.node(), stash_cluster.node()
    spoil, error = DAMAGES[damage]
    append_raw(node, spoil(valid(node)))
    before = raw(node)
    ready = other.catalog_ready(2)
    executed = other.execute(CreateSchema(name="s"))
    for each in (node, other):
        each.step()
        assert isinstance(each.trouble, error)
        assert each.catalog_latest().version == 1
        assert each.catalog_at(1).schema("public") is not None
    for future in (ready, executed, other.execute(CreateSchema(name="s")), other.catalog_ready(2)):
        with pytest.raises(error):
            future.result(0)  # type: ignore[attr-defined]
    assert raw(node) == before


def test_a_late_joiner_stops_at_the_same_version(stash_cluster: Cluster) -> None:
    node = stash_cluster.node()
    append_raw(node, b"\0\x09")
    late = joining(stash_cluster)
    assert isinstance(late._failure, errors.UnsupportedProtocol)
    assert late.catalog_latest().version == 1
    late.stop()


def test_bytes_that_changed_in_the_store_are_found(stash_cluster: Cluster, database_url: str) -> None:
    node = stash_cluster.node()
    stash_cluster.result(node.execute(CreateSchema(name="unmistakable")))
    with psycopg.connect(database_url) as connection:
        tables = connection.execute(
            "SELECT table_schema, table_name FROM information_schema.columns "
            "WHERE column_name = 'diff' AND table_schema LIKE 'hermit%'"
        ).fetchall()
        changed = [
            connection.execute(
                psycopg.sql.SQL(
                    "UPDATE {} SET value = set_byte(value, 30, 255 - get_byte(value, 30)) "
                    "WHERE position('unmistakable'::bytea in value) > 0"
                ).format(psycopg.sql.Identifier(*names))
            ).rowcount
            for names in tables
        ]
    assert sum(changed) == 1
    late = joining(stash_cluster)
    assert isinstance(late._failure, CorruptData)
    late.stop()


def joining(cluster: Cluster) -> CatalogManager:
    """A node that finds the log, and fails."""
    late = CatalogManager(cluster.home())
    for _ in range(200):
        late.step()
        if late._failure is not None:
            break
    return late


@pytest.mark.parametrize(
    ("key", "data"),
    [
        ("catalog.update.1", None),
        ("catalog.version", b"\0" * 7),
        ("catalog.version", (99).to_bytes(8, "big")),
        ("catalog.snapshot.version", (1).to_bytes(8, "big")),
        ("catalog.snapshot.version", (5).to_bytes(8, "big")),
        ("catalog.readers", b"[]"),
    ],
    ids=str,
)
def test_keys_that_do_not_fit_together_are_found_at_recovery(
    stash_cluster: Cluster, key: str, data: bytes | None
) -> None:
    node = stash_cluster.node()
    put(node, key, data)
    late = joining(stash_cluster)
    assert isinstance(late._failure, CorruptData)
    assert late.catalog_latest().version <= 1
    late.stop()


def test_a_log_that_went_back_or_another_way_is_not_followed(stash_cluster: Cluster) -> None:
    node, other = stash_cluster.node(), stash_cluster.node()
    stash_cluster.result(node.execute(CreateSchema(name="s")))
    other.step()
    put(node, "catalog.version", (1).to_bytes(8, "big"))
    node._is_adopted = False
    node.step()
    assert isinstance(node.trouble, errors.LogDamaged)
    put_other = VersionedUpdate(2, hybrid(2**40), (DropEntry(2),))
    put(other, "catalog.update.2", other.marshaller.marshal(put_other))
    put(other, "catalog.version", (2).to_bytes(8, "big"))
    other._is_adopted = False
    other.step()
    assert isinstance(other.trouble, errors.LogDamaged)
    assert other.catalog_latest().schema("s") is not None

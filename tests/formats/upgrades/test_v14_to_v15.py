"""v14 to v15: JSON becomes protobuf with the same contents."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hermit.errors import CorruptData
from hermit.formats import config
from hermit.formats.gen import objects_v15_pb2 as v15
from hermit.formats.upgrades.v14_to_v15 import upgrade
from hermit.rows import Row
from tests.formats import frozen
from tests.formats.store import MemoryStore


def _store(*rows: tuple[str, Any, Any]) -> MemoryStore:
    encoded = [Row(name, json.dumps(key).encode(), json.dumps(value).encode()) for name, key, value in rows]
    return _raw(*encoded)


def _raw(*rows: Row) -> MemoryStore:
    version = Row("config", config.encode_key(config.USER_VERSION), config.encode_value(14))
    return MemoryStore([version, *rows])


def _upgraded(store: MemoryStore) -> list[Any]:
    store.upgrade(arms=lambda version, build: upgrade if version == 14 else None)
    return [frozen.parse(15, row) for row in sorted(store.rows()) if row.collection != "config"]


@pytest.mark.row("F-43")
def test_an_item_keeps_all_its_contents() -> None:
    value = {
        "schema_id": "s3",
        "name": "späti",
        "item_type": 2,
        "create_sql": "CREATE VIEW späti AS SELECT 1",
        "oid": 4_294_967_295,
        "privileges": [{"grantee": "p", "grantor": "u2", "acl_mode": 2**63}],
    }
    ((key, item),) = _upgraded(_store(("items", {"gid": "u1"}, value)))
    acl = v15.AclItem(
        grantee=v15.RoleId(public=v15.Unit()), grantor=v15.RoleId(user=2), mode=v15.AclMode(bits=2**63)
    )
    assert key == v15.ItemKey(id="u1")
    assert item == v15.ItemValue(
        schema_id=v15.SchemaId(system=3),
        name="späti",
        item_type=2,
        create_sql="CREATE VIEW späti AS SELECT 1",
        oid=4_294_967_295,
        privileges=[acl],
    )


def test_a_missing_optional_field_gets_what_version_14_took_for_it() -> None:
    ((_, cluster),) = _upgraded(_store(("clusters", {"id": "u1"}, {"name": "c", "variant": 0})))
    assert cluster == v15.ClusterValue(name="c")
    replica = {"cluster_id": "u1", "name": "r", "managed": {"size": "s"}, "logging": None}
    ((_, new),) = _upgraded(_store(("cluster_replicas", {"id": "u1"}, replica)))
    assert new.HasField("logging")
    assert not new.logging.HasField("interval_us")


def test_json_in_another_order_and_with_spaces_is_read_and_retracted_as_it_was() -> None:
    odd = Row("settings", b'{ "system_variable": false, "name":"a" }', b' {"value" : "1"}\n')
    store = _raw(odd)
    _upgraded(store)
    assert (odd, -1) in store.writes[0]


@pytest.mark.parametrize(
    ("collection", "key", "value"),
    [
        ("settings", b"{", b'{"value":"1"}'),
        ("settings", b'{"name":"a"}', b"\xff\xfe"),
        ("settings", b'{"name":"a"}', b"[" * 100_000),
        ("settings", b'{"name":"a"}', b'{"value":1}'),
        ("settings", b'{"name":"a"}', b"{}"),
        ("settings", b'{"name":"a","nickname":"b"}', b'{"value":"1"}'),
        ("settings", b'"a"', b'{"value":"1"}'),
        ("id_allocators", b'{"name":"a"}', b'{"next_id":-1}'),
        ("id_allocators", b'{"name":"a"}', b'{"next_id":18446744073709551616}'),
        ("id_allocators", b'{"name":"a"}', b'{"next_id":true}'),
        ("id_allocators", b'{"name":"a"}', b'{"next_id":1.0}'),
        ("databases", b'{"id":"x1"}', b'{"name":"d","oid":1}'),
        ("databases", b'{"id":"u99999999999999999999"}', b'{"name":"d","oid":1}'),
        ("databases", b'{"id":"u1"}', b'{"name":"d","oid":4294967296}'),
        ("databases", b'{"id":"u1"}', b'{"name":"\\ud800","oid":1}'),
        (
            "audit_log",
            b'{"id":1}',
            b'{"event_type":"create","object_type":"table","occurred_at":1,"details":{}}',
        ),
        (
            "audit_log",
            b'{"id":1}',
            b'{"event_type":"sing","object_type":"table","occurred_at":1,"details":{}}',
        ),
        ("cluster_replicas", b'{"id":"u1"}', b'{"cluster_id":"u1","name":"r"}'),
    ],
)
def test_what_is_no_object_of_version_14_is_refused(collection: str, key: bytes, value: bytes) -> None:
    store = _raw(Row(collection, key, value))
    before = store.rows()
    with pytest.raises(CorruptData) as failure:
        _upgraded(store)
    assert failure.value.facts["collection"] == collection
    assert store.rows() == before

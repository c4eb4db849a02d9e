"""Generated facts in the shape of earlier versions, one version back at a time.

This is the inverse of the steps where they have one, and a plausible object where they do not (an owner
is simply forgotten). It is only used to make old catalogs; no stored catalog is ever taken back.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from hermit.formats.generate_facts import Fact, Fields
from hermit.rows import Row

_OWNED = frozenset({"clusters", "cluster_replicas", "databases", "schemas", "items"})
_OBJECT_TYPES = [
    "table",
    "view",
    "materialized_view",
    "source",
    "sink",
    "index",
    "type",
    "function",
    "secret",
    "connection",
    "role",
    "cluster",
    "cluster_replica",
    "database",
    "schema",
]
_EVENT_TYPES = ["create", "drop", "alter", "grant", "revoke"]


def _to_v20(fact: Fact) -> Fact:
    if fact.collection == "audit_log" and "alter_item_cluster" in fact.value:
        value = dict(fact.value)
        event = value.pop("alter_item_cluster")
        value["item"] = {"id": event["id"], "name": event["name"]}
        return fact._replace(value=value)
    return fact


def _to_v19(fact: Fact) -> Fact:
    if fact.collection == "system_configurations":
        return Fact("settings", fact.key | {"system_variable": True}, fact.value)
    return fact


def _to_v18(fact: Fact) -> Fact:
    return fact._replace(key={"id": _text(fact.key["gid"])}) if fact.collection == "items" else fact


def _to_v17(fact: Fact) -> Fact:
    if fact.collection == "items":
        return fact._replace(value=fact.value | {"item_type": fact.value["item_type"] - 1})
    if fact.collection == "clusters":
        value = dict(fact.value)
        value.pop("unmanaged", None)
        managed = value.pop("managed", None)
        return fact._replace(value=value | ({"variant": 0} if managed is None else {"variant": 1, **managed}))
    return fact


def _to_v16(fact: Fact) -> Fact:
    if fact.collection != "roles":
        return fact
    value = dict(fact.value)
    bits = value.pop("permissions")
    names = ("inherit", "create_role", "create_db", "create_cluster")
    value["attributes"] = {name: bool(bits >> position & 1) for position, name in enumerate(names)}
    return fact._replace(value=value)


def _to_v15(fact: Fact) -> Fact:
    if fact.collection not in _OWNED:
        return fact
    return fact._replace(value={name: field for name, field in fact.value.items() if name != "owner_id"})


EARLIER: Mapping[int, Callable[[Fact], Fact]] = {
    21: _to_v20,
    20: _to_v19,
    19: _to_v18,
    18: _to_v17,
    17: _to_v16,
    16: _to_v15,
}
"""From the shape of a version to the one before it. Versions that are not here changed no facts;
version 14 differs from 15 in `to_json` alone."""


def to_json(fact: Fact) -> Row | None:
    """A fact in the shape of version 15 as a row of version 14, which had no update log."""
    if fact.collection == "update_log":
        return None
    key, value = _plain(fact.key), _plain(fact.value)
    if rename := _RENAMED.get(fact.collection):
        rename(key, value)
    return Row(fact.collection, _dump(key), _dump(value))


def _dump(obj: Any) -> bytes:
    return json.dumps(obj, sort_keys=True, separators=(",", ":")).encode()


def _text(identifier: Fields) -> str:
    ((namespace, number),) = identifier.items()
    return "p" if namespace == "public" else f"{namespace[0]}{number}"


def _plain(obj: Any) -> Any:
    """Identifiers as text, sets of privileges as numbers, everything else as it is."""
    if isinstance(obj, list):
        return [_plain(element) for element in obj]
    if not isinstance(obj, dict):
        return obj
    if obj.keys() == {"bits"}:
        return obj["bits"]
    if len(obj) == 1 and obj.keys() <= {"system", "user", "public"}:
        return _text(obj)
    return {name: _plain(value) for name, value in obj.items()}


def _acl(value: Fields) -> None:
    for item in value.get("privileges", []):
        item["acl_mode"] = item.pop("mode")


def _audit_log(key: Fields, value: Fields) -> None:
    value["event_type"] = _EVENT_TYPES[value["event_type"] - 1]
    value["object_type"] = _OBJECT_TYPES[value["object_type"] - 1]
    value["occurred_at"] = value.pop("occurred_at_ms")
    kinds = ("id_name", "item", "rename_item", "replica", "privilege")
    value["details"] = {name: value.pop(name) for name in kinds if name in value}


def _with_acl(key: Fields, value: Fields) -> None:
    _acl(value)


def _typed_key(key: Fields, value: Fields) -> None:
    key["object_type"] = _OBJECT_TYPES[key["object_type"] - 1]


def _items(key: Fields, value: Fields) -> None:
    key["gid"] = key.pop("id")
    _acl(value)


def _roles(key: Fields, value: Fields) -> None:
    value.update(value.pop("attributes"))
    value["membership"] = value["membership"]["entries"]


def _storage_usage(key: Fields, value: Fields) -> None:
    value["collected_at"] = value.pop("collected_at_ms")


def _timestamps(key: Fields, value: Fields) -> None:
    value["ts"] = value.pop("ts_ms")


_RENAMED: Mapping[str, Callable[[Fields, Fields], None]] = {
    "audit_log": _audit_log,
    "clusters": _with_acl,
    "databases": _with_acl,
    "default_privileges": _typed_key,
    "items": _items,
    "roles": _roles,
    "schemas": _with_acl,
    "storage_usage": _storage_usage,
    "system_object_mappings": _typed_key,
    "timestamps": _timestamps,
}

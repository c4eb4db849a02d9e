"""What a catalog of each version must be after the upgrade, written down without looking at the steps.

The oracle works on JSON, not on messages, and goes from a version to the current one in a single jump:
for every change it asks whether the version is from before it. It shares no code with the upgrades.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from google.protobuf import json_format

from hermit.formats import config
from hermit.formats.versions import STASH_VERSION
from hermit.rows import Row
from tests.formats import frozen

_OWNED = ("clusters", "cluster_replicas", "databases", "schemas", "items")
_ITEM_TYPES = (
    "TABLE VIEW MATERIALIZED_VIEW SOURCE SINK INDEX TYPE FUNCTION SECRET CONNECTION".split()  # noqa: SIM905
)


def expected(version: int, rows: Iterable[Row]) -> list[str]:
    """The upgraded catalog, as sorted lines of JSON."""
    plain = [list(frozen.plain_row(version, row)) for row in rows if row.collection != "config"]
    if version == 14:
        plain = [[name, *_from_json(name, key, value)] for name, key, value in plain]
    if version < 16:
        _give_owners(plain)
    for entry in plain:
        name, key, value = entry
        if version < 17 and name == "roles":
            value |= _nonzero("permissions", _bits(value.pop("attributes", {})))
        if version < 18 and name == "items":
            value["item_type"] = f"ITEM_TYPE_{_ITEM_TYPES[int(value.get('item_type', 0))]}"
        if version < 18 and name == "clusters":
            _give_variant(value)
        if version < 19 and name == "items":
            entry[1] = {"gid": _id(key["id"])}
        if version < 20 and name == "settings" and key.pop("system_variable", False):
            entry[0] = "system_configurations"
    plain += [list(frozen.plain_row(STASH_VERSION, row)) for row in _config(rows)]
    return sorted(json.dumps(entry, sort_keys=True) for entry in plain)


def _config(rows: Iterable[Row]) -> list[Row]:
    version = config.encode_key(config.USER_VERSION)
    return [
        row._replace(value=config.encode_value(STASH_VERSION)) if row.key == version else row
        for row in rows
        if row.collection == "config"
    ]


def _give_owners(plain: list[list[Any]]) -> None:
    users = [int(key["id"]["user"]) for name, key, _ in plain if name == "roles" and "user" in key["id"]]
    user = {"user": str(min(users))} if users else {"system": "1"}
    for name, key, value in plain:
        if name in _OWNED:
            is_system = key["id"].startswith("s") if name == "items" else "system" in key["id"]
            value["owner_id"] = {"system": "1"} if is_system else user


def _bits(attributes: dict[str, bool]) -> int:
    names = ["inherit", "create_role", "create_db", "create_cluster"]
    return sum(2 ** names.index(name) for name, is_set in attributes.items() if is_set)


def _give_variant(value: dict[str, Any]) -> None:
    is_managed = value.pop("variant", "0") == "1"
    settings = {
        name: value.pop(name)
        for name in ("size", "replication_factor", "availability_zones")
        if name in value
    }
    value["managed" if is_managed else "unmanaged"] = settings if is_managed else {}


def _nonzero(name: str, number: int) -> dict[str, str]:
    return {name: str(number)} if number else {}


def _id(text: str) -> Any:
    if text == "p":
        return {"public": {}}
    return {{"s": "system", "u": "user"}[text[0]]: str(int(text[1:]))}


# ---- version 14: the same objects, as protobuf's JSON shows them ----

_IDS = {"grantee", "grantor", "role", "role_id", "schema_id", "database_id", "cluster_id"}
_RENAMED = {"ts": "ts_ms", "collected_at": "collected_at_ms", "occurred_at": "occurred_at_ms", "gid": "id"}
_WITH_IDS = ("clusters", "cluster_replicas", "databases", "roles", "schemas")


def _from_json(name: str, key: Any, value: Any) -> tuple[Any, Any]:
    if name in _WITH_IDS:
        key = {"id": _id(key["id"])}
    if name == "audit_log":
        value |= value.pop("details")
        value["event_type"] = f"EVENT_TYPE_{value['event_type'].upper()}"
    if name == "roles":
        names = ("inherit", "create_role", "create_db", "create_cluster")
        value["attributes"] = {each: value.pop(each) for each in names}
        value["membership"] = {"entries": value.get("membership", [])}
    if name == "cluster_replicas":
        value.setdefault("logging", {})
    if name in ("default_privileges", "system_privileges"):
        value["privileges"] = {"bits": value["privileges"]}
    # Reading and printing it as protobuf leaves out what holds its default.
    return tuple(
        frozen.plain(json_format.ParseDict(_convert(obj, name), message()))
        for obj, message in zip((key, value), frozen.types(15)[name], strict=True)
    )


def _convert(obj: Any, name: str) -> Any:
    if isinstance(obj, list):
        return [_convert(element, name) for element in obj]
    if not isinstance(obj, dict):
        return obj
    new = {}
    for field, value in obj.items():
        if field == "acl_mode":
            new["mode"] = {"bits": value}
        elif field == "object_type":
            new[field] = f"OBJECT_TYPE_{value.upper()}"
        elif field in _IDS and name != "audit_log":
            new[field] = _id(value)
        else:
            new[_RENAMED.get(field, field)] = _convert(value, name)
    return new

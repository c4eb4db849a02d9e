"""Random catalogs of every version, derived from the frozen descriptors (and, for 14, from the dataclasses).

Messages are complete in the sense of `hermit.formats.complete`; everything else is as wild as protobuf
allows. Only where an old format hid a meaning in text or numbers does a strategy know more than the
descriptor: see `_meant`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from hypothesis import strategies as st

from hermit.formats import config, legacy_json_objects
from hermit.formats.collections import MESSAGES
from hermit.rows import Row
from tests.formats import frozen

TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
U64 = st.integers(0, 2**64 - 1) | st.integers(0, 300)
U32 = st.integers(0, 2**32 - 1)
NUMBERED = st.builds("{}{}".format, st.sampled_from("su"), U64)
ROLE = NUMBERED | st.just("p")

_SCALARS: dict[int, st.SearchStrategy[Any]] = {
    FieldDescriptor.TYPE_STRING: TEXT,
    FieldDescriptor.TYPE_BYTES: st.binary(max_size=40),
    FieldDescriptor.TYPE_UINT64: U64,
    FieldDescriptor.TYPE_UINT32: U32,
    FieldDescriptor.TYPE_BOOL: st.booleans(),
}


def _meant(message: Descriptor, field: str) -> st.SearchStrategy[Any] | None:
    """What text and numbers of versions 15 to 18 were allowed to be."""
    version = int(message.file.package.rpartition("_v")[2])
    if (message.name, field) == ("ItemKey", "id"):
        return NUMBERED
    if version < 18 and (message.name, field) == ("ItemValue", "item_type"):
        return st.integers(0, 9)
    if version < 18 and (message.name, field) == ("ClusterValue", "variant"):
        return st.integers(0, 1)
    return None


def fields_of(message: Descriptor) -> st.SearchStrategy[dict[str, Any]]:
    """Arguments for the constructor of a complete message."""
    required: dict[str, st.SearchStrategy[Any]] = {}
    optional: dict[str, st.SearchStrategy[Any]] = {}
    oneofs = [oneof for oneof in message.oneofs if oneof.name != f"_{oneof.fields[0].name}"]
    in_oneof = {field.name for oneof in oneofs for field in oneof.fields}
    for field in message.fields:
        if field.name == "checksum" or field.name in in_oneof:
            continue
        meant = _meant(message, field.name)
        one = _field(field) if meant is None else meant
        if field.is_repeated:
            required[field.name] = st.lists(one, max_size=3)
        else:
            (optional if field.containing_oneof else required)[field.name] = one
    whole = st.fixed_dictionaries(required, optional=optional)
    for oneof in oneofs:
        arm = st.one_of(
            [_field(field).map(lambda value, name=field.name: {name: value}) for field in oneof.fields]
        )
        whole = st.builds(dict.__or__, whole, arm)
    return whole


def _field(field: FieldDescriptor) -> st.SearchStrategy[Any]:
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        return fields_of(field.message_type)
    if field.type == FieldDescriptor.TYPE_ENUM:
        return st.sampled_from([value.number for value in field.enum_type.values if value.number])
    return _SCALARS[field.type]


def messages(message: type[Message]) -> st.SearchStrategy[Message]:
    """Complete messages of a type of any version."""
    return fields_of(message.DESCRIPTOR).map(lambda fields: message(**fields))


@cache
def catalogs(version: int, max_rows: int = 3) -> st.SearchStrategy[list[Row]]:
    """Rows of a catalog with unique keys, including its version."""
    collections = _json_collections(max_rows) if version < 15 else _proto_collections(version, max_rows)
    own = Row("config", config.encode_key(config.USER_VERSION), config.encode_value(version))
    return st.tuples(*collections).map(lambda each: [own, *(row for rows in each for row in rows)])


def _proto_collections(version: int, max_rows: int) -> list[st.SearchStrategy[list[Row]]]:
    def rows(name: str, key: type[Message], value: type[Message]) -> st.SearchStrategy[list[Row]]:
        row = st.builds(lambda k, v: frozen.row(name, k, v), messages(key), messages(value))
        return st.lists(row, max_size=max_rows, unique_by=lambda row: row.key)

    return [rows(name, key, value) for name, (key, value) in frozen.types(version).items()]


# ---- version 14 ----

_LEGACY_NAMES: dict[str, st.SearchStrategy[Any]] = {
    "cluster_id": NUMBERED,
    "database_id": NUMBERED,
    "schema_id": NUMBERED,
    "gid": NUMBERED,
    "grantee": ROLE,
    "grantor": ROLE,
    "role": ROLE,
    "role_id": ROLE,
    "oid": U32,
    "replication_factor": U32,
    "item_type": st.integers(0, 9),
    "variant": st.integers(0, 1),
    "event_type": st.sampled_from(["create", "drop", "alter", "grant", "revoke"]),
    "object_type": st.sampled_from(["table", "materialized_view", "cluster_replica", "schema", "role"]),
}
_PRIMITIVES: dict[Any, st.SearchStrategy[Any]] = {str: TEXT, int: U64, bool: st.booleans()}


def _legacy(cls: Any) -> st.SearchStrategy[Any]:
    hints = get_type_hints(cls)
    fields = {}
    for field in dataclasses.fields(cls):
        named = (
            NUMBERED if field.name == "id" and cls.__name__.endswith("Key") else _LEGACY_NAMES.get(field.name)
        )
        if cls.__name__ == "RoleKey":
            named = ROLE
        fields[field.name] = _hinted(hints[field.name], named)
    return st.builds(cls, **fields).filter(_EXACTLY_ONE.get(cls.__name__, lambda obj: True))


def _hinted(hint: Any, named: st.SearchStrategy[Any] | None) -> st.SearchStrategy[Any]:
    if isinstance(hint, UnionType):
        (inner,) = (arg for arg in get_args(hint) if arg is not NoneType)
        return st.none() | _hinted(inner, named)
    if get_origin(hint) is list:
        return st.lists(_hinted(get_args(hint)[0], None), max_size=3)
    if dataclasses.is_dataclass(hint):
        return _legacy(hint)
    return (
        named
        if named is not None and hint in (str, int) and not (hint is int and named is NUMBERED)
        else _PRIMITIVES[hint]
    )


def _one_of(*names: str) -> Callable[[Any], bool]:
    return lambda obj: sum(getattr(obj, name) is not None for name in names) == 1


_EXACTLY_ONE: dict[str, Callable[[Any], bool]] = {
    "EventDetails": _one_of("id_name", "item", "rename_item", "replica", "privilege"),
    "ClusterReplicaValue": _one_of("managed", "unmanaged"),
}


def _json_collections(max_rows: int) -> list[st.SearchStrategy[list[Row]]]:
    found = []
    for name, stem in MESSAGES.items():
        key, value = (getattr(legacy_json_objects, stem + part, None) for part in ("Key", "Value"))
        if key is not None:
            found.append(_json_rows(name, _legacy(key), _legacy(value), max_rows))
    return found


def _json_rows(
    name: str, keys: st.SearchStrategy[Any], values: st.SearchStrategy[Any], max_rows: int
) -> st.SearchStrategy[list[Row]]:
    write = legacy_json_objects.write
    row = st.builds(lambda key, value: Row(name, write(key), write(value)), keys, values)
    return st.lists(row, max_size=max_rows, unique_by=lambda row: _JSON_IDENTITY.get(name, bytes)(row.key))


# `{"name": "a"}` and `{"name": "a", "system_variable": false}` are the same setting.
_JSON_IDENTITY: dict[str, Callable[[bytes], bytes]] = {
    "settings": lambda key: key.replace(b',"system_variable":false', b"")
}

"""The frozen versions as tests see them: every message type of every version, read and written plainly.

Written apart from the package's own frame and codec, so that a mistake there cannot hide here.
"""

from __future__ import annotations

import importlib
import json
from binascii import crc32
from functools import cache
from types import ModuleType
from typing import Any

from google.protobuf import json_format
from google.protobuf.message import Message

from hermit.formats.collections import MESSAGES
from hermit.formats.layout import Layout
from hermit.rows import Row

PROTO_VERSIONS = tuple(Layout.here().snapshots())


@cache
def module(version: int) -> ModuleType:
    return importlib.import_module(f"hermit.formats.gen.objects_v{version}_pb2")


@cache
def types(version: int) -> dict[str, tuple[type[Message], type[Message]]]:
    """Collection to its key and value type, config left out: it has an encoding of its own."""
    found = module(version)
    return {
        name: (getattr(found, f"{stem}Key"), getattr(found, f"{stem}Value"))
        for name, stem in MESSAGES.items()
        if name != "config" and hasattr(found, f"{stem}Key")
    }


def seal(message: Message) -> bytes:
    body = message.SerializeToString(deterministic=True) + b"\x7d"
    return body + crc32(body).to_bytes(4, "little")


def unseal(data: bytes) -> bytes:
    assert data[-5] == 0x7D
    assert crc32(data[:-4]) == int.from_bytes(data[-4:], "little")
    return data[:-5]


def row(collection: str, key: Message, value: Message) -> Row:
    return Row(collection, seal(key), seal(value))


def parse(version: int, row: Row) -> tuple[Message, Message]:
    key, value = types(version)[row.collection]
    return key.FromString(unseal(row.key)), value.FromString(unseal(row.value))


def plain(message: Message) -> dict[str, Any]:
    return json_format.MessageToDict(message, preserving_proto_field_name=True)


def plain_row(version: int, row: Row) -> tuple[str, Any, Any]:
    """A row of any version as JSON; fields that hold their default are left out."""
    if row.collection == "config":
        return "config", row.key.hex(), row.value.hex()
    if version < 15:
        return row.collection, json.loads(row.key), json.loads(row.value)
    key, value = parse(version, row)
    return row.collection, plain(key), plain(value)


def canonical(version: int, rows: Any) -> list[str]:
    """Rows of a version as sorted lines of JSON, to compare."""
    return sorted(json.dumps(plain_row(version, row), sort_keys=True) for row in rows)

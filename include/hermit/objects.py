"""The kinds of objects that a catalog stores: seventeen of the durable catalog, and the update log.

A kind is a collection with one message for the key and one for the value. Importing this module is
cheap: the generated messages, and protobuf with them, are imported when `key` or `value` is first asked
for. Tags are part of the format of the shard: a tag is never given to another kind.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from hermit.formats.collections import APPEND_ONLY, COLLECTIONS, MESSAGES, UNCACHED

if TYPE_CHECKING:
    from google.protobuf.message import Message


@dataclass(frozen=True)
class Kind:
    """One kind of object, in the current version."""

    name: str
    tag: int
    append_only: bool
    cached: bool

    @property
    def key(self) -> type[Message]:
        return _message(f"{MESSAGES[self.name]}Key")

    @property
    def value(self) -> type[Message]:
        return _message(f"{MESSAGES[self.name]}Value")


def _message(name: str) -> type[Message]:
    found: type[Message] = getattr(importlib.import_module("hermit.formats.gen.objects_pb2"), name)
    return found


KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        name: Kind(name, tag, append_only=name in APPEND_ONLY, cached=name not in UNCACHED)
        for tag, name in enumerate(COLLECTIONS, start=1)
    }
)
"""Every kind by the name of its collection."""

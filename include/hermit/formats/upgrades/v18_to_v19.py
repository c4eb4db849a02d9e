"""The key of an item becomes a typed identifier instead of text.

Every reader parsed "u12" again, and not all of them alike: "u012" was another key for the same item. The
namespace is now an arm of a oneof and the number a number. Two keys that named the same item have the
same key from here on, which the uniqueness check reports. Only the key changes; values keep their bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from hermit.formats.actions import Action, Old, Update
from hermit.formats.errors import CannotConvert
from hermit.formats.gen import objects_v18_pb2 as v18
from hermit.formats.gen import objects_v19_pb2 as v19

_ID = re.compile(r"([su])([0-9]{1,20})")
_MAX_U64 = (1 << 64) - 1


def upgrade(old: Old) -> Iterator[Action]:
    """Parse the key of every item."""
    for item in old.messages("items", v18.ItemKey, v18.ItemValue):
        yield Update(item, key=v19.ItemKey(gid=_global_id(item.key.id)))


def _global_id(text: str) -> v19.GlobalId:
    match = _ID.fullmatch(text)
    number = int(match[2]) if match else _MAX_U64 + 1
    if match is None or number > _MAX_U64:
        raise CannotConvert("items", repr(text), "it is no identifier of an item")
    return v19.GlobalId(system=number) if match[1] == "s" else v19.GlobalId(user=number)

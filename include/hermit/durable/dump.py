"""A catalog as JSON for people: per kind, every key and value the way that `edit` and `delete` take them.

What cannot be read as the current format is still shown. The history may hold rows of older formats, and
a catalog that nobody upgraded yet holds nothing else: they are shown as their own version spells them,
with its number. Damaged bytes, which are what somebody dumps a catalog for, are shown as hex.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple

from google.protobuf import json_format
from google.protobuf.message import Message

from hermit.errors import CorruptData
from hermit.formats import codec, config, frame
from hermit.formats.collections import MESSAGES
from hermit.formats.complete import missing
from hermit.formats.versions import FIRST_PROTO_VERSION, STASH_VERSION
from hermit.rows import Update

Rows = Mapping[bytes, bytes]

UNDECODABLE = "$undecodable"
_JSON_VERSION = FIRST_PROTO_VERSION - 1


class Shown(NamedTuple):
    """A key or value as JSON, and the version that it is spelled in; None for bytes that mean nothing."""

    data: Any
    version: int | None


def dump_rows(rows: Mapping[str, Rows]) -> str:
    """Live rows by collection as JSON."""
    shown = {
        name: [row_to_json(name, key, value) for key, value in sorted(table.items())]
        for name, table in rows.items()
    }
    return json.dumps(shown, indent=2, ensure_ascii=False)


def row_to_json(collection: str, key: bytes, value: bytes) -> dict[str, Any]:
    """One row, ready to be handed back to `edit` and `delete`. An older format is named."""
    shown_key, shown_value = show(collection, "key", key), show(collection, "value", value)
    row = {"key": shown_key.data, "value": shown_value.data}
    versions = {shown_key.version, shown_value.version} - {STASH_VERSION, None}
    return {**row, "format": min(version for version in versions if version)} if versions else row


def update_to_json(update: Update) -> dict[str, Any]:
    """A row with its time and diff."""
    row = row_to_json(update.collection, update.key, update.value)
    return {**row, "time": update.time, "diff": update.diff}


def updates_by_collection(updates: Iterable[Update]) -> dict[str, list[Update]]:
    """Updates by collection, each in the order of time."""
    found: dict[str, list[Update]] = {}
    for update in updates:
        found.setdefault(update.collection, []).append(update)
    return {
        name: sorted(of_one, key=lambda update: (update.time, update.key, update.diff, update.value))
        for name, of_one in found.items()
    }


def show(collection: str, part: codec.Part, data: bytes) -> Shown:
    """The newest version in which these bytes are a whole object, and how it spells them."""
    try:
        message = codec.decoder(collection, part)(data)
    except CorruptData:
        return _show_older(collection, part, data)
    if collection == config.COLLECTION or _is_whole(message):
        return Shown(codec.to_json(collection, message), STASH_VERSION)
    return _show_older(collection, part, data)


def _show_older(collection: str, part: codec.Part, data: bytes) -> Shown:
    for version in range(STASH_VERSION - 1, FIRST_PROTO_VERSION - 1, -1):
        read = _reader(version, collection, part)
        if read is None:
            continue
        try:
            message = read(data)
        except CorruptData:
            break
        if _is_whole(message):
            return Shown(_to_json(message), version)
    try:
        return Shown(json.loads(data), _JSON_VERSION)
    except ValueError:
        return Shown({UNDECODABLE: data.hex()}, None)


@cache
def _reader(version: int, collection: str, part: codec.Part) -> Callable[[bytes], Message] | None:
    module = importlib.import_module(f"hermit.formats.gen.objects_v{version}_pb2")
    message = getattr(module, f"{MESSAGES[collection]}{part.capitalize()}", None)
    return None if message is None else frame.reader(message, collection, part)


def _is_whole(message: Message) -> bool:
    """Whether the message says all that the bytes do: complete, and without fields it does not know.

    Numbers of fields are never used twice, so that the bytes of one version cannot mean something else
    in another; they can only lack something there, or have something more.
    """
    if missing(message) is not None:
        return False
    known = type(message)()
    known.CopyFrom(message)
    known.DiscardUnknownFields()
    return known.ByteSize() == message.ByteSize()


def _to_json(message: Message) -> dict[str, Any]:
    shown: dict[str, Any] = json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    shown.pop("checksum", None)
    return shown

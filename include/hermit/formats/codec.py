"""Objects of the current version to stored bytes and back, and to JSON and back.

Encoding is deterministic and refuses incomplete messages; decoding refuses damaged bytes. JSON is the
standard mapping of protobuf with the field names of the proto: what `dump` prints, `edit` accepts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Literal

from google.protobuf import json_format
from google.protobuf.message import Message

from hermit.errors import InvalidInput
from hermit.formats import config, frame
from hermit.formats.complete import missing
from hermit.formats.gen import objects_pb2
from hermit.objects import KINDS, Kind

Part = Literal["key", "value"]


def encode_key(kind: Kind | str, message: Message) -> bytes:
    """The stored bytes of a key."""
    return _encode(_kind(kind), "key", message)


def encode_value(kind: Kind | str, message: Message) -> bytes:
    """The stored bytes of a value."""
    return _encode(_kind(kind), "value", message)


def decode_key(kind: Kind | str, data: bytes) -> Message:
    """The key in stored bytes."""
    return decoder(kind, "key")(data)


def decode_value(kind: Kind | str, data: bytes) -> Message:
    """The value in stored bytes."""
    return decoder(kind, "value")(data)


@cache
def decoder(kind: Kind | str, part: Part) -> Callable[[bytes], Message]:
    """The function that decodes keys or values of one kind; loops over many rows fetch it once."""
    kind = _kind(kind)
    if kind.name == config.COLLECTION:
        return _decode_config_key if part == "key" else _decode_config_value
    return frame.reader(_type(kind, part), kind.name, part)


def to_json(kind: Kind | str, message: Message) -> dict[str, Any]:
    """A message as JSON, with the field names of the proto. 64-bit numbers are strings, as in protobuf."""
    kind = _kind(kind)
    if type(message) not in (kind.key, kind.value):
        raise InvalidInput(f"{type(message).__name__} is neither key nor value of {kind.name}")
    obj: dict[str, Any] = json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    obj.pop("checksum", None)
    return obj


def from_json(kind: Kind | str, which: Part, obj: Any) -> Message:
    """The complete message that this JSON describes; unknown fields and wrong types are errors."""
    kind = _kind(kind)
    message = _type(kind, which)()
    if not isinstance(obj, dict):
        raise _refused(kind, which, f"a JSON object is needed, not {type(obj).__name__}")
    try:
        json_format.ParseDict(obj, message)
    except (json_format.ParseError, ValueError, TypeError) as error:
        raise _refused(kind, which, str(error)) from error
    _check_complete(kind, which, message)
    return message


def _encode(kind: Kind, part: Part, message: Message) -> bytes:
    if isinstance(message, objects_pb2.ConfigKey) and (kind.name, part) == (config.COLLECTION, "key"):
        return config.encode_key(message.key)
    if isinstance(message, objects_pb2.ConfigValue) and (kind.name, part) == (config.COLLECTION, "value"):
        return config.encode_value(message.value)
    if type(message) is not _type(kind, part):
        raise _refused(kind, part, f"{_type(kind, part).__name__} is needed, not {type(message).__name__}")
    _check_complete(kind, part, message)
    return frame.write(message)


def _check_complete(kind: Kind, part: Part, message: Message) -> None:
    if path := missing(message):
        reason = "the codec alone sets checksum" if path == "checksum" else f"{path} is not set"
        raise _refused(kind, part, reason)


def _decode_config_key(data: bytes) -> Message:
    return objects_pb2.ConfigKey(key=config.decode_key(data))


def _decode_config_value(data: bytes) -> Message:
    return objects_pb2.ConfigValue(value=config.decode_value(data))


def _kind(kind: Kind | str) -> Kind:
    if isinstance(kind, Kind):
        return kind
    if kind not in KINDS:
        raise InvalidInput(f"there is no collection {kind!r}", hint=f"one of {', '.join(KINDS)}")
    return KINDS[kind]


def _type(kind: Kind, part: Part) -> type[Message]:
    return kind.key if part == "key" else kind.value


def _refused(kind: Kind, part: Part, reason: str) -> InvalidInput:
    return InvalidInput(
        f"this is no {part} of {kind.name}: {reason}",
        hint="`hermit dump` shows objects as they must look",
        collection=kind.name,
        part=part,
    )

"""The config collection: the one encoding that no upgrade ever touches.

Config is read before anybody knows which format the rest of the catalog has: it says so itself, under
`user_version`. Its keys are strings, its values unsigned 64-bit numbers, booleans 0 and 1. The bytes are
those of the protobuf messages `ConfigKey{string key = 1}` and `ConfigValue{uint64 value = 1}`, in every
version, 14 included. They are written and checked by hand here, so that no generated code, and no change
to a proto, can alter them. Only the canonical encoding is accepted: anything else was not written here.

This module must never change.
"""

from __future__ import annotations

from typing import Final

from hermit.errors import CorruptData, InvalidInput

COLLECTION: Final = "config"
USER_VERSION: Final = "user_version"
TOMBSTONE: Final = "tombstone"
DEPLOY_GENERATION: Final = "deploy_generation"

_STRING_FIELD_1 = 0x0A
_VARINT_FIELD_1 = 0x08
_MAX_U64 = (1 << 64) - 1


def encode_key(key: str) -> bytes:
    """The bytes of a config key."""
    if not key:
        raise InvalidInput("a config key is not empty")
    try:
        text = key.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(f"config key {key!r} is not valid Unicode") from error
    return bytes([_STRING_FIELD_1]) + _varint(len(text)) + text


def decode_key(data: bytes) -> str:
    """The config key in these bytes."""
    if data[:1] != bytes([_STRING_FIELD_1]):
        raise _corrupt("key", data)
    length, start = _read_varint(data, 1, "key")
    if not length or len(data) != start + length:
        raise _corrupt("key", data)
    try:
        return data[start:].decode()
    except UnicodeDecodeError as error:
        raise _corrupt("key", data) from error


def encode_value(value: int) -> bytes:
    """The bytes of a config value."""
    if not 0 <= value <= _MAX_U64:
        raise InvalidInput(f"config value {value} is not an unsigned 64-bit number")
    return bytes([_VARINT_FIELD_1]) + _varint(value) if value else b""


def decode_value(data: bytes) -> int:
    """The config value in these bytes."""
    if not data:
        return 0
    if data[0] != _VARINT_FIELD_1:
        raise _corrupt("value", data)
    value, end = _read_varint(data, 1, "value")
    if not value or end != len(data):
        raise _corrupt("value", data)
    return value


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _read_varint(data: bytes, start: int, part: str) -> tuple[int, int]:
    """The number at `start` and where it ends; refuses padding, 65 bits and a missing end."""
    number = 0
    for position in range(start, min(len(data), start + 10)):
        byte = data[position]
        number |= (byte & 0x7F) << (7 * (position - start))
        if byte < 0x80:
            padded = byte == 0 and position > start
            if padded or number > _MAX_U64:
                break
            return number, position + 1
    raise _corrupt(part, data)


def _corrupt(part: str, data: bytes) -> CorruptData:
    return CorruptData(
        f"the bytes of a config {part} are damaged: {bytes(data[:64]).hex()}",
        hint="restore the catalog from a copy; nothing was changed",
        collection=COLLECTION,
        part=part,
        data=bytes(data),
    )

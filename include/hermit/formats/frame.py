"""How a message becomes stored bytes: deterministic protobuf that ends in its own checksum.

The last five bytes are field 15, a `fixed32`: the CRC-32 of everything before the four bytes of the
number itself. The whole is still one plain protobuf message, which any reader of the schema can decode.
A flipped or missing bit in a key or value is therefore an error, never another object; both stores have
page checksums of their own below this one. A CRC-32 followed by its own bytes has a constant CRC-32, so
that checking costs one call.

The frame is the same in every version since 15, so that steps of all versions share it. Config is not
framed (see `config.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar
from zlib import crc32

from google.protobuf.message import DecodeError, Message

from hermit.errors import CorruptData

M = TypeVar("M", bound=Message)

_TAG = bytes([15 << 3 | 5])
_TRAILER_BYTES = 5
_RESIDUE = 0x2144DF1C


def write(message: Message) -> bytes:
    """The stored bytes of a message: equal messages give equal bytes."""
    framed = message.SerializeToString(deterministic=True) + _TAG
    return framed + crc32(framed).to_bytes(4, "little")


def reader(message: type[M], collection: str, part: str) -> Callable[[bytes], M]:
    """A function that reads stored bytes of one type. The loop over 100,000 rows calls nothing else."""
    parse = message.FromString

    def read(data: bytes) -> M:
        if crc32(data) != _RESIDUE:
            raise corrupt(collection, part, data, "the checksum does not fit")
        try:
            return parse(data[:-_TRAILER_BYTES])
        except DecodeError as error:
            raise corrupt(collection, part, data, f"it is no {message.DESCRIPTOR.name}") from error

    return read


def corrupt(collection: str, part: str, data: bytes, reason: str) -> CorruptData:
    """The error for bytes that are not what was written."""
    return CorruptData(
        f"the bytes of a {part} in {collection} are damaged: {reason} ({bytes(data[:64]).hex()}...)",
        hint="restore the catalog from a copy; nothing was changed",
        collection=collection,
        part=part,
        data=bytes(data),
    )

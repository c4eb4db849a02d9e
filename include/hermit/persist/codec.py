"""Codecs: how keys and values of any type become bytes.

A collection stores bytes. What they mean is up to the codecs given to `create_or_load`, and so is
compatibility: a codec whose encoding changes must still decode what it wrote before. An encoding that may
change one day should begin with a version byte from the start.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

from hermit.errors import CorruptData

T = TypeVar("T")


class Codec(Protocol[T]):
    """Turns values into bytes and back. `decode` must understand every encoding that was ever written."""

    def encode(self, value: T) -> bytes: ...
    def decode(self, data: bytes) -> T: ...


class BytesCodec:
    """Bytes as they are."""

    def encode(self, value: bytes) -> bytes:
        return value

    def decode(self, data: bytes) -> bytes:
        return data


class StringCodec:
    """Text as UTF-8."""

    def encode(self, value: str) -> bytes:
        return value.encode()

    def decode(self, data: bytes) -> str:
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise CorruptData(f"stored text is not UTF-8: {error}") from error


class UnitCodec:
    """No value at all: for collections that are sets of keys."""

    def encode(self, value: tuple[()]) -> bytes:
        return b""

    def decode(self, data: bytes) -> tuple[()]:
        if data:
            raise CorruptData(f"stored value of {len(data)} bytes where there should be none")
        return ()

"""The bytes of the log, one field at a time.

Shorts and longs are big-endian; every other number is an unsigned LEB128 varint in its shortest form,
signed ones zigzag. Text and bytes carry their length. An object is a header, two bytes of type and one to
three of serializer version, and whatever its serializer writes; objects within it are written the same way.

Reading trusts nothing: every length is compared with what is left before anything is made from it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection
from enum import IntEnum
from typing import TYPE_CHECKING, Any, TypeVar
from zlib import crc32

from hermit.service.errors import MalformedBytes, Truncated

if TYPE_CHECKING:
    from hermit.service.marshallable import MarshallableEntry
    from hermit.service.wire.registry import SerializerRegistry

PROTOCOL_VERSION = 2
FIRST_PROTOCOL_VERSION = 1
"""Before serializers had versions: an object's header was its type alone, and all were at version 1."""

_SHORT = struct.Struct("!H")
_INT = struct.Struct("!I")
_LONG = struct.Struct("!Q")
_DOUBLE = struct.Struct("!d")
_VARINT_BYTES_MAX = 10
CHECKSUM_BYTES = 4

E = TypeVar("E", bound=IntEnum)
T = TypeVar("T")


class Output:
    """Bytes being written."""

    __slots__ = ("_registry", "buffer", "protocol")

    def __init__(self, registry: SerializerRegistry, protocol: int = PROTOCOL_VERSION) -> None:
        self.buffer = bytearray()
        self.protocol = protocol
        self._registry = registry

    def short(self, value: int) -> None:
        self.buffer += _SHORT.pack(value)

    def long(self, value: int) -> None:
        self.buffer += _LONG.pack(value)

    def double(self, value: float) -> None:
        self.buffer += _DOUBLE.pack(value)

    def flag(self, value: bool) -> None:
        self.buffer.append(value)

    def varint(self, value: int) -> None:
        buffer = self.buffer
        while value > 0x7F:
            buffer.append(value & 0x7F | 0x80)
            value >>= 7
        buffer.append(value)

    def signed(self, value: int) -> None:
        self.varint(value << 1 if value >= 0 else ~value << 1 | 1)

    def optional(self, value: int | None) -> None:
        """A number that may be missing."""
        self.varint(0 if value is None else value + 1)

    def text(self, value: str) -> None:
        self.blob(value.encode())

    def blob(self, value: bytes) -> None:
        size = len(value)
        if size < 0x80:
            self.buffer.append(size)
        else:
            self.varint(size)
        self.buffer += value

    def raw(self, value: bytes) -> None:
        """Bytes that are complete in themselves."""
        self.buffer += value

    def list(self, values: Collection[T], write: Callable[[T], None]) -> None:
        """Each value, after their number."""
        self.varint(len(values))
        for value in values:
            write(value)

    def object(self, value: MarshallableEntry) -> None:
        """A header, and what the newest serializer writes."""
        serializer, header = self._registry.writer(value.marshalled_type, self.protocol)
        self.buffer += header
        serializer.write(value, self)

    def objects(self, values: Collection[MarshallableEntry]) -> None:
        """Objects, after their number."""
        self.list(values, self.object)

    def checksum(self) -> None:
        """The CRC-32 of everything so far; nothing may follow."""
        self.buffer += _INT.pack(crc32(self.buffer))


class Input:
    """Bytes being read."""

    __slots__ = ("_registry", "data", "end", "position", "protocol")

    def __init__(
        self, data: bytes, registry: SerializerRegistry, protocol: int = PROTOCOL_VERSION, position: int = 0
    ) -> None:
        self.data = data
        self.position = position
        self.end = len(data)
        self.protocol = protocol
        self._registry = registry

    @property
    def registry(self) -> SerializerRegistry:
        """The serializers that nested objects are read with."""
        return self._registry

    def raw(self, size: int) -> bytes:
        """The next bytes, as they are."""
        start = self.position
        if size > self.end - start:
            raise Truncated(
                f"{size} bytes are needed at {start}, and {self.end - start} are left", position=start
            )
        self.position = start + size
        return self.data[start : start + size]

    def short(self) -> int:
        return int(_SHORT.unpack(self.raw(2))[0])

    def long(self) -> int:
        return int(_LONG.unpack(self.raw(8))[0])

    def double(self) -> float:
        return float(_DOUBLE.unpack(self.raw(8))[0])

    def byte(self) -> int:
        if self.position >= self.end:
            raise Truncated(f"the bytes end at {self.end}", position=self.position)
        found = self.data[self.position]
        self.position += 1
        return found

    def flag(self) -> bool:
        found = self.byte()
        if found > 1:
            raise MalformedBytes(f"{found} at {self.position - 1} is neither true nor false")
        return bool(found)

    def varint(self) -> int:
        position = self.position
        if position < self.end and (found := self.data[position]) < 0x80:
            self.position = position + 1
            return found
        return self._long_varint()

    def _long_varint(self) -> int:
        value, shift = self.byte() & 0x7F, 7
        for _ in range(_VARINT_BYTES_MAX - 1):
            found = self.byte()
            value |= (found & 0x7F) << shift
            if found < 0x80:
                if not found or value >> 64:
                    break
                return value
            shift += 7
        raise MalformedBytes(f"the number that ends at {self.position} is not in its shortest form")

    def signed(self) -> int:
        found = self.varint()
        return found >> 1 if not found & 1 else ~(found >> 1)

    def optional(self) -> int | None:
        found = self.varint()
        return None if found == 0 else found - 1

    def text(self) -> str:
        return self.blob().decode()

    def blob(self) -> bytes:
        return self.raw(self.varint())

    def enum(self, kind: type[E]) -> E:
        """A member of an enumeration."""
        return kind(self.varint())

    def list(self, read: Callable[[], T]) -> tuple[T, ...]:
        """As many values as the number before them says."""
        count = self.varint()
        if count > self.end - self.position:
            raise Truncated(f"{count} values cannot be in {self.end - self.position} bytes")
        return tuple([read() for _ in range(count)])

    def object(self, expected: type[T]) -> T:
        """An object of one type, by the serializer that its header names."""
        # Nearly every header has three bytes, and those name the serializer at once.
        start = self.position
        serializer = self._registry.by_header.get(self.data[start : start + 3])
        if serializer is None or self.protocol == FIRST_PROTOCOL_VERSION or start + 3 > self.end:
            type_id = self.short()
            version = self.varint() if self.protocol > FIRST_PROTOCOL_VERSION else 1
            serializer = self._registry.find(type_id, version).serializer
        else:
            self.position = start + 3
        found = serializer.read(self)
        if not isinstance(found, expected):
            raise MalformedBytes(
                f"a {type(found).__name__} stands where a {expected.__name__} must", position=self.position
            )
        return found

    def objects(self, expected: type[T]) -> tuple[T, ...]:
        """Objects of one type."""
        return self.list(lambda: self.object(expected))

    def checksum(self) -> None:
        """Compare everything with the CRC-32 at its end, before anything is made from it."""
        end = self.end - CHECKSUM_BYTES
        if end < self.position:
            raise Truncated(f"the bytes end at {self.end}, before their checksum", position=self.position)
        if crc32(memoryview(self.data)[:end]) != _INT.unpack_from(self.data, end)[0]:
            raise MalformedBytes("the checksum does not fit: bytes were changed, lost or added")
        self.end = end

    def finish(self) -> None:
        """Nothing may be left."""
        if self.position != self.end:
            raise MalformedBytes(f"{self.end - self.position} bytes are left after the object")


Value = Any

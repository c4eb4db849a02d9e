"""The way in and out of the log: every byte under one of its keys passes through here.

    protocol version   short, big-endian     once, at the beginning
    object type        short, big-endian  \\
    serializer version varint              | of the object, and again of each object within it
    payload            ...                /

Protocol version 1 is read too: it had no serializer versions. What cannot be read raises a `WireError` that
says why, before anything is made of it.
"""

from __future__ import annotations

import json
import struct
from typing import Any, TypeVar

from hermit.errors import InvariantViolation
from hermit.service.errors import MalformedBytes, Truncated, UnsupportedProtocol
from hermit.service.marshallable import MarshallableEntry
from hermit.service.wire.io import FIRST_PROTOCOL_VERSION, PROTOCOL_VERSION, Input, Output
from hermit.service.wire.registry import SerializerRegistry, default_registry

T = TypeVar("T")

_NUMBER_BYTES = 8


class UpdateLogMarshaller:
    """Turns what the log holds into bytes and back."""

    def __init__(self, registry: SerializerRegistry | None = None) -> None:
        self.registry = default_registry() if registry is None else registry

    def marshal(self, value: MarshallableEntry, protocol: int = PROTOCOL_VERSION) -> bytes:
        """The bytes of an object, with the protocol version in front."""
        out = Output(self.registry, protocol)
        out.short(protocol)
        out.object(value)
        return bytes(out.buffer)

    def unmarshal(self, data: bytes, expected: type[T]) -> T:
        """The object in these bytes."""
        inp = Input(data, self.registry)
        inp.protocol = inp.short()
        if not FIRST_PROTOCOL_VERSION <= inp.protocol <= PROTOCOL_VERSION:
            raise UnsupportedProtocol(
                f"the bytes are of protocol version {inp.protocol}; "
                f"versions {FIRST_PROTOCOL_VERSION} to {PROTOCOL_VERSION} can be read",
                found=inp.protocol,
            )
        try:
            found = inp.object(expected)
        except (ValueError, OverflowError, struct.error, InvariantViolation) as error:
            raise MalformedBytes(f"the bytes make no object: {error}", position=inp.position) from error
        inp.finish()
        return found

    def marshal_facts(self, value: Any) -> bytes:
        """The bytes of a small JSON document, as the keys about the nodes hold it."""
        return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()

    def unmarshal_facts(self, data: bytes) -> dict[str, Any]:
        """The JSON object in these bytes."""
        try:
            found = json.loads(data)
        except ValueError as error:
            raise MalformedBytes("the bytes are no JSON") from error
        if not isinstance(found, dict):
            raise MalformedBytes(f"the bytes hold a {type(found).__name__}, not an object")
        return found

    def marshal_number(self, value: int) -> bytes:
        """The bytes of a version, as the keys beside the updates hold it."""
        return value.to_bytes(_NUMBER_BYTES, "big")

    def unmarshal_number(self, data: bytes) -> int:
        """The version in these bytes."""
        if len(data) < _NUMBER_BYTES:
            raise Truncated(f"a version has {_NUMBER_BYTES} bytes, not {len(data)}")
        if len(data) > _NUMBER_BYTES:
            raise MalformedBytes(f"a version has {_NUMBER_BYTES} bytes, not {len(data)}")
        return int.from_bytes(data, "big")

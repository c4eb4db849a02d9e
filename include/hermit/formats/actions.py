"""What a step between two formats sees, and what it may answer.

A step is a pure function: it reads rows of the version that it starts from, and yields actions in types
of the version that it leads to. It never sees bytes, transactions or stores. The runner (`upgrade.py`)
encodes the actions, so that a retraction is always the very bytes that are stored.

    def upgrade(old: Old) -> Iterator[Action]:
        for row in old.messages("roles", v16.RoleKey, v16.RoleValue):
            yield Update(row, value=...)

What a step does not mention stays as it is, byte for byte. The rows of a step all show the state before
it, whatever it has yielded so far.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from google.protobuf.message import Message

K = TypeVar("K")
V = TypeVar("V")
MK = TypeVar("MK", bound=Message)
MV = TypeVar("MV", bound=Message)


class Stored(NamedTuple, Generic[K, V]):
    """A row of the version that the step starts from, with the bytes that hold it."""

    collection: str
    key: K
    value: V
    key_bytes: bytes
    value_bytes: bytes


class Insert(NamedTuple):
    """Add a row."""

    collection: str
    key: Message
    value: Message


class Delete(NamedTuple):
    """Take a row away."""

    row: Stored[Any, Any]


class Update(NamedTuple):
    """Give a row another value, another key, or both. What is None keeps its bytes."""

    row: Stored[Any, Any]
    value: Message | None = None
    key: Message | None = None


Action: TypeAlias = Insert | Delete | Update


class Old(Protocol):
    """The catalog as it was before the step. Every call streams; none may be kept."""

    def messages(self, collection: str, key: type[MK], value: type[MV]) -> Iterator[Stored[MK, MV]]:
        """The rows of a collection as messages of the version that the step starts from."""
        ...

    def rows(
        self, collection: str, key: Callable[[bytes], K], value: Callable[[bytes], V]
    ) -> Iterator[Stored[K, V]]:
        """The rows of a collection that does not hold protobuf: only version 14 needs it."""
        ...


def carry(old: Message, new: type[MV]) -> MV:
    """A message of the next version with all fields that both versions have.

    A field number means the same thing in all versions (a test holds the protos to that), so the copy
    goes through the wire format. Fields that only one of the versions knows are left out.
    """
    old.DiscardUnknownFields()
    carried = new.FromString(old.SerializeToString())
    carried.DiscardUnknownFields()
    return carried

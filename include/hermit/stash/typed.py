"""Collections as objects of the catalog's kinds, instead of bytes.

    items = TypedCollection(transaction, KINDS["items"])
    for key, value in items.rows(): ...
    items.replace(key, value)

Thin over a transaction: the codec of the current format version turns messages into bytes and back, and
refuses what is not of the kind. A retraction is made of the bytes that are stored, never of a message
encoded again, so that it always meets what it retracts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from hermit.formats import codec
from hermit.objects import KINDS, Kind
from hermit.rows import Row
from hermit.stash.transaction import StashTransaction

if TYPE_CHECKING:
    from google.protobuf.message import Message


class TypedCollection:
    """One kind's collection, within one transaction."""

    def __init__(self, transaction: StashTransaction, kind: Kind | str) -> None:
        self._transaction = transaction
        self.kind = KINDS[kind] if isinstance(kind, str) else kind

    def rows(self) -> Iterator[tuple[Message, Message]]:
        """The live objects, decoded as they stream by."""
        decode_key, decode_value = codec.decoder(self.kind, "key"), codec.decoder(self.kind, "value")
        for key, value in self._transaction.rows(self.kind.name):
            yield decode_key(key), decode_value(value)

    def get(self, key: Message) -> Message | None:
        """The value of a key, or None."""
        value = self._transaction.get(self.kind.name, codec.encode_key(self.kind, key))
        return None if value is None else codec.decode_value(self.kind, value)

    def insert(self, objects: Iterable[tuple[Message, Message]], *, lower: int | None = None) -> None:
        """Add objects whose keys are new."""
        self._transaction.append(((self._row(key, value), 1) for key, value in objects), lower=lower)

    def replace(self, key: Message, value: Message | None) -> bool:
        """Set the value of a key, or with None delete it; whether anything changed."""
        new = None if value is None else self._row(key, value)
        encoded = codec.encode_key(self.kind, key)
        stored = self._transaction.get(self.kind.name, encoded)
        old = None if stored is None else Row(self.kind.name, encoded, stored)
        if old == new:
            return False
        changes = [(row, diff) for row, diff in ((old, -1), (new, 1)) if row is not None]
        self._transaction.append(changes)
        return True

    def _row(self, key: Message, value: Message) -> Row:
        return Row(self.kind.name, codec.encode_key(self.kind, key), codec.encode_value(self.kind, value))

"""Getting rows into a table: small batches by INSERT, large ones by COPY, and what is too large not at all.

No statement carries more than 2 MiB or 65,535 parameters: a small batch is five array parameters, and
becomes a COPY stream before it reaches the limit. A row must fit a statement by itself; a larger one is
refused before any of it is sent.

The COPY stream stays open from one `add` to the next, so that the server takes rows in while the
caller makes more. Whoever needs the connection for anything else calls `flush` first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from struct import Struct
from typing import Any

import psycopg
from psycopg.adapt import Dumper
from psycopg.pq import Format

from hermit.stash.errors import ValueTooLarge
from hermit.stash.schema import Heap

STATEMENT_BYTES_MAX = 2 * 1024 * 1024
PARAMETERS_MAX = 65_535
# Room for the statement's text, the other columns and the framing of the arrays.
ROW_BYTES_MAX = STATEMENT_BYTES_MAX - 64 * 1024
# Below these an INSERT is quicker than starting a COPY stream; they keep a statement far below its limit.
INSERT_ROWS_MAX = 256
INSERT_BYTES_MAX = 256 * 1024

COPY_HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
COPY_TRAILER = b"\xff\xff"
_HEAD = Struct("!hiqi")
_LENGTH = Struct("!i")
_TAIL = Struct("!iqiq")
_ARRAY_HEAD = Struct("!iiIii")
_BYTEA = 17


def refuse_large(collection: str, key_bytes: int, value_bytes: int) -> None:
    """Refuse a row that does not fit a statement."""
    size_bytes = key_bytes + value_bytes
    if size_bytes > ROW_BYTES_MAX:
        raise ValueTooLarge(
            f"a row of {collection} has {size_bytes} bytes, and the stash takes at most {ROW_BYTES_MAX}",
            hint="nothing was written; make the object smaller",
            collection=collection,
            size_bytes=size_bytes,
            limit_bytes=ROW_BYTES_MAX,
        )


class Appender:
    """Rows on their way into one table, within one transaction."""

    def __init__(self, connection: psycopg.Connection, heap: Heap) -> None:
        self._connection = connection
        self._heap = heap
        self._pending: list[tuple[int, bytes, bytes, int, int]] = []
        self._pending_bytes = 0
        self._copy: psycopg.Copy | None = None
        self._copying = ExitStack()

    def add_all(
        self,
        changes: Iterable[tuple[tuple[str, bytes, bytes], int]],
        locate: Callable[[str], tuple[int, int]],
    ) -> None:
        """Add rows; `locate` gives a collection's id and the time to write at, once per collection.

        `locate` and the source of the rows may use the connection: both may call `flush`.
        """
        known: dict[str, tuple[int, int]] = {}
        for (collection, key, value), diff in changes:
            place = known.get(collection)
            if place is None:
                place = known[collection] = locate(collection)
            size_bytes = len(key) + len(value)
            if size_bytes > ROW_BYTES_MAX:
                refuse_large(collection, len(key), len(value))
            self._pending.append((place[0], key, value, place[1], diff))
            self._pending_bytes += size_bytes
            if self._pending_bytes > INSERT_BYTES_MAX or len(self._pending) > INSERT_ROWS_MAX:
                self._stream()

    def take(self) -> list[Any]:
        """What is pending, as the parameters of one INSERT; empty if nothing is."""
        if not self._pending:
            return []
        ids, keys, values, times, diffs = zip(*self._pending, strict=True)
        self._clear()
        return [array(ids), ByteaArray(keys), ByteaArray(values), array(times), array(diffs)]

    def insert(self) -> None:
        """Send what is pending as one INSERT; allowed inside a pipeline."""
        parameters = self.take()
        if parameters:
            self._connection.execute(self._heap.insert, parameters)

    def finish_copy(self) -> None:
        """End the COPY stream, if one is open."""
        if self._copy is None:
            return
        self._stream()
        self._copy.write(COPY_TRAILER)
        self._copy = None
        self._copying.close()

    def flush(self) -> None:
        """Make everything added visible to the statements that follow."""
        self.finish_copy()
        self.insert()

    def abandon(self) -> None:
        """End an open stream such that the server forgets it."""
        if self._copy is not None:
            self._copy = None
            error = psycopg.DataError("abandoned")
            self._copying.__exit__(type(error), error, None)
        self._clear()

    def _clear(self) -> None:
        self._pending = []
        self._pending_bytes = 0

    def _stream(self) -> None:
        if self._copy is None:
            cursor = self._copying.enter_context(self._connection.cursor())
            self._copy = self._copying.enter_context(cursor.copy(self._heap.copy))
            self._copy.write(COPY_HEADER)
        self._copy.write(encode_copy(self._pending))
        self._clear()


class ByteaArray:
    """Byte strings on their way into one parameter, of PostgreSQL's type `bytea[]`."""

    def __init__(self, items: Sequence[bytes]) -> None:
        self.items = items


class _ByteaArrayDumper(Dumper):
    """Encodes in one go. psycopg's own looks at each element several times, which a small write notices."""

    format = Format.BINARY
    oid = 1001

    def dump(self, obj: ByteaArray) -> bytes:
        parts = [_ARRAY_HEAD.pack(1, 0, _BYTEA, len(obj.items), 1)]
        for item in obj.items:
            parts += (_LENGTH.pack(len(item)), item)
        return b"".join(parts)


psycopg.adapters.register_dumper(ByteaArray, _ByteaArrayDumper)


def array(numbers: Iterable[int]) -> str:
    """Numbers as PostgreSQL's text of an array: one type of parameter, whatever their size."""
    return "{" + ",".join(map(str, numbers)) + "}"


def encode_copy(rows: Iterable[tuple[int, bytes, bytes, int, int]]) -> bytes:
    """Rows in PostgreSQL's binary COPY format, without header and trailer."""
    head, length, tail = _HEAD.pack, _LENGTH.pack, _TAIL.pack
    return b"".join(
        [
            part
            for collection_id, key, value, time, diff in rows
            for part in (
                head(5, 8, collection_id, len(key)),
                key,
                length(len(value)),
                value,
                tail(8, time, 8, diff),
            )
        ]
    )

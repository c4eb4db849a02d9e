"""Changes of one step, kept until the step has ended, in bounded memory.

A step reads the state before it. Its changes are therefore written only after its last read, and until
then they wait here: in memory while they are few, in a temporary file beyond that. They come back in
batches that any store takes in one statement.
"""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Iterator
from types import TracebackType

from hermit.errors import Unavailable
from hermit.formats.collections import COLLECTIONS
from hermit.rows import Row

_HEADER = struct.Struct("<BbII")
_MEMORY_BYTES = 16 << 20
BATCH_BYTES = 1 << 20
BATCH_ROWS = 4096

Change = tuple[Row, int]


class Spool:
    """An append-only list of changes, read back in batches."""

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(max_size=_MEMORY_BYTES)  # noqa: SIM115 (closed by close)
        self._tags = {name: tag for tag, name in enumerate(COLLECTIONS)}

    def __enter__(self) -> Spool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def add(self, collection: str, key: bytes, value: bytes, diff: int) -> None:
        header = _HEADER.pack(self._tags[collection], diff, len(key), len(value))
        try:
            self._file.write(header + key + value)
        except OSError as error:
            raise Unavailable(
                f"the changes of an upgrade cannot be kept in {tempfile.gettempdir()}: {error.strerror}",
                hint="nothing was changed; make room there, or name another directory in TMPDIR",
            ) from error

    def keys(self, collection: str, diff: int) -> Iterator[bytes]:
        """The keys of the changes of one collection that have this diff."""
        for batch in self.batches():
            yield from (row.key for row, each in batch if (row.collection, each) == (collection, diff))

    def batches(self) -> Iterator[list[Change]]:
        """All changes in order, at most `BATCH_ROWS` and about `BATCH_BYTES` at a time."""
        self._file.seek(0)
        batch: list[Change] = []
        size = 0
        while header := self._file.read(_HEADER.size):
            tag, diff, key_length, value_length = _HEADER.unpack(header)
            data = self._file.read(key_length + value_length)
            if batch and (len(batch) >= BATCH_ROWS or size + len(data) > BATCH_BYTES):
                yield batch
                batch, size = [], 0
            batch.append((Row(COLLECTIONS[tag], data[:key_length], data[key_length:]), diff))
            size += len(data)
        if batch:
            yield batch

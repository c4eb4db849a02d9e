"""Contents that are upgraded beside their store, in bounded memory.

A step of an upgrade may change every row. What is written over rows that are only streamed waits here: the
added rows in a temporary file, and of the retracted ones sixteen bytes each, a checksum of key and value.
When a collection is read after that, it is written out without the retracted rows, and from then on read
from there. So memory holds a batch of rows and the checksums of one step, whatever the size of the
catalog, and the store sees nothing before the whole upgrade has succeeded.
"""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import xxhash

from hermit.durable.bootstrap import Pairs
from hermit.errors import invariant
from hermit.rows import Row

if TYPE_CHECKING:
    from hermit.persist.batch import BatchWriter

_HEADER = struct.Struct("<II")
_DIGEST_BYTES = 16
_BUFFER_BYTES = 1 << 16
_BATCH_ROWS = 8192

Pair = tuple[bytes, bytes]


class SpooledContents:
    """Rows that are only streamed, and what was written over them."""

    def __init__(self, base: Callable[[str], Pairs]) -> None:
        self._base = base
        self._folder = tempfile.TemporaryDirectory(prefix="hermit-upgrade-")
        self._collections: dict[str, _Collection] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for collection in self._collections.values():
            collection.close()
        self._folder.cleanup()

    @property
    def changed(self) -> list[str]:
        """The collections that were written to."""
        return sorted(self._collections)

    def rows(self, collection: str) -> Iterator[Pair]:
        written = self._collections.get(collection)
        return iter(self._base(collection)) if written is None else written.rows()

    def write(self, changes: Iterable[tuple[Row, int]]) -> None:
        for row, diff in changes:
            self._written(row.collection).write((row.key, row.value), diff)

    def stage(self, writer: BatchWriter) -> None:
        """Hand everything that the written collections now hold to a batch."""
        import pyarrow as pa

        from hermit.persist.arrays import binaries

        for name in self.changed:
            for batch in batches(self.rows(name)):
                columns = [binaries([pair[part] for pair in batch]) for part in (0, 1)]
                writer.write(name, pa.RecordBatch.from_arrays(columns, names=["key", "value"]))

    def _written(self, collection: str) -> _Collection:
        found = self._collections.get(collection)
        if found is None:
            path = Path(self._folder.name) / str(len(self._collections))
            found = self._collections[collection] = _Collection(path, lambda: self._base(collection))
        return found


class _Collection:
    """One collection: where its rows are, and what was written since they were put there."""

    def __init__(self, path: Path, base: Callable[[], Pairs]) -> None:
        self._path = path
        self._rows: Callable[[], Pairs] = base
        self._files = 0
        self._folded: _PairFile | None = None
        self._added = _PairFile(self._next_path())
        self._retracted = bytearray()

    def write(self, pair: Pair, diff: int) -> None:
        invariant(diff in (1, -1), "an upgrade adds or retracts a row once")
        if diff > 0:
            self._added.write(pair)
        else:
            self._retracted += _digest(pair)

    def rows(self) -> Iterator[Pair]:
        if self._added.count or self._retracted:
            self._fold()
        return iter(self._rows())

    def close(self) -> None:
        self._added.close()

    def _fold(self) -> None:
        """Write the rows as they are now to a file, and read them from there."""
        self._added.close()
        folded = _PairFile(self._next_path())
        retracted = _Retractions(bytes(self._retracted))
        for batch in batches(chain(self._rows(), self._added.rows())):
            for pair in retracted.left(batch):
                folded.write(pair)
        folded.close()
        invariant(retracted.is_done, "a row is retracted that is not there")
        self._added.remove()
        if self._folded is not None:
            self._folded.remove()
        self._folded, self._rows = folded, folded.rows
        self._added, self._retracted = _PairFile(self._next_path()), bytearray()

    def _next_path(self) -> Path:
        self._files += 1
        return self._path.with_suffix(f".{self._files}")


class _Retractions:
    """The checksums of retracted rows; each takes out one row that has it."""

    def __init__(self, digests: bytes) -> None:
        import numpy as np

        self._digests, self._counts = np.unique(
            np.frombuffer(digests, dtype=f"S{_DIGEST_BYTES}"), return_counts=True
        )

    @property
    def is_done(self) -> bool:
        return not self._counts.any()

    def left(self, pairs: list[Pair]) -> Iterator[Pair]:
        """Those of the rows that were not retracted."""
        if not len(self._digests):
            yield from pairs
            return
        for pair, place in zip(pairs, self._places(pairs), strict=True):
            if place >= 0 and self._counts[place]:
                self._counts[place] -= 1
            else:
                yield pair

    def _places(self, pairs: list[Pair]) -> Any:
        """Where in the retractions each row is found; -1 for nowhere."""
        import numpy as np

        digests = np.frombuffer(b"".join(map(_digest, pairs)), dtype=self._digests.dtype)
        places = np.minimum(np.searchsorted(self._digests, digests), len(self._digests) - 1)
        return np.where(self._digests[places] == digests, places, -1).tolist()


class _PairFile:
    """Rows in a temporary file: appended first, then read any number of times."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("wb", buffering=_BUFFER_BYTES)
        self.count = 0

    def write(self, pair: Pair) -> None:
        key, value = pair
        self._file.write(_HEADER.pack(len(key), len(value)) + key + value)
        self.count += 1

    def close(self) -> None:
        self._file.close()

    def remove(self) -> None:
        """Whoever still reads goes on: it has the file open."""
        self._path.unlink()

    def rows(self) -> Iterator[Pair]:
        with self._path.open("rb", buffering=_BUFFER_BYTES) as file:
            while header := file.read(_HEADER.size):
                key_bytes, value_bytes = _HEADER.unpack(header)
                yield file.read(key_bytes), file.read(value_bytes)


def batches(pairs: Iterable[Pair]) -> Iterator[list[Pair]]:
    """The rows, so many at a time as fit well into memory."""
    rows = iter(pairs)
    while batch := list(islice(rows, _BATCH_ROWS)):
        yield batch


def _digest(pair: Pair) -> bytes:
    key, value = pair
    return xxhash.xxh3_128_digest(_HEADER.pack(len(key), len(value)) + key + value)

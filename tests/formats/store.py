"""A catalog in memory that takes part in upgrades as the stores do: reads, batches, all or nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from hermit.formats import config
from hermit.formats.metrics import UpgradeReport
from hermit.formats.upgrade import upgrade
from hermit.rows import Row


class MemoryStore:
    """Rows with their multiplicities. `writes` keeps every batch that was written."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.contents: Counter[Row] = Counter(rows)
        self.writes: list[list[tuple[Row, int]]] = []

    @property
    def version(self) -> int:
        return self.config()[config.USER_VERSION]

    def config(self) -> dict[str, int]:
        return {
            config.decode_key(key): config.decode_value(value) for key, value in self.read(config.COLLECTION)
        }

    def rows(self) -> set[Row]:
        assert set(self.contents.values()) <= {1}
        return set(self.contents)

    def read(self, collection: str) -> Iterator[tuple[bytes, bytes]]:
        for row in tuple(self.contents):
            if row.collection == collection:
                yield row.key, row.value

    def write(self, changes: Sequence[tuple[Row, int]]) -> None:
        self.writes.append(list(changes))
        for row, diff in changes:
            self.contents[row] += diff
            assert self.contents[row] >= 0, f"retracted what is not stored: {row}"
            if not self.contents[row]:
                del self.contents[row]

    def upgrade(self, **options: object) -> UpgradeReport:
        """Upgrade in a transaction: if it fails, everything is as before."""
        before = self.contents.copy()
        try:
            return upgrade(self.version, self.read, self.write, **options)
        except BaseException:
            self.contents = before
            raise

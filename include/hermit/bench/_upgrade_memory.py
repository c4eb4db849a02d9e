"""Upgrades a generated catalog on disk in a process of its own, and prints the memory that it took.

    python -m hermit.bench._upgrade_memory FILE ITEMS VERSION

The catalog lies in SQLite, which keeps its rows out of the process as a real store does. Printed is JSON:
the peak of the resident set before and after the upgrade, in bytes, and the number of rows.
"""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from hermit.formats.generate import rows
from hermit.formats.metrics import Size
from hermit.formats.upgrade import upgrade
from hermit.rows import Row


class SqliteCatalog:
    """Rows in one table; everything between creation and `commit` is one transaction."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.execute("pragma journal_mode = off")
        self._db.execute("begin")
        self._db.execute(
            "create table data (collection text, key blob, value blob, primary key (collection, key, value)) "
            "without rowid"
        )

    def load(self, contents: Iterable[Row]) -> None:
        self._db.executemany("insert into data values (?, ?, ?)", contents)

    def read(self, collection: str) -> Iterator[tuple[bytes, bytes]]:
        return self._db.execute("select key, value from data where collection = ?", (collection,))

    def write(self, changes: Sequence[tuple[Row, int]]) -> None:
        gone = [row for row, diff in changes if diff < 0]
        self._db.executemany("delete from data where collection = ? and key = ? and value = ?", gone)
        self.load(row for row, diff in changes if diff > 0)

    def commit(self) -> None:
        self._db.execute("commit")
        self._db.close()


def _peak_bytes() -> int:
    """The largest resident set so far. (`ru_maxrss` would count the process that started this one.)"""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def main(path: str, items: str, version: str) -> None:
    """Generate, upgrade, and print the peak."""
    catalog = SqliteCatalog(Path(path))
    like = {"items": Size(int(items)), "roles": Size(100), "schemas": Size(100)}
    catalog.load(rows(None, seed=1, version=int(version), like=like))
    before = _peak_bytes()
    report = upgrade(int(version), catalog.read, catalog.write)
    catalog.commit()
    final = report.steps[-1].after
    result = {"peak_before": before, "peak_after": _peak_bytes(), "items": final["items"].rows}
    print(json.dumps(result | {"bytes": final["items"].bytes}))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Rows and updates: what both stores hold, as bytes, and what moves between them.

A row is `(collection, key, value)`. An update is a row with a time and a diff: +1 adds it, -1 retracts
it. The contents at a time are the sum of the diffs of all updates up to it; a well-formed catalog sums
to 0 or 1 for every row, and to at most one value for every (collection, key).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Row(NamedTuple):
    """One entry of a catalog, encoded."""

    collection: str
    key: bytes
    value: bytes


class Update(NamedTuple):
    """A change of one row at one time."""

    collection: str
    key: bytes
    value: bytes
    time: int
    diff: int

    @property
    def row(self) -> Row:
        return Row(self.collection, self.key, self.value)


def consolidate(updates: Iterable[Update]) -> dict[Row, int]:
    """The sum of diffs per row, without the rows that cancel out."""
    sums: dict[Row, int] = {}
    for update in updates:
        row = update.row
        total = sums.get(row, 0) + update.diff
        if total:
            sums[row] = total
        else:
            sums.pop(row, None)
    return sums

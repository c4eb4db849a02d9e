"""Which keys differ between two sides that should be equal: a sample, found in bounded memory.

Rows fall into buckets by a checksum of their key. A first pass sums up the hashes of each bucket on both
sides; a second one keeps the rows of one bucket that differs in each collection, and compares those.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias, TypeVar

from hermit.digest import collection_seed, hash_row
from hermit.durable.contents import is_own_config
from hermit.durable.diff import CollectionDiff, diff_rows
from hermit.rows import Row

_BUCKETS = 4_096
_KEYS_MAX = 5
T = TypeVar("T")
Side: TypeAlias = Callable[[Callable[[Iterable[Row]], Any]], Any]
"""Calls a function with all rows of a side, as often as asked, and gives what it returned."""


def sample(source: Side, target: Side) -> list[dict[str, Any]]:
    """A few of the keys that differ, per collection, and how."""
    chosen = _choose(source(_sums), target(_sums))
    left, right = ([*side(lambda rows: [*_rows_in(rows, chosen)])] for side in (source, target))
    return [entry for difference in diff_rows(left, right) for entry in _describe(difference)]


def _bucket(key: bytes) -> int:
    return zlib.crc32(key) % _BUCKETS


def _moved(rows: Iterable[Row]) -> Iterable[Row]:
    return (row for row in rows if not is_own_config(row.collection, row.key))


def _sums(rows: Iterable[Row]) -> dict[tuple[str, int], int]:
    sums: dict[tuple[str, int], int] = defaultdict(int)
    for name, key, value in _moved(rows):
        sums[name, _bucket(key)] += hash_row(collection_seed(name), key, value)
    return dict(sums)


def _choose(left: Mapping[tuple[str, int], int], right: Mapping[tuple[str, int], int]) -> dict[str, int]:
    """One bucket that differs, per collection."""
    return {place[0]: place[1] for place in sorted({*left, *right}) if left.get(place) != right.get(place)}


def _rows_in(rows: Iterable[Row], chosen: Mapping[str, int]) -> Iterable[Row]:
    return (row for row in _moved(rows) if chosen.get(row.collection) == _bucket(row.key))


def _describe(difference: CollectionDiff) -> Iterable[dict[str, Any]]:
    found = [
        *((key, "only in the source") for key, _ in difference.only_left),
        *((key, "only in the target") for key, _ in difference.only_right),
        *((key, "has another value") for key, _, _ in difference.changed),
    ]
    for key, how in found[:_KEYS_MAX]:
        yield {"collection": difference.name, "key": _show(difference.name, key), "how": how}


def _show(collection: str, key: bytes) -> str:
    """The key as people know it, or its bytes where it is of another format, or damaged."""
    import json

    from hermit.errors import HermitError
    from hermit.formats import codec

    try:
        return json.dumps(codec.to_json(collection, codec.decode_key(collection, key)))
    except HermitError:
        return key.hex()

"""How the contents of two catalogs differ, key by key. Pure: it compares rows, whatever their format."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from hermit.durable.contents import MOVED
from hermit.rows import Row

Pair = tuple[bytes, bytes]


@dataclass(frozen=True)
class CollectionDiff:
    """What differs in one collection."""

    name: str
    only_left: list[Pair] = field(default_factory=list)
    only_right: list[Pair] = field(default_factory=list)
    changed: list[tuple[bytes, bytes, bytes]] = field(default_factory=list)
    """Key, value on the left, value on the right."""

    def __bool__(self) -> bool:
        return bool(self.only_left or self.only_right or self.changed)


def diff_rows(left: Iterable[Row], right: Iterable[Row]) -> list[CollectionDiff]:
    """The collections in which the contents differ."""
    lefts, rights = _by_collection(left), _by_collection(right)
    found = (_diff_one(name, lefts.get(name, {}), rights.get(name, {})) for name in MOVED)
    return [difference for difference in found if difference]


def _diff_one(name: str, left: dict[bytes, bytes], right: dict[bytes, bytes]) -> CollectionDiff:
    difference = CollectionDiff(name)
    for key in sorted({*left, *right}):
        mine, other = left.get(key), right.get(key)
        if other is None and mine is not None:
            difference.only_left.append((key, mine))
        elif mine is None and other is not None:
            difference.only_right.append((key, other))
        elif mine is not None and other is not None and mine != other:
            difference.changed.append((key, mine, other))
    return difference


def _by_collection(rows: Iterable[Row]) -> dict[str, dict[bytes, bytes]]:
    found: dict[str, dict[bytes, bytes]] = {}
    for collection, key, value in rows:
        found.setdefault(collection, {})[key] = value
    return found

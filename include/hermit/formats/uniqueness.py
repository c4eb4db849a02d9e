"""Are all keys of a collection different? Answered in eight bytes of memory per key.

Hashes are kept in buckets by their first byte, and each bucket is sorted at the end. Equal hashes only
raise a suspicion: `duplicate` looks at the keys themselves again before it accuses anybody.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from itertools import pairwise

import xxhash

_BUCKETS = 256


class KeyHashes:
    """The hashes of all keys of one collection."""

    def __init__(self) -> None:
        self._buckets = [array("Q") for _ in range(_BUCKETS)]

    def add(self, key: bytes) -> None:
        number = xxhash.xxh64_intdigest(key)
        self._buckets[number >> 56].append(number)

    def suspects(self) -> set[int]:
        """The hashes that more than one key has."""
        found: set[int] = set()
        for bucket in self._buckets:
            numbers = sorted(bucket)
            found.update(a for a, b in pairwise(numbers) if a == b)
        return found


def duplicate(hashes: KeyHashes, keys: Callable[[], Iterable[bytes]]) -> bytes | None:
    """A key that occurs twice, or None. Reads the keys again only if two hashes are equal."""
    suspects = hashes.suspects()
    seen: set[bytes] = set()
    if suspects:
        for key in keys():
            if xxhash.xxh64_intdigest(key) in suspects:
                if key in seen:
                    return key
                seen.add(key)
    return None

"""A digest of contents that is equal on both stores, whatever the order and partitioning.

The digest is the row count and the sum, modulo 2**64, of a 64-bit hash of every row, each times its
diff. Sums commute, so that partitions may be digested anywhere and added up, and a retraction undoes
its insertion. The hash is XXH64 chained over collection, key and value from seed 42: the number that
Spark's `xxhash64(collection, key, value)` gives for the same columns.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import xxhash

from hermit.rows import Row

_SEED = 42
_MASK = (1 << 64) - 1


def collection_seed(collection: str) -> int:
    """The hash after the collection's name, from which the hashes of its rows go on."""
    return xxhash.xxh64_intdigest(collection.encode(), _SEED)


def hash_row(seed: int, key: bytes, value: bytes) -> int:
    """The hash of one row of the collection whose seed this is."""
    return xxhash.xxh64_intdigest(value, xxhash.xxh64_intdigest(key, seed))


@dataclass(frozen=True)
class Digest:
    """Row count and hash sum. Add digests of partitions with `+`."""

    rows: int = 0
    total: int = 0

    def __add__(self, other: Digest) -> Digest:
        return Digest(self.rows + other.rows, (self.total + other.total) & _MASK)

    def __str__(self) -> str:
        return f"{self.rows}:{self.total:016x}"

    @classmethod
    def parse(cls, text: str) -> Digest:
        rows, _, total = text.partition(":")
        return cls(int(rows), int(total, 16))


def digest_collection(collection: str, pairs: Iterable[tuple[bytes, bytes]]) -> Digest:
    """The digest of live rows of one collection."""
    xxh64 = xxhash.xxh64_intdigest
    seed = collection_seed(collection)
    rows = total = 0
    for key, value in pairs:
        rows += 1
        total += xxh64(value, xxh64(key, seed))
    return Digest(rows, total & _MASK)


def digest_columns(collection: str, keys: Any, values: Any) -> Digest:
    """The digest of live rows of one collection, given as two Arrow arrays of bytes.

    Both loops are C's: `map` and `sum` call the hash without a step of the interpreter in between.
    """
    xxh64 = xxhash.xxh64_intdigest
    seeds = map(xxh64, keys.to_pylist(), itertools.repeat(collection_seed(collection)))
    return Digest(len(keys), sum(map(xxh64, values.to_pylist(), seeds)) & _MASK)


def digest_updates(collection: str, keys: Any, values: Any, diffs: Any) -> Digest:
    """What stored updates of one collection, given as Arrow arrays, add to its digest.

    Only the sum over all updates is a digest of rows: a part of them may count less than none.
    """
    xxh64 = xxhash.xxh64_intdigest
    weights = diffs.to_pylist()
    seeds = map(xxh64, keys.to_pylist(), itertools.repeat(collection_seed(collection)))
    hashes = map(xxh64, values.to_pylist(), seeds)
    return Digest(sum(weights), sum(map(operator.mul, hashes, weights)) & _MASK)


def digest_rows(rows: Iterable[Row]) -> dict[str, Digest]:
    """The digest per collection of live rows in any order."""
    seeds: dict[str, int] = {}
    counts: dict[str, int] = {}
    totals: dict[str, int] = {}
    for collection, key, value in rows:
        seed = seeds.get(collection)
        if seed is None:
            seed = seeds[collection] = collection_seed(collection)
            counts[collection] = totals[collection] = 0
        counts[collection] += 1
        totals[collection] += hash_row(seed, key, value)
    return {name: Digest(counts[name], totals[name] & _MASK) for name in seeds}


def combine(digests: Iterable[Digest]) -> Digest:
    """The digest of everything, from the digests of its parts."""
    result = Digest()
    for digest in digests:
        result += digest
    return result

"""Staging: the bulk of a move, written where nobody looks yet.

The functions that executors run take plain values and import what they need themselves, so that they run
in any Python process, under Spark or not. Each accounts for its rows twice: the digest of what it read
from the source, and the digest of what it read back from where it put them. A partition that Spark runs
twice leaves files, or rows in an aborted transaction, that no manifest names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hermit.digest import Digest, digest_collection
from hermit.durable.contents import is_own_config


@dataclass(frozen=True)
class Part:
    """What one partition staged."""

    files: list[dict[str, Any]]
    read: dict[str, Digest]
    staged: dict[str, Digest]
    rows: int
    bytes: int


def merge(parts: Iterable[Part]) -> Part:
    """All partitions together."""
    files: list[dict[str, Any]] = []
    read: dict[str, Digest] = {}
    staged: dict[str, Digest] = {}
    rows = size = 0
    for part in parts:
        files += part.files
        rows += part.rows
        size += part.bytes
        for into, digests in ((read, part.read), (staged, part.staged)):
            for name, digest in digests.items():
                into[name] = into.get(name, Digest()) + digest
    return Part(files, read, staged, rows, size)


def split_by_collection(batch: Any, names: Mapping[int, str]) -> Iterator[tuple[str, Any]]:
    """The rows of a batch per collection, as `(key, value)`, without what a store keeps to itself."""
    import pyarrow as pa
    import pyarrow.compute as pc

    ids = batch.column(0)
    for id_ in pc.unique(ids).to_pylist():
        rows = batch if len(ids) == 0 else batch.filter(pc.equal(ids, id_))
        name = names[id_]
        pairs = pa.RecordBatch.from_arrays([rows.column(1), rows.column(2)], names=["key", "value"])
        own = [not is_own_config(name, key.as_py()) for key in pairs.column(0)] if name == "config" else None
        if own is not None and not all(own):
            pairs = pairs.filter(pa.array(own))
        if pairs.num_rows:
            yield name, pairs


def digest_pairs(collection: str, pairs: Any) -> Digest:
    """The digest of a `(key, value)` record batch."""
    return digest_collection(
        collection, zip(pairs.column(0).to_pylist(), pairs.column(1).to_pylist(), strict=True)
    )

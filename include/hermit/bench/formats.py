"""Formats: what decoding, upgrading and the shape of stored bytes cost, beside bare protobuf and JSON.

The bars on compression justify `docs/decisions/formats-compression.md`: if one of them no longer holds,
the decision should be looked at again.
"""

from __future__ import annotations

import gc
import io
import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from time import process_time
from typing import Any

from hermit.bench import Bar
from hermit.formats import codec
from hermit.formats.generate import rows
from hermit.formats.versions import STASH_VERSION
from hermit.objects import KINDS

_GIB = 1 << 30
_ROUNDS = 7
_TRAILER_BYTES = 5

Pairs = dict[str, list[tuple[bytes, bytes]]]


def run(quick: bool, workdir: Path) -> list[Bar]:
    """Measure every bar of this area."""
    objects = 20_000 if quick else 100_000
    return [
        *_decoding(objects),
        *_compression(objects // 2),
        _upgrade_memory(20_000 if quick else 200_000, workdir),
    ]


def _pairs(objects: int, version: int) -> Pairs:
    found: Pairs = defaultdict(list)
    for row in rows(objects, seed=1, version=version):
        if row.collection not in ("config", "update_log"):
            found[row.collection].append((row.key, row.value))
    return found


def _fastest(*candidates: Callable[[], object]) -> list[float]:
    """The least CPU seconds of each candidate, over rounds that take turns."""
    best = [float("inf")] * len(candidates)
    for _ in range(_ROUNDS):
        for index, candidate in enumerate(candidates):
            gc.collect()
            start = process_time()
            kept = candidate()
            best[index] = min(best[index], process_time() - start)
            del kept
    return best


def _decoding(objects: int) -> list[Bar]:
    """Bytes to objects: Hermit's codec, bare protobuf on the same bytes, and JSON of version 14, untyped."""
    framed, texts = _pairs(objects, STASH_VERSION), _pairs(objects, 14)
    bare = {
        name: [(key[:-_TRAILER_BYTES], value[:-_TRAILER_BYTES]) for key, value in pairs]
        for name, pairs in framed.items()
    }

    def decode(pairs: Pairs, reader: Callable[[str, codec.Part], Callable[[bytes], Any]]) -> object:
        out = {}
        for name, each in pairs.items():
            read_key, read_value = reader(name, "key"), reader(name, "value")
            out[name] = [(read_key(key), read_value(value)) for key, value in each]
        return out

    ours, protobuf, legacy = _fastest(
        lambda: decode(framed, codec.decoder),
        lambda: decode(bare, lambda name, part: getattr(KINDS[name], part).FromString),
        lambda: decode(texts, lambda name, part: json.loads),
    )
    return [
        Bar(f"opening {objects:,} objects / bare protobuf decoding", ours / protobuf, 2.0),
        Bar("decoding protobuf / decoding JSON of version 14", ours / legacy, 1.0),
        Bar("bytes of protobuf / bytes of JSON of version 14", _size(framed) / _size(texts), 1.0),
    ]


def _size(pairs: Pairs) -> int:
    return sum(len(key) + len(value) for each in pairs.values() for key, value in each)


def _compression(objects: int) -> list[Bar]:
    """zstd on every `create_sql` against none: in a row, in a Parquet file, and when opening."""
    import zstandard

    values = [row.value for row in rows(objects, seed=1) if row.collection == "items"]
    decode = codec.decoder("items", "value")
    texts: list[bytes] = [decode(value).create_sql.encode() for value in values]  # type: ignore[attr-defined]
    compress = zstandard.ZstdCompressor(level=3).compress
    decompress = zstandard.ZstdDecompressor().decompress
    packed = [compress(text) for text in texts]
    plain_seconds, packed_seconds = _fastest(
        lambda: [decode(value) for value in values],
        lambda: [
            (decode(value), decompress(each).decode()) for value, each in zip(values, packed, strict=True)
        ],
    )
    in_rows = sum(map(len, packed)) / sum(map(len, texts))
    in_files = _parquet_bytes(packed) / _parquet_bytes(texts)
    return [
        Bar("zstd per create_sql: bytes in rows / without", in_rows, 0.4, at_most=False),
        Bar("zstd per create_sql: bytes in Parquet / without", in_files, 1.0, at_most=False),
        Bar("zstd per create_sql: opening / without", packed_seconds / plain_seconds, 1.2, at_most=False),
    ]


def _parquet_bytes(column: Iterable[bytes]) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = io.BytesIO()
    pq.write_table(pa.table({"value": pa.array(column, pa.binary())}), file, compression="zstd")
    return file.tell()


def _upgrade_memory(items: int, workdir: Path) -> Bar:
    """The peak of a process that upgrades so many items through all steps since protobuf."""
    run = subprocess.run(
        [sys.executable, "-m", "hermit.bench._upgrade_memory", str(workdir / "catalog"), str(items), "15"],
        capture_output=True,
        text=True,
        check=True,
    )
    peak = json.loads(run.stdout)["peak_after"]
    return Bar(f"peak memory of upgrading {items:,} items / 1 GiB", peak / _GIB, 1.0)

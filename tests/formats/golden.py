"""Golden files: 100 objects of every kind of every version, with their bytes and with their meaning.

A file is made once, when its version is frozen, and never again:

    python -m tests.formats.golden 22

It holds one JSON array per line: collection, key, value, and both as JSON. Bytes are text in Latin-1, so
that the file compresses well.
"""

from __future__ import annotations

import json
import lzma
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from hermit.formats.generate import GENERATED, rows
from hermit.formats.metrics import Size
from hermit.rows import Row
from tests.formats import frozen

DIRECTORY = Path(__file__).with_name("golden")
OBJECTS_PER_KIND = 100


class Golden(NamedTuple):
    row: Row
    key: Any
    value: Any


def path(version: int) -> Path:
    return DIRECTORY / f"v{version}.jsonl.xz"


def read(version: int) -> Iterator[Golden]:
    assert path(version).exists(), f"run `python -m tests.formats.golden {version}` once, and commit the file"
    with lzma.open(path(version), "rt") as lines:
        for line in lines:
            collection, key, value, key_json, value_json = json.loads(line)
            yield Golden(
                Row(collection, key.encode("latin-1"), value.encode("latin-1")), key_json, value_json
            )


def write(version: int) -> None:
    if path(version).exists():
        sys.exit(f"{path(version).name} exists: what was stored once does not change")
    like = {name: Size(OBJECTS_PER_KIND) for name in GENERATED}
    with lzma.open(path(version), "wt", preset=9) as lines:
        for row in rows(None, seed=version, version=version, like=like):
            _, key, value = frozen.plain_row(version, row)
            entry = [row.collection, row.key.decode("latin-1"), row.value.decode("latin-1"), key, value]
            lines.write(json.dumps(entry, sort_keys=True, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    write(int(sys.argv[1]))

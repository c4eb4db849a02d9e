"""A catalog as JSON for people: per kind, every key and value the way that `edit` and `delete` take them.

What cannot be read as the current format is still shown: a row of an older format, which is only found in
the history, and a damaged one, which is what somebody dumps a catalog for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from hermit.errors import CorruptData
from hermit.formats import codec

Rows = dict[bytes, bytes]


def dump_rows(rows: Mapping[str, Rows]) -> str:
    """Live rows by collection as JSON."""
    shown = {
        name: [row_to_json(name, key, value) for key, value in sorted(table.items())]
        for name, table in rows.items()
    }
    return json.dumps(shown, indent=2, ensure_ascii=False)


def row_to_json(collection: str, key: bytes, value: bytes) -> dict[str, Any]:
    """One row, ready to be handed back to `edit` and `delete`."""
    return {"key": part_to_json(collection, "key", key), "value": part_to_json(collection, "value", value)}


def part_to_json(collection: str, part: codec.Part, data: bytes) -> dict[str, Any]:
    """A key or value as JSON; bytes that are not of the current format as hex."""
    try:
        return codec.to_json(collection, codec.decoder(collection, part)(data))
    except CorruptData:
        return {"$undecodable": data.hex()}

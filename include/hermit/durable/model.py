"""Small facts that the interface hands out."""

from __future__ import annotations

from typing import NamedTuple


class CollectionMetrics(NamedTuple):
    """How much of a catalog one collection is: live rows, and their keys and values in bytes."""

    name: str
    live_rows: int
    bytes: int


class OpenCheck(NamedTuple):
    """What `open` would do: nothing to the format when `found` is `current`."""

    found: int
    current: int
    objects: int

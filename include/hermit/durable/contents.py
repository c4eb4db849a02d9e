"""What "the contents" of a catalog are, for whoever moves, compares or digests them.

The contents are every row of every collection below, with one exception: the config entries that speak
about a *store* rather than about the catalog. A tombstone says that this backend is retired; carried to
the other backend it would retire that one. Such own entries stay where they are when contents move,
and no digest counts them. Imports nothing heavy: Spark executors use it too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hermit.formats import config
from hermit.formats.collections import COLLECTIONS
from hermit.rows import Row

CONFIG = "config"
FENCE = "fence"

MOVED: tuple[str, ...] = COLLECTIONS
"""Every collection that a move carries over, in the order in which they are listed everywhere."""

MOVE_PROTOCOL = "move_protocol"
"""The config key that says under which protocol a store's tombstone is to be read."""

COPIED_BATCH = "copied_batch"
"""The config key that names, by a number, the batch that last replaced a store's contents."""

OWN_CONFIG = frozenset({config.TOMBSTONE, MOVE_PROTOCOL, COPIED_BATCH})
"""Config keys that belong to one store and never leave it."""

_OWN_CONFIG_KEYS = frozenset(config.encode_key(key) for key in OWN_CONFIG)


def is_own_config(collection: str, key: bytes) -> bool:
    """Whether this row speaks about its store, so that it stays when the contents move."""
    return collection == CONFIG and key in _OWN_CONFIG_KEYS


def moved_rows(rows: Iterable[Row]) -> Iterator[Row]:
    """Those of the rows that are contents."""
    return (row for row in rows if not is_own_config(row.collection, row.key))

"""Reading whole collections of the stash into memory, in one pass.

Most rows of a stash have diff +1 and a key of their own. Those that have not, the work list of
consolidation, are few and have an index: they are fetched first, and only rows that share a key with one
of them are summed up here. The server sorts and groups nothing, and a stash that nobody consolidated for
a while opens about as fast as one that was. Where they are many after all, as after an upgrade that rewrote a
large catalog, the server sums, so that memory is bounded by what is live.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hermit.errors import CorruptData
from hermit.stash import StashTransaction
from hermit.stash.schema import render

Rows = dict[bytes, bytes]
Sums = Counter[tuple[bytes, bytes]]

_WORK_ROWS_MAX = 20_000
_WORK = "SELECT key, value, diff FROM {schema}.{heap} WHERE collection_id = %s AND diff <> 1 LIMIT %s"
_ROWS = "SELECT key, value FROM {schema}.{heap} WHERE collection_id = %s AND diff = 1"


def load(transaction: StashTransaction, schema: str, collections: Sequence[str]) -> dict[str, Rows]:
    """The live rows of these collections, by key."""
    ids, heap = transaction.collections(), transaction.row.heap
    work, rows = (render(query, schema=schema, heap=heap) for query in (_WORK, _ROWS))
    return {
        name: _load_one(transaction, name, ids[name], work, rows) if name in ids else {}
        for name in collections
    }


def _load_one(transaction: StashTransaction, name: str, id_: int, work: bytes, rows: bytes) -> Rows:
    waiting = transaction.execute(work, [id_, _WORK_ROWS_MAX + 1], binary=True).fetchall()
    if len(waiting) > _WORK_ROWS_MAX:
        return _load_summed(transaction, name)
    sums: Sums = Counter()
    for key, value, diff in waiting:
        sums[key, value] += diff
    if not sums:
        return dict(transaction.stream(rows, [id_]))
    shared = {key for key, _ in sums}
    found: Rows = {}
    for key, value in transaction.stream(rows, [id_]):
        if key in shared:
            sums[key, value] += 1
        else:
            found[key] = value
    for (key, value), total in sums.items():
        if total not in (0, 1) or (total and key in found):
            raise _ambiguous(name, key)
        if total:
            found[key] = value
    return found


def _load_summed(transaction: StashTransaction, name: str) -> Rows:
    found: Rows = {}
    for key, value in transaction.rows(name):
        if key in found:
            raise _ambiguous(name, key)
        found[key] = value
    return found


def _ambiguous(name: str, key: bytes) -> CorruptData:
    return CorruptData(
        f"{name} in the stash does not hold one value for the key {key.hex()}",
        hint="restore the catalog from a copy",
        collection=name,
    )

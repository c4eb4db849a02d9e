"""The cut-over: a side table becomes the contents, in one transaction of a few small writes.

Before it, outside the transaction and in proportion to the rows: the side is sealed, indexed, and
checked to name only collections of this component. In it, fenced like any write: this store's own
config entries are put into the side table, all collections move on by one time, and the fence gets the
table's name. After it the old table is dropped; if a crash comes first, the next `create_side` does it.

Rows of a side table have time 0 and diff 1. The cut-over sets `since` to the old upper, and times up to
`since` are read as `since`: so the rows are what a collection holds from then on.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from hermit.digest import Digest, collection_seed, hash_row
from hermit.errors import CorruptData
from hermit.rows import Row
from hermit.stash.handle import Stash
from hermit.stash.schema import HEAP_INDEXES, Heap, create_heap_indexes, render, stored_heap
from hermit.stash.side import drop_replaced, seal_side, side_table
from hermit.stash.transaction import StashTransaction

T = TypeVar("T")
_INDEXES = len(HEAP_INDEXES)
_COUNT_INDEXES = b"SELECT count(*) FROM pg_index WHERE indrelid = %s::regclass"
# Distinct collections through the index: one look-up each, however many rows.
_IDS = """
WITH RECURSIVE ids AS (
    (SELECT collection_id AS id FROM {schema}.{heap} ORDER BY collection_id LIMIT 1)
    UNION ALL
    SELECT (SELECT collection_id FROM {schema}.{heap} WHERE collection_id > ids.id
            ORDER BY collection_id LIMIT 1)
    FROM ids WHERE ids.id IS NOT NULL
) SELECT id FROM ids WHERE id IS NOT NULL
"""
_INSERT = "INSERT INTO {schema}.{heap} (collection_id, key, value) VALUES (%s, %s, %s)"
_RENAME = "ALTER TABLE {schema}.{heap} RENAME TO {name}"
_FORGET_PARTS = "DELETE FROM {schema}.side_parts WHERE side = %s"


def digests(stash: Stash, *, side: str | None = None) -> dict[str, Digest]:
    """The digest per collection that holds rows, of the contents or of a side (which it seals).

    This store's own tombstone is left out: it is not part of what moves.
    """
    if side is None:
        return stash.read(lambda transaction: _digests(transaction, None))
    seal_side(stash, side)
    heap = stored_heap(stash.schema, side_table(side))
    return stash.read(lambda transaction: _digests(transaction, heap))


def visit_side(stash: Stash, side: str, visit: Callable[[Iterable[Row]], T]) -> T:
    """Give all rows of a side to a function, in one read."""
    heap = stored_heap(stash.schema, side_table(side))

    def body(transaction: StashTransaction) -> T:
        names = {number: name for name, number in transaction.collections().items()}
        return visit(Row(names[number], key, value) for key, value, number, _ in transaction.everything(heap))

    return stash.read(body)


def replace_from_side(stash: Stash, side: str, *, config: Mapping[str, int | None]) -> None:
    """Make the side the contents, with these own config entries (None: absent) forced in.

    The tombstone, if `config` does not name it, stays what it is.
    """
    prepare_side(stash, side)
    cut_over(stash, side, config=config)
    drop_replaced(stash)


def cut_over(stash: Stash, side: str, *, config: Mapping[str, int | None]) -> None:
    """The transaction alone, over a side that is prepared: as long for many rows as for few."""
    replacement = f"data_r{secrets.token_hex(8)}"
    stash.write(lambda transaction: _cut_over(transaction, stash.schema, side, replacement, config))


def prepare_side(stash: Stash, side: str) -> None:
    """Do everything that takes time in proportion to the rows; doing it again is quick."""
    seal_side(stash, side)
    known = stash.read(lambda transaction: set(transaction.collections().values()))
    table = side_table(side)
    name = render("{schema}.{heap}", schema=stash.schema, heap=table)
    with stash.separate_connection() as connection:
        found = connection.execute(_COUNT_INDEXES, [name.decode()]).fetchone()
        if found is None or found[0] < _INDEXES:
            with connection.transaction():
                for statement in create_heap_indexes(stash.schema, table):
                    connection.execute(statement)
            connection.execute(b"ANALYZE " + name)
        ids = {number for (number,) in connection.execute(render(_IDS, schema=stash.schema, heap=table))}
    strange = sorted(ids - known)
    if strange:
        raise CorruptData(f"{stash.where}: the side {side!r} has rows of unknown collections: {strange}")


def _cut_over(
    transaction: StashTransaction,
    schema: str,
    side: str,
    replacement: str,
    config: Mapping[str, int | None],
) -> None:
    from hermit.formats import config as encoding

    transaction.execute(b"SET LOCAL lock_timeout = '10s'")
    table = side_table(side)
    heap = stored_heap(schema, table)
    own = {encoding.TOMBSTONE: _stored_tombstone(transaction), **config}
    place = transaction.ensure_collections([encoding.COLLECTION])[encoding.COLLECTION]
    for name, value in own.items():
        key = encoding.encode_key(name)
        transaction.execute(heap.forget_key, [place.collection_id, key, key])
        if value is not None:
            row = [place.collection_id, key, encoding.encode_value(value)]
            transaction.execute(render(_INSERT, schema=schema, heap=table), row)
    transaction.execute(render(_RENAME, schema=schema, heap=table, name=replacement))
    transaction.execute(render(_FORGET_PARTS, schema=schema), [side])
    transaction.replace_contents(replacement)


def _stored_tombstone(transaction: StashTransaction) -> int | None:
    from hermit.formats import config

    value = transaction.get(config.COLLECTION, config.encode_key(config.TOMBSTONE))
    return None if value is None else config.decode_value(value)


def _digests(transaction: StashTransaction, heap: Heap | None) -> dict[str, Digest]:
    from hermit.formats import config

    names = {number: name for name, number in transaction.collections().items()}
    seeds = {number: collection_seed(name) for number, name in names.items()}
    rows = dict.fromkeys(names, 0)
    totals = dict.fromkeys(names, 0)
    own = (transaction.collections().get(config.COLLECTION), config.encode_key(config.TOMBSTONE))
    for key, value, number, diff in transaction.everything(heap):
        if (number, key) == own:
            continue
        rows[number] += diff
        totals[number] += diff * hash_row(seeds[number], key, value)
    return {names[n]: Digest(rows[n], totals[n] & (2**64 - 1)) for n in names if rows[n] or totals[n]}

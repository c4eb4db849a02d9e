"""Consolidation: merging updates that cancel out, beside the writer.

Normal form: every stored diff is +1. What is not, is on the work list, which the second index of a
heap holds and nothing else. One batch takes rows off the work list together with the +1 rows of the
same key and value, and puts back what their diffs sum to, in one statement. A row is deleted by exactly
one transaction and its diff counted where it was deleted, so that sums stay what they are whatever runs at
the same time: the writer, who only adds, or another consolidation. Running it again finds nothing to do.

The cost is that of the work list and one index look-up per entry: what changed since the last time, not
how much is stored, nor how much was ever written. Contents do not change, so the version does not either.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import psycopg

from hermit.stash.fence import FenceRow
from hermit.stash.handle import Stash
from hermit.stash.schema import render

# Rows of the work list per transaction: an opener waits for at most one such batch.
BATCH_ROWS = 5_000

_MERGE = """
WITH taken AS (
    DELETE FROM {schema}.{heap} WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM {schema}.{heap}
        WHERE collection_id = %s AND time <= %s AND diff <> 1 ORDER BY time LIMIT %s FOR UPDATE SKIP LOCKED
    )) RETURNING key, value, diff
), met AS (
    DELETE FROM {schema}.{heap} AS d USING (SELECT DISTINCT key, value FROM taken) AS t
    WHERE d.collection_id = %s AND substr(d.key, 1, {prefix}) = substr(t.key, 1, {prefix})
      AND d.key = t.key AND d.value = t.value AND d.time <= %s AND d.diff = 1
    RETURNING d.key, d.value, d.diff
), summed AS (
    SELECT key, value, sum(diff)::bigint AS diff
    FROM (SELECT * FROM taken UNION ALL SELECT * FROM met) AS u GROUP BY key, value HAVING sum(diff) <> 0
), put AS (
    INSERT INTO {schema}.{heap} (collection_id, key, value, time, diff)
    SELECT %s, s.key, s.value, %s, CASE WHEN s.diff > 0 THEN 1 ELSE s.diff END
    FROM summed s, generate_series(1, CASE WHEN s.diff > 0 THEN s.diff ELSE 1 END)
    RETURNING diff
)
SELECT (SELECT count(*) FROM taken), (SELECT count(*) FROM met), (SELECT count(*) FROM put),
       (SELECT count(*) FROM put WHERE diff <> 1)
"""
_FRONTIERS = """
SELECT c.name, c.collection_id, u.upper FROM {schema}.collections c
JOIN {schema}.uppers u ON u.collection_id = c.collection_id WHERE c.component = %s ORDER BY c.collection_id
"""
_COMPACT = "UPDATE {schema}.sinces SET since = %s WHERE collection_id = %s AND since < %s"
_SINCE = "SELECT since FROM {schema}.sinces WHERE collection_id = %s"


@dataclass(frozen=True)
class Consolidation:
    """What a run did: rows it took from the table, and rows it put back."""

    removed: int = 0
    added: int = 0

    def __add__(self, other: Consolidation) -> Consolidation:
        return Consolidation(self.removed + other.removed, self.added + other.added)


def consolidate(
    stash: Stash, collections: Iterable[str] | None = None, *, keep_history: bool = False
) -> Consolidation:
    """Merge the updates of these collections, or of all.

    First moves `since` to the last complete time, unless `keep_history`: then only what was compacted
    before is merged.
    """
    wanted = None if collections is None else set(collections)
    total = Consolidation()
    if stash.is_dry_run:
        return total
    for name, collection_id, since in stash.beside(lambda c, row: _frontiers(stash, c, keep_history)):
        if wanted is None or name in wanted:
            total += _consolidate_one(stash, collection_id, since)
    return total


def _frontiers(
    stash: Stash, connection: psycopg.Connection, keep_history: bool
) -> list[tuple[str, int, int]]:
    found = connection.execute(render(_FRONTIERS, schema=stash.schema), [stash.component]).fetchall()
    result = []
    for name, collection_id, upper in found:
        if not keep_history and upper > 1:
            compact = render(_COMPACT, schema=stash.schema)
            connection.execute(compact, [upper - 1, collection_id, upper - 1])
        since = connection.execute(render(_SINCE, schema=stash.schema), [collection_id]).fetchone()
        result.append((name, collection_id, 0 if since is None else int(since[0])))
    return result


def _consolidate_one(stash: Stash, collection_id: int, since: int) -> Consolidation:
    total = Consolidation()
    while True:
        taken, done, stuck = stash.beside(lambda c, row: _merge(stash, c, row, collection_id, since))
        total += done
        # Retractions without a row to retract are put back: no progress is possible on these.
        if taken < BATCH_ROWS or stuck == taken:
            return total


def _merge(
    stash: Stash, connection: psycopg.Connection, row: FenceRow, collection_id: int, since: int
) -> tuple[int, Consolidation, int]:
    found = connection.execute(
        merge_statement(stash.schema, row.heap),
        [collection_id, since, BATCH_ROWS, collection_id, since, collection_id, since],
    ).fetchone()
    taken, met, put, stuck = found if found is not None else (0, 0, 0, 0)
    return taken, Consolidation(taken + met, put), stuck


@lru_cache(maxsize=64)
def merge_statement(schema: str, heap: str) -> bytes:
    """The statement that merges one batch."""
    return render(_MERGE, schema=schema, heap=heap)

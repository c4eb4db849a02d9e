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
_COMPACT = """
UPDATE {schema}.sinces AS s SET since = u.upper - 1
FROM {schema}.uppers AS u JOIN {schema}.collections AS c ON c.collection_id = u.collection_id
WHERE s.collection_id = u.collection_id AND s.since < u.upper - 1
  AND c.component = {component} AND (%s::text[] IS NULL OR c.name = ANY (%s::text[]))
"""
# Which collections have something to merge, by one look at the work list each.
_WORK = """
SELECT c.collection_id, s.since
FROM {schema}.collections AS c JOIN {schema}.sinces AS s ON s.collection_id = c.collection_id
WHERE c.component = {component} AND (%s::text[] IS NULL OR c.name = ANY (%s::text[]))
  AND EXISTS (
    SELECT 1 FROM {schema}.{heap} AS d
    WHERE d.collection_id = c.collection_id AND d.time <= s.since AND d.diff <> 1
  )
"""


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
    if stash.is_dry_run:
        return Consolidation()
    wanted = None if collections is None else list(collections)
    work = stash.beside(lambda connection, row: _work(stash, connection, row, wanted, keep_history))
    return sum((_consolidate_one(stash, *place) for place in work), start=Consolidation())


def _work(
    stash: Stash, connection: psycopg.Connection, row: FenceRow, wanted: list[str] | None, keep_history: bool
) -> list[tuple[int, int]]:
    """Move `since`, unless history is kept, and find what there is to merge."""
    names = {"schema": stash.schema, "component": stash.component}
    if not keep_history:
        connection.execute(render(_COMPACT, **names), [wanted, wanted])
    return connection.execute(render(_WORK, heap=row.heap, **names), [wanted, wanted]).fetchall()


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

"""Stash: what fencing, bookkeeping and history cost, beside bare psycopg on the same server.

Rounds of Hermit and of its rival take turns, and each is judged by its best or median round, so that a
busy machine slows both. The rivals:

- a small commit: psycopg with as many round trips, inserting the same rows into the same kind of table,
  with no fence, no frontiers and no retry;
- an append: `COPY FROM` of the very bytes that Hermit sends, encoded beforehand, into a table with the same
  columns and one index, by collection and time;
- history: a fresh stash, in its first thousand commits.
"""

from __future__ import annotations

import random
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter

import psycopg

from hermit.bench import Bar
from hermit.embedded.postgres import EmbeddedPostgres
from hermit.rows import Row
from hermit.stash import Stash, StashClient
from hermit.stash.batch import COPY_HEADER, COPY_TRAILER, encode_copy
from hermit.stash.consolidate import consolidate

Change = tuple[Row, int]

_COLUMNS = """(
    collection_id bigint NOT NULL, key bytea NOT NULL, value bytea NOT NULL,
    time bigint NOT NULL DEFAULT 0, diff bigint NOT NULL DEFAULT 1
)"""
_ROWS_PER_COMMIT = 3
_KEYS = 1_000
_COMMITS_PER_BLOCK = 100


def run(quick: bool, workdir: Path) -> list[Bar]:
    """Measure every bar of this area."""
    with _server(workdir) as url:
        return [
            _small_commit(url, rounds=300 if quick else 2_000),
            _fence_check(url),
            _append(url, rows=100_000 if quick else 1_000_000, rounds=3),
            _history(url, commits=3_000 if quick else 100_000, blocks=10),
        ]


@contextmanager
def _server(workdir: Path) -> Iterator[str]:
    # The server's own checkpoints would hit one rival and spare the other.
    settings = {"max_wal_size": "16GB", "checkpoint_timeout": "1h"}
    server = EmbeddedPostgres(workdir / "pg", settings=settings)
    server.start()
    try:
        yield server.url()
    finally:
        server.release()


@contextmanager
def _stash(url: str) -> Iterator[Stash]:
    with StashClient(url, uuid.uuid4()).open(lambda transaction: None)[0] as stash:
        yield stash


def _seconds(action: Callable[[], object]) -> float:
    start = perf_counter()
    action()
    return perf_counter() - start


def _small_commit(url: str, rounds: int) -> Bar:
    changes = [(Row("items", b"key %d" % n, b"v" * 100), 1) for n in range(_ROWS_PER_COMMIT)]
    columns = [[1] * _ROWS_PER_COMMIT, [c[0].key for c in changes], [c[0].value for c in changes]]
    insert = (
        "INSERT INTO small (collection_id, key, value)"
        " SELECT * FROM unnest(%b::bigint[], %b::bytea[], %b::bytea[])"
    )
    with _stash(url) as stash, psycopg.connect(url, autocommit=True) as bare:
        bare.execute(f"DROP TABLE IF EXISTS small; CREATE TABLE small {_COLUMNS}")
        bare.execute("CREATE INDEX ON small (collection_id, time)")

        def commit() -> None:
            bare.execute("BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT 1")
            with bare.pipeline():
                bare.execute(insert, columns)
                bare.execute("COMMIT")

        theirs, ours = [], []
        for _ in range(rounds):
            theirs.append(_seconds(commit))
            ours.append(_seconds(lambda: stash.write(lambda t: t.append(changes))))
    return Bar("a small commit, to a bare one with as many round trips", median(ours) / median(theirs), 1.5)


def _fence_check(url: str) -> Bar:
    """Counted in libpq's own trace of the protocol."""
    with _stash(url) as stash, tempfile.TemporaryFile("w+") as trace:
        stash.confirm()
        with stash.traced(trace.fileno()):
            stash.confirm()
        trace.seek(0)
        sent = [line.split("\t") for line in trace if "\tF\t" in line]
    trips = sum(1 for fields in sent if fields[3].strip() in ("Sync", "Query"))
    return Bar("round trips of the fence check on a read", float(trips), 1.0)


def _append(url: str, rows: int, rounds: int) -> Bar:
    generator = random.Random(1)
    values = [generator.randbytes(150) for _ in range(1_000)]
    changes: list[Change] = [
        (Row("items", b"\x0a\x0d\x08" + n.to_bytes(8, "big"), values[n % 1_000]), 1) for n in range(rows)
    ]
    stored = [(1, row.key, row.value, 0, diff) for row, diff in changes]
    encoded = [encode_copy(stored[n : n + 256]) for n in range(0, rows, 256)]
    del stored

    def copy(connection: psycopg.Connection) -> None:
        query = "COPY bulk FROM STDIN (FORMAT BINARY)"
        with connection.transaction(), connection.cursor() as cursor, cursor.copy(query) as stream:
            for part in (COPY_HEADER, *encoded, COPY_TRAILER):
                stream.write(part)

    theirs, ours = [], []
    with psycopg.connect(url, autocommit=True) as bare:
        for _ in range(rounds):
            bare.execute(f"DROP TABLE IF EXISTS bulk; CREATE TABLE bulk {_COLUMNS}")
            bare.execute("CREATE INDEX ON bulk (collection_id, time)")
            bare.execute("CHECKPOINT")
            theirs.append(_seconds(lambda: copy(bare)))
            with _stash(url) as stash:
                bare.execute("CHECKPOINT")
                ours.append(_seconds(lambda: stash.write(lambda t: t.append(changes))))
                bare.execute(f"DROP SCHEMA {stash.schema} CASCADE")
    return Bar(f"an append of {rows:,} rows, to a bare COPY FROM", min(ours) / min(theirs), 1.5)


class _Churn:
    """Replaces values of a fixed set of keys, and consolidates as it goes on."""

    def __init__(self, stash: Stash) -> None:
        self._stash = stash
        self._generator = random.Random(2)
        self._values = {b"key %d" % number: self._generator.randbytes(100) for number in range(_KEYS)}
        # All keys are there from the start, so that the first commit does the same work as the last.
        stash.write(lambda t: t.append((Row("items", *pair), 1) for pair in self._values.items()))

    def block(self) -> None:
        for _ in range(_COMMITS_PER_BLOCK):
            key = b"key %d" % self._generator.randrange(_KEYS)
            old, new = self._values[key], self._generator.randbytes(100)
            changes = [(Row("items", key, old), -1), (Row("items", key, new), 1)]
            self._stash.write(lambda t, changes=changes: t.append(changes))  # type: ignore[misc]
            self._values[key] = new
        consolidate(self._stash)


def _history(url: str, commits: int, blocks: int) -> Bar:
    with _stash(url) as aged, _stash(url) as fresh:
        old, new = _Churn(aged), _Churn(fresh)
        for _ in range(commits // _COMMITS_PER_BLOCK):
            old.block()
        aging, beginning = [], []
        for _ in range(blocks):
            aging.append(_seconds(old.block))
            beginning.append(_seconds(new.block))
    name = f"a commit after {commits:,} with consolidation, to one of the first 1,000"
    return Bar(name, median(aging) / median(beginning), 1.2)

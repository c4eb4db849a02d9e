"""Rehearsing a move: the traffic of one catalog on two others, a stash and a shard, compared at every step.

Both are made for the rehearsal, begin with the contents that the traffic starts from, and go through the
shadow implementation, so that every operation of every transaction, every commit and in the end every
getter, the dump and the digests must come out the same on both.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from hermit.digest import Digest, digest_rows
from hermit.durable import (
    init_persist_catalog_state,
    init_shadow_catalog_state,
    init_stash_catalog_state,
)
from hermit.durable.abc import DurableCatalogState
from hermit.durable.contents import MOVED, moved_rows
from hermit.durable.errors import ShadowMismatch
from hermit.durable.traffic import Changes, Traffic
from hermit.durable.transaction import CatalogTransaction
from hermit.formats import codec
from hermit.objects import KINDS
from hermit.rows import Row

Expected = dict[tuple[str, bytes], bytes]


@dataclass
class Report:
    """What was compared."""

    objects: int = 0
    commits: int = 0
    changes: int = 0
    digests: Mapping[str, Digest] | None = None


def rehearse(
    shadow: DurableCatalogState, traffic: Traffic, progress: Callable[[Report], None] = lambda report: None
) -> Report:
    """Run the traffic on a shadow catalog; `ShadowMismatch` at the first difference."""
    expected: Expected = {}
    report = Report(objects=len(traffic.contents))
    _begin_with(shadow, traffic.contents, expected)
    progress(report)
    for changes in traffic.commits:
        _commit(shadow, changes, expected)
        report.commits += 1
        report.changes += len(changes)
        progress(report)
    report.digests = compare_all(shadow)
    _check_against(report.digests, expected)
    return report


@contextlib.contextmanager
def scratch_catalog(stash_url: str) -> Iterator[DurableCatalogState]:
    """A catalog on both kinds of store, in a schema and a folder of its own, that is gone afterwards."""
    stash = init_stash_catalog_state(stash_url, uuid.uuid4())
    folder = tempfile.mkdtemp(prefix="hermit-shadow-")
    try:
        persist = init_persist_catalog_state(f"{folder}/shard")
        with init_shadow_catalog_state(stash, persist).open() as shadow:
            yield shadow
    finally:
        _drop(stash_url, stash.client.schema)
        shutil.rmtree(folder, ignore_errors=True)


def _drop(stash_url: str, schema: str) -> None:
    with psycopg.connect(stash_url, autocommit=True) as connection:
        connection.execute(
            sql.SQL("DROP SCHEMA IF EXISTS {schema} CASCADE").format(schema=sql.Identifier(schema))
        )


def compare_all(shadow: DurableCatalogState) -> dict[str, Digest]:
    """Ask a shadow catalog for everything it has, so that everything is compared."""
    for kind in KINDS:
        shadow.objects(kind)
    shadow.dump()
    shadow.snapshot()
    shadow.metrics()
    shadow.tombstone()
    shadow.confirm_leadership()
    return shadow.digests()


def _begin_with(shadow: DurableCatalogState, rows: Iterable[Row], expected: Expected) -> None:
    with shadow.transaction() as transaction:
        for kind in KINDS:
            transaction.table(kind).delete_where(lambda key, value: True)
        for row in rows:
            transaction.table(row.collection).insert(*_decoded(row))
            expected[row.collection, row.key] = row.value
        shadow.commit_transaction(transaction)


def _commit(shadow: DurableCatalogState, changes: Changes, expected: Expected) -> None:
    with shadow.transaction() as transaction:
        # Retractions first: a changed object is one that goes and comes back with another value.
        for row, diff in sorted(changes, key=lambda change: change[1]):
            _apply(transaction, row, diff, expected)
        shadow.commit_transaction(transaction)
    for collection, key in {(row.collection, row.key) for row, _ in changes}:
        if KINDS[collection].cached:
            shadow.object(collection, codec.decode_key(collection, key))


def _apply(transaction: CatalogTransaction, row: Row, diff: int, expected: Expected) -> None:
    key, value = _decoded(row)
    if diff < 0:
        transaction.table(row.collection).delete(key)
        expected.pop((row.collection, row.key), None)
    else:
        transaction.table(row.collection).set(key, value)
        expected[row.collection, row.key] = row.value


def _decoded(row: Row) -> tuple[Any, Any]:
    return codec.decode_key(row.collection, row.key), codec.decode_value(row.collection, row.value)


def _check_against(found: Mapping[str, Digest], expected: Expected) -> None:
    """Both sides agree by now; they must also agree with what the traffic adds up to."""
    rows = moved_rows(Row(collection, key, value) for (collection, key), value in expected.items())
    wanted = digest_rows(rows)
    different = [name for name in MOVED if found[name] != wanted.get(name, Digest())]
    if different:
        raise ShadowMismatch(
            f"after the rehearsal, both sides differ from the traffic in {', '.join(different)}",
            hint="please report this: neither store holds what was committed",
            method="rehearse",
            primary=str({name: str(found[name]) for name in different}),
            secondary=str({name: str(wanted.get(name, Digest())) for name in different}),
        )

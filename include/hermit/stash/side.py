"""Bulk in: a side table, filled while nobody looks.

Any number of processes fill it, each call in a transaction of its own. A part that was completed is
remembered under its name, so that a task which runs again adds nothing twice. Sealing a side waits for
calls that are under way and refuses those that come later: what is verified after that is what will be
the contents, even if a task that everybody believed dead wakes up.

A call that is under way may never end: its process was stopped, or its host is gone, and a server that waits
for the next row of a COPY knows no time-out. So whoever drops a side, or goes on with what another attempt
left, has the server end those calls first. He holds the fence: they are of an attempt that is over.

How a side becomes the contents is in `cutover.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from uuid import UUID

import psycopg
from psycopg import errors as pg

from hermit.errors import InvalidInput
from hermit.stash import arrow
from hermit.stash.batch import ROW_BYTES_MAX, refuse_large
from hermit.stash.client import StashClient
from hermit.stash.connection import DEAD_CLIENT, Target
from hermit.stash.errors import SideIncomplete, SideMissing, SideSealed
from hermit.stash.fence import FenceRow
from hermit.stash.handle import Stash
from hermit.stash.schema import check_collection, control, create_heap, render, schema_name
from hermit.stash.transaction import StashTransaction

if TYPE_CHECKING:
    import pyarrow as pa

_SIDE_NAME = re.compile(r"[a-z0-9_]{1,48}")
_PREFIX = "side_"
_WHOLE = ""
_OPEN, _SEALED = 0, -1
_MISSING = ("42P01", "3F000")  # No such table, no such schema.

_UNUSED = """
SELECT table_name FROM information_schema.tables WHERE table_schema = %s
AND (table_name LIKE 'side\\_%%' OR table_name LIKE 'data%%') AND table_name <> 'side_parts'
AND table_name NOT IN (SELECT heap FROM {schema}.fence) ORDER BY table_name
"""
_KNOWN_PARTS = "SELECT part, rows FROM {schema}.side_parts WHERE side = %s"
_FORGET_PARTS = "DELETE FROM {schema}.side_parts WHERE side = %s"
_REMEMBER = "INSERT INTO {schema}.side_parts (side, part, rows) VALUES (%s, %s, %s)"
# Whoever writes to the table holds this lock on it from his first statement to his end, and nobody else does.
_END_WRITERS = """
SELECT pg_terminate_backend(pid) FROM pg_locks
WHERE locktype = 'relation' AND mode = 'RowExclusiveLock' AND relation = to_regclass(%s)
AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND pid <> pg_backend_pid()
"""
# One that comes in between is met when this is tried again.
_LOCK_TIMEOUT = b"SET LOCAL lock_timeout = '5s'"
_SEAL = "UPDATE {schema}.side_parts SET rows = %s WHERE side = %s AND part = %s"


def side_table(side: str) -> str:
    """The table of a side."""
    if not _SIDE_NAME.fullmatch(side) or side == "parts":
        raise InvalidInput(f"not a name for a side table: {side!r}", hint="a-z, 0-9 and _, at most 48")
    return _PREFIX + side


def sides(client: StashClient) -> list[str]:
    """Sides that exist: being filled, or left behind by a crash."""

    def look(transaction: StashTransaction | None) -> list[str]:
        unused = [] if transaction is None else _unused(transaction.execute, client.schema)
        return [name.removeprefix(_PREFIX) for name in unused if name.startswith(_PREFIX)]

    return client.look(look)


def create_side(stash: Stash, name: str, collections: Iterable[str] = ()) -> dict[str, int]:
    """Make an empty side table, in place of any of this name; returns the collections' identifiers.

    Collections named here are made, empty, where they do not exist, so that they have an identifier.
    """
    table, statements = side_table(name), control(stash.schema, stash.component)
    wanted = [check_collection(collection) for collection in collections]

    def make(connection: psycopg.Connection, row: FenceRow) -> tuple[dict[str, int], bool]:
        _drop(connection, stash.schema, name)
        connection.execute(create_heap(stash.schema, table))
        connection.execute(render(_REMEMBER, schema=stash.schema), [name, _WHOLE, _OPEN])
        connection.execute(statements.add_collections, [wanted])
        connection.execute(statements.add_uppers)
        connection.execute(statements.add_sinces)
        found = connection.execute(statements.collections)
        identifiers = {collection: collection_id for collection, collection_id, _ in found}
        return identifiers, bool(_replaced(connection.execute, stash.schema))

    identifiers, left_behind = stash.beside(make)
    stash.forget_places()
    # Mostly there is nothing, and a connection to find that out would take longer than all of the above.
    if left_behind:
        drop_replaced(stash)
    return identifiers


def resume_side(stash: Stash, name: str, parts: Iterable[str]) -> set[str] | None:
    """Which of these parts a side holds already; None if it cannot be gone on with: sealed, or not there,
    or with rows of other parts in it. Calls of an earlier attempt that still write to it are ended.
    """
    wanted = set(parts)

    def look(connection: psycopg.Connection, row: FenceRow) -> set[str] | None:
        if name not in {table.removeprefix(_PREFIX) for table in _unused(connection.execute, stash.schema)}:
            return None
        _end_writers(connection, stash.schema, name)
        found = connection.execute(render(_KNOWN_PARTS, schema=stash.schema), [name])
        known: dict[str, int] = dict(found.fetchall())
        done = set(known) - {_WHOLE}
        return done if known.get(_WHOLE) == _OPEN and done <= wanted else None

    return stash.beside(look)


def drop_side(stash: Stash, name: str) -> None:
    """Drop a side table, if it is there; calls that still write to it are ended."""
    stash.beside(lambda connection, row: _drop(connection, stash.schema, name))


def seal_side(stash: Stash, name: str) -> None:
    """Wait for calls that write to the side, and refuse later ones."""

    def seal(connection: psycopg.Connection, row: FenceRow) -> int:
        return connection.execute(render(_SEAL, schema=stash.schema), [_SEALED, name, _WHOLE]).rowcount

    if not stash.beside(seal):
        raise SideMissing(f"{stash.where} has no side table {name!r}")


def drop_replaced(stash: Stash) -> None:
    """Drop tables that were the contents once. One that is still being read is left for next time."""
    with stash.separate_connection() as connection:
        connection.execute(b"SET lock_timeout = '1s'")
        for table in _replaced(connection.execute, stash.schema):
            with suppress(pg.LockNotAvailable):
                connection.execute(
                    render("DROP TABLE IF EXISTS {schema}.{heap}", schema=stash.schema, heap=table)
                )


def write_side(
    url: str, organization_id: UUID, side: str, reader: pa.RecordBatchReader, *, part: str | None = None
) -> int:
    """Add rows of (collection_id, key, value) to a side table in one transaction; returns their number.

    A `part` that was written before is not written again: the answer is what it was then.
    """
    import adbc_driver_postgresql.dbapi as adbc
    import pyarrow as pa

    target, schema, table = Target(url), schema_name(organization_id), side_table(side)
    if part == _WHOLE:
        raise InvalidInput("a part of a side table needs a name")
    failures: list[Exception] = []
    checked = pa.RecordBatchReader.from_batches(reader.schema, _checked(reader, failures))
    try:
        with arrow.connect(url) as connection, connection.cursor() as cursor:
            done = _claim(cursor, schema, side, part)
            if done is not None:
                return done
            rows = int(cursor.adbc_ingest(table, checked, mode="append", db_schema_name=schema))
            if part is not None:
                _query(cursor, _PARTS_DONE.format(schema=schema), rows, side, part)
            connection.commit()
    except adbc.Error as error:
        if failures:
            raise failures[0] from None
        detail = target.redact(" ".join(str(error).split()))
        if error.sqlstate in _MISSING:
            raise SideMissing(f"there is no side table {side!r} for {organization_id}") from None
        raise SideIncomplete(f"rows for the side table {side!r} could not be written: {detail}") from None
    return rows


# ADBC takes numbered parameters. Schema and table have plain names (see `schema_name`, `side_table`).
_HOLD = 'LOCK TABLE "{schema}"."{table}" IN ROW EXCLUSIVE MODE'
_PARTS_STATE = 'SELECT rows FROM "{schema}".side_parts WHERE side = $1 AND part = $2 FOR SHARE'
_PARTS_CLAIM = (
    'INSERT INTO "{schema}".side_parts (side, part, rows) VALUES ($1, $2, 0)'
    " ON CONFLICT (side, part) DO NOTHING RETURNING rows"
)
_PARTS_DONE = 'UPDATE "{schema}".side_parts SET rows = $1 WHERE side = $2 AND part = $3 RETURNING rows'


def _claim(cursor: Any, schema: str, side: str, part: str | None) -> int | None:
    """Hold the side open, and take the part, waiting for another attempt at it; its rows if it is done."""
    cursor.execute(DEAD_CLIENT)
    cursor.execute(_HOLD.format(schema=schema, table=side_table(side)))
    state = _query(cursor, _PARTS_STATE.format(schema=schema), side, _WHOLE)
    if state is None:
        raise SideMissing(f"there is no side table {side!r}")
    if state == _SEALED:
        raise SideSealed(f"the side table {side!r} is sealed: no rows can be added")
    if part is None or _query(cursor, _PARTS_CLAIM.format(schema=schema), side, part) is not None:
        return None
    return _query(cursor, _PARTS_STATE.format(schema=schema), side, part)


def _query(cursor: Any, query: str, *parameters: object) -> int | None:
    cursor.execute(query, parameters)
    found = cursor.fetchone()
    return None if found is None else int(found[0])


def _checked(reader: pa.RecordBatchReader, failures: list[Exception]) -> Iterator[pa.RecordBatch]:
    """The same batches; a row that the stash would not take stops them.

    An exception on its way through Arrow's C interface becomes a text, so that it is noted here.
    """
    import pyarrow.compute as pc

    try:
        for batch in reader:
            sizes = pc.add(pc.binary_length(batch.column("key")), pc.binary_length(batch.column("value")))
            largest = pc.max(sizes).as_py()
            if largest is not None and largest > ROW_BYTES_MAX:
                refuse_large("a side table", 0, largest)
            yield batch
    except Exception as error:
        failures.append(error)
        raise


def _unused(execute: Any, schema: str) -> list[str]:
    return [name for (name,) in execute(render(_UNUSED, schema=schema), [schema]).fetchall()]


def _replaced(execute: Any, schema: str) -> list[str]:
    """Tables that were the contents once."""
    return [name for name in _unused(execute, schema) if not name.startswith(_PREFIX)]


def _drop(connection: psycopg.Connection, schema: str, name: str) -> None:
    _end_writers(connection, schema, name)
    connection.execute(render(_FORGET_PARTS, schema=schema), [name])
    connection.execute(render("DROP TABLE IF EXISTS {schema}.{heap}", schema=schema, heap=side_table(name)))


def _end_writers(connection: psycopg.Connection, schema: str, name: str) -> None:
    table = render("{schema}.{heap}", schema=schema, heap=side_table(name)).decode()
    connection.execute(_LOCK_TIMEOUT)
    connection.execute(_END_WRITERS, [table])

"""The stash's tables and every control statement, rendered once per schema.

One PostgreSQL schema per organization, `hermit_<uuid hex>`:

    fence(component, epoch, nonce, version, heap, opened_by, writer)    one row per component
    collections(collection_id, component, name)
    data(collection_id, key, value, time, diff)                   the catalog's heap
    uppers(collection_id, upper)   sinces(collection_id, since)
    writers(writer, component, epoch, version)                    the last version of earlier writers
    side_parts(side, part, rows)                                  what is complete in a side table; the
                                                                  part '' is the table, -1 if sealed

`fence.heap` names the table that holds a component's contents. Replacing the contents writes another
table name there: one row, MVCC like any other, so that a reader sees the old fence with the old
contents or the new fence with the new contents, and neither waits for the other. The first heap of the
catalog is called `data`; another component has a heap of its own.

Three indexes per heap. By collection and the start of the key: reads of one collection, look-ups,
consolidation. By collection and time, of just the rows whose diff is not +1: the work list of
consolidation, empty if all is consolidated. And a block range index by time, for what came last. Loading
insertions pays for the first only.

The statements on the control tables are plain SQL that CockroachDB takes as well; those on heaps use what
only PostgreSQL has (binary COPY, `ctid`, block range indexes). Names go in as identifiers, values as
parameters.
"""

from __future__ import annotations

import re
from functools import lru_cache
from uuid import UUID

from psycopg import sql

from hermit.errors import InvalidInput

CATALOG = "catalog"
KEY_PREFIX_BYTES = 64
COLLECTION_NAME_MAX = 255
FENCE_COLUMNS = ("epoch", "nonce", "version", "heap", "opened_by", "writer")

_COMPONENT = re.compile(r"[a-z][a-z0-9_]{0,31}")

_TABLES = """
CREATE TABLE {schema}.fence (
    component text PRIMARY KEY, epoch bigint NOT NULL, nonce bytea NOT NULL, version bigint NOT NULL,
    heap text NOT NULL, opened_by text NOT NULL, writer bytea NOT NULL
) WITH (fillfactor = 10);
CREATE TABLE {schema}.collections (
    collection_id bigserial PRIMARY KEY, component text NOT NULL, name text NOT NULL, UNIQUE (component, name)
);
CREATE TABLE {schema}.uppers (
    collection_id bigint PRIMARY KEY REFERENCES {schema}.collections, upper bigint NOT NULL
) WITH (fillfactor = 10);
CREATE TABLE {schema}.sinces (
    collection_id bigint PRIMARY KEY REFERENCES {schema}.collections, since bigint NOT NULL
) WITH (fillfactor = 10);
CREATE TABLE {schema}.writers (
    writer bytea PRIMARY KEY, component text NOT NULL, epoch bigint NOT NULL, version bigint NOT NULL
) WITH (fillfactor = 10);
CREATE TABLE {schema}.side_parts (
    side text NOT NULL, part text NOT NULL, rows bigint NOT NULL, PRIMARY KEY (side, part)
);
"""
_HEAP = """
CREATE TABLE {schema}.{heap} (
    collection_id bigint NOT NULL, key bytea NOT NULL, value bytea NOT NULL,
    time bigint NOT NULL DEFAULT 0, diff bigint NOT NULL DEFAULT 1
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000)
"""
HEAP_INDEXES = (
    "CREATE INDEX ON {schema}.{heap} (collection_id, substr(key, 1, {prefix}))",
    "CREATE INDEX ON {schema}.{heap} (collection_id, time) WHERE diff <> 1",
    "CREATE INDEX ON {schema}.{heap} USING brin (time) WITH (pages_per_range = 32, autosummarize = on)",
)


def schema_name(organization_id: UUID) -> str:
    """The schema that an organization's stash lives in."""
    return f"hermit_{organization_id.hex}"


def first_heap(component: str) -> str:
    """The table that a component's contents are in until they are first replaced."""
    return "data" if component == CATALOG else f"data_of_{component}"


def check_component(component: str) -> str:
    """The component's name, if it can be part of a table's name."""
    if not _COMPONENT.fullmatch(component):
        raise InvalidInput(f"not a component name: {component!r}", hint="a-z, 0-9 and _, at most 32")
    return component


def check_collection(name: str) -> str:
    """The collection's name, if PostgreSQL can store it as a text."""
    strange = "\0" in name or any("\ud800" <= letter <= "\udfff" for letter in name)
    if not 0 < len(name) <= COLLECTION_NAME_MAX or strange:
        raise InvalidInput(
            f"not a name for a collection: {name!r}", hint=f"1 to {COLLECTION_NAME_MAX} letters, none NUL"
        )
    return name


def render(template: str, **names: str) -> bytes:
    """A statement with identifiers filled in, as bytes so that psycopg need not render it again."""
    parts: dict[str, sql.Composable] = {name: sql.Identifier(value) for name, value in names.items()}
    parts["prefix"] = sql.Literal(KEY_PREFIX_BYTES)
    parts["columns"] = sql.SQL(", ").join(map(sql.Identifier, FENCE_COLUMNS))
    if "component" in names:
        parts["component"] = sql.Literal(names["component"])
    # The templates are constants of this package; psycopg's type wants a literal string.
    return sql.SQL(template).format(**parts).as_bytes(None)


def create_schema(schema: str) -> list[bytes]:
    """What makes an empty stash."""
    tables = [part for part in _TABLES.split(";\n") if part.strip()]
    return [render("CREATE SCHEMA {schema}", schema=schema), *(render(t, schema=schema) for t in tables)]


def create_heap(schema: str, heap: str) -> bytes:
    """What makes an empty table of contents, without indexes."""
    return render(_HEAP, schema=schema, heap=heap)


def create_heap_indexes(schema: str, heap: str) -> list[bytes]:
    """What a table of contents needs before it may be the contents."""
    return [render(template, schema=schema, heap=heap) for template in HEAP_INDEXES]


BEGIN_WRITE = b"BEGIN ISOLATION LEVEL SERIALIZABLE"
# An opener locks the fence's row before it reads anything else. Every write changes that row: whoever
# committed since the opener's snapshot was taken makes the lock fail (40001), and the open is tried again;
# whoever comes later waits for the opener. So nothing changes between its snapshot and its commit, which
# makes a snapshot as good as serializable, without the predicate locks that the upgrade of a large catalog
# would run out of. It may think for minutes between two statements.
BEGIN_OPEN = b"BEGIN ISOLATION LEVEL REPEATABLE READ; SET LOCAL idle_in_transaction_session_timeout = '10min'"
# A reader sees one snapshot. Writers take turns at the fence's row, so that every snapshot is a state
# between two of them: repeatable read is as good as serializable here and tracks no predicate locks.
BEGIN_READ = b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
# What moves no contents may run beside the writer: each of its statements is right on its own.
BEGIN_BESIDE = b"BEGIN ISOLATION LEVEL READ COMMITTED"
COMMIT = b"COMMIT"
ROLLBACK = b"ROLLBACK"


class Control:
    """Statements on the control tables of one schema."""

    def __init__(self, schema: str, component: str) -> None:
        def make(template: str) -> bytes:
            return render(template, schema=schema, component=component)

        self.schema = schema
        self.component = component
        read = "SELECT {columns} FROM {schema}.fence WHERE component = {component}"
        self.exists = (
            b"SELECT count(*) FROM information_schema.tables WHERE table_schema = %s AND table_name = 'fence'"
        )
        self.read_fence = make(read)
        self.lock_fence = make(read + " FOR UPDATE")
        # Holds off an opener (who takes the row for update), not a writer (who changes no key).
        self.share_fence = make(read + " FOR KEY SHARE")
        # Begin and compare, in one round trip: two statements in one message.
        self.begin_write = BEGIN_WRITE + b"; " + self.read_fence
        self.begin_read = BEGIN_READ + b"; " + self.read_fence
        self.begin_beside = BEGIN_BESIDE + b"; " + self.share_fence
        self.create_fence = make(
            "INSERT INTO {schema}.fence (component, epoch, nonce, version, heap, opened_by, writer)"
            " VALUES ({component}, 0, '', 0, %s, '', '') ON CONFLICT (component) DO NOTHING"
        )
        self.raise_epoch = make(
            "UPDATE {schema}.fence SET epoch = GREATEST(epoch + 1, %s), nonce = %s, version = version + %s,"
            " opened_by = %s, writer = '' WHERE component = {component} RETURNING {columns}"
        )
        self.raise_version = make(
            "UPDATE {schema}.fence SET version = %s, heap = %s, writer = %s"
            " WHERE component = {component} AND epoch = %s AND nonce = %s AND version = %s"
        )
        # Whoever writes after another first notes what that one wrote last.
        self.note_writer = make(
            "INSERT INTO {schema}.writers (writer, component, epoch, version)"
            " VALUES (%s, {component}, %s, %s) ON CONFLICT (writer) DO UPDATE SET version = excluded.version"
        )
        self.forget_writers = make(
            "DELETE FROM {schema}.writers WHERE component = {component} AND epoch < %s"
        )
        # Changes nothing, and yet waits for whoever holds the row and defeats whoever still wants it.
        self.barrier = make(
            "UPDATE {schema}.fence SET version = version"
            " WHERE component = {component} AND epoch = %s AND nonce = %s"
        )
        self.read_writer = make(
            "SELECT version FROM {schema}.fence WHERE component = {component} AND writer = %s"
            " UNION ALL SELECT version FROM {schema}.writers WHERE writer = %s"
        )
        self.collections = make(
            "SELECT c.name, c.collection_id, u.upper FROM {schema}.collections c"
            " JOIN {schema}.uppers u ON u.collection_id = c.collection_id WHERE c.component = {component}"
        )
        self.add_collections = make(
            "INSERT INTO {schema}.collections (component, name) SELECT {component}, unnest(%s::text[])"
            " ON CONFLICT (component, name) DO NOTHING"
        )
        self.add_uppers = make(
            "INSERT INTO {schema}.uppers (collection_id, upper) SELECT collection_id, 0"
            " FROM {schema}.collections WHERE component = {component} ON CONFLICT (collection_id) DO NOTHING"
        )
        self.add_sinces = make(
            "INSERT INTO {schema}.sinces (collection_id, since) SELECT collection_id, 0"
            " FROM {schema}.collections WHERE component = {component} ON CONFLICT (collection_id) DO NOTHING"
        )
        self.set_uppers = make(
            "UPDATE {schema}.uppers SET upper = moved.upper"
            " FROM unnest(%s::bigint[], %s::bigint[]) AS moved (id, upper) WHERE collection_id = moved.id"
        )
        self.set_sinces = make(
            "UPDATE {schema}.sinces SET since = moved.since"
            " FROM unnest(%s::bigint[], %s::bigint[]) AS moved (id, since) WHERE collection_id = moved.id"
        )
        self.read_since = make("SELECT since FROM {schema}.sinces WHERE collection_id = %s")
        self.set_since = make("UPDATE {schema}.sinces SET since = %s WHERE collection_id = %s AND since < %s")


class Heap:
    """Statements on one table of contents.

    A dry run reads the stored table together with a temporary one and writes only to the latter: then
    `source` is their union, and `target` the temporary table.
    """

    def __init__(self, source: bytes, target: bytes) -> None:
        def make(template: bytes) -> bytes:
            return template.replace(b"{source}", source).replace(b"{target}", target)

        prefix = b"%d" % KEY_PREFIX_BYTES
        columns = b"(collection_id, key, value, time, diff)"
        self.insert = make(
            b"INSERT INTO {target} " + columns + b" SELECT * FROM"
            b" unnest(%s::bigint[], %b::bytea[], %b::bytea[], %s::bigint[], %s::bigint[])"
        )
        self.copy = make(b"COPY {target} " + columns + b" FROM STDIN (FORMAT BINARY)")
        self.work = make(b"SELECT key, value, diff FROM {source} AS d WHERE collection_id = %s AND diff <> 1")
        self.rows_plain = make(b"SELECT key, value FROM {source} AS d WHERE collection_id = %s AND diff = 1")
        summed = (
            b"SELECT key, value, sum(diff)::bigint FROM {source} AS d WHERE collection_id = %s"
            b" AND time <= %s GROUP BY key, value HAVING sum(diff) <> 0"
        )
        self.rows_summed = make(summed)
        self.updates = make(
            b"SELECT key, value, time, diff FROM {source} AS d WHERE collection_id = %s AND time >= %s"
        )
        self.everything = make(b"SELECT key, value, collection_id, diff FROM {source} AS d")
        self.forget_key = make(
            b"DELETE FROM {target} WHERE collection_id = %s AND substr(key, 1, "
            + prefix
            + b") = substr(%s::bytea, 1, "
            + prefix
            + b") AND key = %s"
        )
        self.get = make(
            b"SELECT value, sum(diff)::bigint FROM {source} AS d WHERE collection_id = %s AND substr(key, 1, "
            + prefix
            + b") = substr(%s::bytea, 1, "
            + prefix
            + b")"
            b" AND key = %s GROUP BY value HAVING sum(diff) <> 0"
        )


@lru_cache(maxsize=64)
def stored_heap(schema: str, heap: str) -> Heap:
    """Statements on a stored table."""
    table = render("{schema}.{heap}", schema=schema, heap=heap)
    return Heap(table, table)


@lru_cache(maxsize=64)
def control(schema: str, component: str) -> Control:
    """Statements on the control tables of this schema, for one component."""
    return Control(schema, component)


@lru_cache(maxsize=64)
def finish_write(schema: str, component: str, heap: str, *, with_rows: bool) -> bytes:
    """The last statement of a write: pending rows, uppers and the fence, in one."""
    rows = b"added AS (" + stored_heap(schema, heap).insert + b"), " if with_rows else b""
    uppers = b"moved AS (" + control(schema, component).set_uppers + b") "
    return b"WITH " + rows + uppers + control(schema, component).raise_version

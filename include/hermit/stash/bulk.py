"""Bulk out: the contents as Arrow, in parts that any number of processes read at once.

`export` consolidates where that is needed, then opens a transaction and exports its snapshot. While that
stands open, parts of the table, cut by `ctid` ranges, are read under the same snapshot wherever
`read_range` is called: all parts together are the contents at one version, whatever is written meanwhile.
In it every diff is +1, so that a part need not know the others. Whoever only sums up can do without, and
asks for the updates as they are stored: then nothing is written.

The way back is in `side.py` and `cutover.py`; all are imported from here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import psycopg

from hermit.errors import ReadOnly
from hermit.stash import arrow
from hermit.stash.connection import Target
from hermit.stash.consolidate import consolidate
from hermit.stash.cutover import cut_over, digests, prepare_side, replace_from_side
from hermit.stash.errors import Contended, ExportGone
from hermit.stash.fence import FenceRow, check
from hermit.stash.handle import Stash, fence_row
from hermit.stash.schema import control, render
from hermit.stash.side import create_side, drop_side, resume_side, seal_side, sides, write_side

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "Export",
    "create_side",
    "cut_over",
    "digests",
    "drop_side",
    "export",
    "prepare_side",
    "read_range",
    "replace_from_side",
    "resume_side",
    "seal_side",
    "sides",
    "write_side",
]

# The exporting transaction stays open, idle, for as long as the parts are being read.
_BEGIN_EXPORT = b"""
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
SET LOCAL idle_in_transaction_session_timeout = 0;
"""
_ATTEMPTS_MAX = 10
_PAGES = b"SELECT pg_relation_size(%s::regclass) / current_setting('block_size')::int"
# The density that the server remembers; of a table that it never looked at, how full its first pages are.
_DENSITY = b"""
SELECT CASE WHEN reltuples > 0 AND relpages > 0 THEN reltuples / relpages END
FROM pg_class WHERE oid = %s::regclass
"""
_SAMPLE_PAGES = 16
_SAMPLE = "SELECT count(*) FROM {schema}.{heap} WHERE ctid < '(16,0)'::tid"
# A table that is rewritten gets another file; rows of one that is not keep their place. The database goes by
# its name: a look into a catalog that all databases share would keep it locked while the export lasts.
_IDENTITY = b"""
SELECT concat_ws('/', current_database(), %s::regclass::oid, pg_relation_filenode(%s::regclass))
"""


@dataclass(frozen=True)
class Export:
    """What a process needs, besides the URL, to read parts of one snapshot. No secrets in it."""

    snapshot: str
    version: int
    table: str
    ranges: list[tuple[int, int]]
    collections: dict[int, str]
    rows_estimate: int
    identity: str = ""
    """Changes whenever rows may lie elsewhere than before although the version is the same."""

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Export:
        fields = json.loads(text)
        fields["ranges"] = [(low, high) for low, high in fields["ranges"]]
        fields["collections"] = {int(number): name for number, name in fields["collections"].items()}
        return cls(**fields)


@contextmanager
def export(stash: Stash, partitions: int, *, as_stored: bool = False) -> Iterator[Export]:
    """The contents at one version, cut in `partitions` parts; valid until the context is left.

    `as_stored`: without consolidating, for whoever reads the diffs, too.
    """
    if stash.is_dry_run:
        raise ReadOnly(f"{stash.where}: what a dry run wrote cannot be exported")
    with stash.separate_connection() as connection:
        yield _begin(stash, connection, partitions, as_stored)


def read_range(
    url: str, export: Export, low: int, high: int, batch_rows: int = 65_536, *, with_diff: bool = False
) -> pa.RecordBatchReader:
    """One part as record batches of (collection_id int64, key binary, value binary[, diff int64])."""
    import pyarrow as pa

    fields = [("collection_id", pa.int64()), ("key", pa.binary()), ("value", pa.binary())]
    schema = pa.schema([*fields, ("diff", pa.int64())] if with_diff else fields)
    return pa.RecordBatchReader.from_batches(schema, _batches(url, export, (low, high), schema, batch_rows))


def _batches(
    url: str, export: Export, pages: tuple[int, int], schema: pa.Schema, batch_rows: int
) -> Iterator[pa.RecordBatch]:
    import adbc_driver_postgresql.dbapi as adbc

    low, high = (int(page) for page in pages)
    # A page number is an integer and the snapshot was quoted by the server; the others are identifiers.
    query = (
        f"SELECT {', '.join(schema.names)} FROM {export.table}"  # noqa: S608
        f" WHERE ctid >= '({low},0)'::tid AND ctid < '({high},0)'::tid"
    )
    target = Target(url)
    try:
        with arrow.connect(url) as connection, connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            cursor.execute(f"SET TRANSACTION SNAPSHOT {_literal(export.snapshot)}")
            cursor.execute(query)
            for batch in cursor.fetch_record_batch():
                for start in range(0, batch.num_rows, batch_rows):
                    part = batch.slice(start, batch_rows)
                    yield type(part).from_arrays(part.columns, schema=schema)
    except adbc.Error as error:
        detail = target.redact(" ".join(str(error).split()))
        raise ExportGone(f"a part of {export.table} could not be read: {detail}") from None


def _begin(stash: Stash, connection: psycopg.Connection, partitions: int, as_stored: bool) -> Export:
    statements = control(stash.schema, stash.component)
    for _ in range(_ATTEMPTS_MAX):
        connection.execute(_BEGIN_EXPORT)
        row = check(stash.token, fence_row(connection, statements.read_fence), stash.where)
        work = render("SELECT EXISTS (SELECT 1 FROM {schema}.{heap} WHERE diff <> 1)", **_names(stash, row))
        # In any case asked: from here on the table cannot be dropped.
        if not _one(connection, work) or as_stored:
            return _describe(stash, connection, row, partitions)
        # Mostly there is nothing to do. Where there is, a writer may get in again afterwards.
        connection.execute(b"ROLLBACK")
        consolidate(stash)
    raise Contended(f"{stash.where}: no consolidated moment in {_ATTEMPTS_MAX} attempts")


def _describe(stash: Stash, connection: psycopg.Connection, row: FenceRow, partitions: int) -> Export:
    table = render("{schema}.{heap}", **_names(stash, row)).decode()
    # The size is read after the snapshot was taken: every row that it shows is on a page below it.
    pages = _one(connection, _PAGES, table)
    found = connection.execute(control(stash.schema, stash.component).collections).fetchall()
    step = max(1, -(-pages // partitions))
    return Export(
        snapshot=_one(connection, b"SELECT pg_export_snapshot()"),
        version=row.version,
        table=table,
        ranges=[(low, min(low + step, pages)) for low in range(0, pages, step)],
        collections={collection_id: name for name, collection_id, _ in found},
        rows_estimate=_estimate(stash, connection, row, pages),
        identity=_one(connection, _IDENTITY, table, table),
    )


def _estimate(stash: Stash, connection: psycopg.Connection, row: FenceRow, pages: int) -> int:
    names = _names(stash, row)
    density = _one(connection, _DENSITY, render("{schema}.{heap}", **names).decode())
    if density is None:
        density = _one(connection, render(_SAMPLE, **names)) / max(min(pages, _SAMPLE_PAGES), 1)
    return round(float(density) * pages)


def _names(stash: Stash, row: FenceRow) -> dict[str, str]:
    return {"schema": stash.schema, "heap": row.heap}


def _one(connection: psycopg.Connection, query: bytes, *parameters: str) -> Any:
    found = connection.execute(query, parameters).fetchone()
    return None if found is None else found[0]


def _literal(text: str) -> str:
    from psycopg import sql

    return sql.Literal(text).as_string(None)

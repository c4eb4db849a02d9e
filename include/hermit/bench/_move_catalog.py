"""A large catalog for `hermit bench move`, and every way to get it there and back."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

import psycopg

from hermit.durable.contents import MOVED
from hermit.errors import invariant
from hermit.formats.generate import rows as generated
from hermit.migration import staging, steps
from hermit.migration.load import load_rows
from hermit.migration.move import Fencing, Move
from hermit.migration.parts import Part
from hermit.migration.stores import Stores, connect
from hermit.migration.work import Task, Workers
from hermit.stash import bulk
from hermit.stash.schema import create_heap_indexes

# Kinds of which a large catalog has many; of the others it has as few as a small one.
_MANY = ("items", "audit_log", "storage_usage", "system_object_mappings")
_SEED_OBJECTS = 20_000
_TOMBSTONES = 10
_CUT_OVERS = 3


def prepared(url: str, workdir: Path, rows: int) -> Case:
    """A catalog of about so many rows, of realistic sizes."""
    stores = connect(url, str(workdir / "shards"), uuid.uuid4())
    load_rows(stores, generated(min(_SEED_OBJECTS, rows // 2), 1))
    count = _multiply(stores, rows)
    fencing = steps.fence_epoch(stores, move_of(stores, "migrate"))
    return Case(stores, fencing, workdir, count)


def move_of(stores: Stores, direction: str) -> Move:
    """A run of a move, as the DAG would ask for it."""
    return Move.parse(
        direction=direction,
        organization_id=str(stores.organization_id),
        protocol=None,
        dry_run=False,
        run_id="bench",
    )


def _multiply(stores: Stores, rows: int) -> int:
    """Repeat the rows of the large kinds, with other keys, inside the server; gives how many there are."""
    schema = stores.stash_client.schema
    heap = f"{schema}.data"
    names = ", ".join(f"'{name}'" for name in _MANY)
    with psycopg.connect(stores.stash_url, autocommit=True) as connection:
        # Loading is not what is measured: the indexes are made again at its end.
        for (index,) in connection.execute(
            "SELECT indexrelid::regclass::text FROM pg_index WHERE indrelid = %s::regclass", [heap]
        ).fetchall():
            connection.execute(f"DROP INDEX {index}".encode())
        connection.execute(
            f"CREATE TEMP TABLE seed AS SELECT * FROM {heap} WHERE collection_id IN"  # noqa: S608
            f" (SELECT collection_id FROM {schema}.collections WHERE name IN ({names}))".encode()
        )
        missing, seed = rows - _count(connection, heap), _count(connection, "seed")
        for number in range(1, -(-missing // seed) + 1):
            limit = min(seed, missing - (number - 1) * seed)
            connection.execute(
                f"INSERT INTO {heap} SELECT collection_id, key || int4send({number}), value, time, diff"  # noqa: S608
                f" FROM seed LIMIT {limit}".encode()
            )
        for statement in create_heap_indexes(schema, "data"):
            connection.execute(statement)
        connection.execute(f"VACUUM ANALYZE {heap}".encode())
        return _count(connection, heap)


def _count(connection: psycopg.Connection, table: str) -> int:
    found = connection.execute(f"SELECT count(*) FROM {table}".encode()).fetchone()  # noqa: S608
    return int(found[0]) if found else 0


@dataclass
class Case:
    """One catalog, and the ways to move it. Each may be taken again and again."""

    stores: Stores
    fencing: Fencing
    workdir: Path
    rows: int
    staged: list[Part] = field(default_factory=list)
    sides: list[str] = field(default_factory=list)

    @property
    def heap(self) -> str:
        fence = self.stores.stash_client.schema
        with psycopg.connect(self.stores.stash_url) as connection:
            found = connection.execute(f"SELECT heap FROM {fence}.fence".encode()).fetchone()  # noqa: S608
        invariant(found is not None, "the catalog has no fence")
        return f"{fence}.{found[0] if found else ''}"

    def settle(self) -> None:
        """Nobody pays for what another wrote."""
        with psycopg.connect(self.stores.stash_url, autocommit=True) as connection:
            connection.execute("DROP TABLE IF EXISTS rival")
            with self.stores.resumed(self.fencing) as (stash, _):
                for side in self.sides:
                    bulk.drop_side(stash.stash, side)
            self.sides.clear()
            connection.execute("CHECKPOINT")

    # There

    def read_limit(self) -> None:
        """One process: COPY to Arrow, and drop it."""
        import adbc_driver_postgresql.dbapi as adbc

        with adbc.connect(self.stores.stash_url) as connection, connection.cursor() as cursor:
            cursor.execute(f"SELECT collection_id, key, value FROM {self.heap}")  # noqa: S608
            count = sum(batch.num_rows for batch in cursor.fetch_record_batch())
        invariant(count == self.rows, "the limit did not read every row", count=count)

    def migrate(self, session: Any) -> None:
        """Hermit's staging job, all but the start of Spark."""
        batch = f"migrate_{secrets.token_hex(6)}"
        with self.stores.resumed(self.fencing) as (stash, _):
            _, part = staging.stage_stash(self.stores, stash, batch, _workers(session))
        invariant(part.rows == self.rows, "not every row was staged", rows=part.rows)
        self.staged.append(part)

    def jdbc_there(self, session: Any) -> None:
        """Spark's JDBC source into Delta, as most people write it."""
        url, properties = _jdbc(self.stores.stash_url)
        query = f"(SELECT collection_id, key, value FROM {self.heap}) AS t"  # noqa: S608
        frame = session.read.jdbc(url, query, properties=properties)
        frame.write.format("delta").mode("overwrite").save(str(self.workdir / "rival"))

    # Back

    def put_in_place(self) -> None:
        """Make what was staged the contents of persist, if nothing is yet."""
        with self.stores.resumed(self.fencing) as (_, persist):
            if not persist.client.files(["items"]):
                persist.replace_with_staged(self.staged.pop().files, config={})

    def ingest_limit(self) -> None:
        """One process: the same files into a table of the same columns, without an index."""
        import adbc_driver_postgresql.dbapi as adbc
        import pyarrow as pa
        import pyarrow.parquet as pq

        self.put_in_place()
        with self.stores.resumed(self.fencing) as (_, persist):
            paths = [f"{self.stores.location}/{file.path}" for file in persist.client.files(MOVED)]
        with psycopg.connect(self.stores.stash_url, autocommit=True) as connection:
            connection.execute(f"CREATE TABLE rival (LIKE {self.heap} INCLUDING DEFAULTS)".encode())
        schema = pa.schema([("collection_id", pa.int64()), ("key", pa.binary()), ("value", pa.binary())])

        def batches() -> Any:
            for path in paths:
                for batch in pq.ParquetFile(path).iter_batches(65_536, columns=["key", "value"]):
                    ids = pa.repeat(pa.scalar(1, pa.int64()), batch.num_rows)
                    yield pa.RecordBatch.from_arrays([ids, *batch.columns], schema=schema)

        with adbc.connect(self.stores.stash_url) as connection, connection.cursor() as cursor:
            reader = pa.RecordBatchReader.from_batches(schema, batches())
            cursor.adbc_ingest("rival", reader, mode="append")
            connection.commit()

    def rollback(self, session: Any) -> None:
        """Hermit's staging job on the way back, all but the start of Spark."""
        self.sides.append(self.stage_side(_workers(session)))

    def stage_side(self, workers: Workers) -> str:
        """Fill a side table from the shard."""
        self.put_in_place()
        side = f"rollback_{secrets.token_hex(6)}"
        with self.stores.resumed(self.fencing) as (stash, persist):
            _, part = staging.stage_shard(self.stores, stash, persist, side, workers)
            invariant(part.rows == self.rows, "not every row came back", rows=part.rows)
        return side

    def jdbc_back(self, session: Any) -> None:
        """The Delta table into PostgreSQL by Spark's JDBC sink, as most people write it."""
        url, properties = _jdbc(self.stores.stash_url)
        frame = session.read.format("delta").load(str(self.workdir / "rival"))
        frame.write.jdbc(url, "rival", mode="append", properties=properties)

    # Cut-overs

    def set_stash_tombstones(self) -> list[float]:
        """Seconds of the write that ends a migration."""
        with self.stores.resumed(self.fencing) as (stash, _):
            return _each(_TOMBSTONES, lambda number: stash.set_tombstone(number % 2 == 0))

    def set_persist_tombstones(self) -> list[float]:
        """Seconds of the write that ends a move under two tombstones."""
        with self.stores.resumed(self.fencing) as (_, persist):
            return _each(_TOMBSTONES, lambda number: persist.set_tombstone(number % 2 == 0))

    def replace_persist(self) -> list[float]:
        """Seconds of the write that makes staged files the contents of persist."""
        with self.stores.resumed(self.fencing) as (_, persist):
            return [
                _timed(lambda part=part: persist.replace_with_staged(part.files, config={}))  # type: ignore[misc]
                for part in self.staged[-_CUT_OVERS:]
            ]

    def replace_stash(self) -> list[float]:
        """Seconds of the transaction that makes a side table the contents of the stash."""
        side = self.stage_side(Workers(_one_by_one))
        with self.stores.resumed(self.fencing) as (stash, _):
            bulk.prepare_side(stash.stash, side)
            self.settle()
            return [_timed(lambda: bulk.cut_over(stash.stash, side, config={}))]


def _workers(session: Any) -> Workers:
    context = session.sparkContext

    def spread(function: Callable[[Task], Part], tasks: Sequence[Task]) -> list[Part]:
        found: list[Part] = context.parallelize(tasks, len(tasks)).map(function).collect()
        return found

    return Workers(spread, lambda: int(context.defaultParallelism))


def _one_by_one(function: Callable[[Task], Part], tasks: Sequence[Task]) -> list[Part]:
    return [function(task) for task in tasks]


def _jdbc(url: str) -> tuple[str, dict[str, str]]:
    facts = psycopg.conninfo.conninfo_to_dict(url)
    properties = {"user": str(facts.get("user", "postgres")), "driver": "org.postgresql.Driver"}
    if facts.get("password"):
        properties["password"] = str(facts["password"])
    where = f"{facts['host']}:{facts.get('port', 5432)}/{facts.get('dbname', 'postgres')}"
    return f"jdbc:postgresql://{where}", properties


def _each(times: int, action: Callable[[int], object]) -> list[float]:
    return [_timed(lambda number=number: action(number)) for number in range(times)]  # type: ignore[misc]


def _timed(action: Callable[[], object]) -> float:
    start = perf_counter()
    action()
    return perf_counter() - start

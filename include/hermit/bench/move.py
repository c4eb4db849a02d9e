"""Moves: the data plane beside its limit and its rivals, growth, memory, cut-overs, and a whole run.

All of it runs against one server and one warm Spark session, on catalogs of realistic sizes; rounds of Hermit
and of what it is compared with take turns, and each is judged by its best round. Between two of them the
server settles, and free memory is filled (see `_memory`), so that every size finds the machine alike. A quick
run does not fill it: its sizes are too small to tell.

- The limit on the way there: one process that reads the table by ADBC COPY into Arrow and drops it.
- The rival there: Spark's JDBC source, as most people write it, into a Delta table.
- The limit on the way back: one process that streams the same Parquet files into `adbc_ingest`, into a table
  without an index.
- The rival back: the Delta table by Spark's JDBC sink.
- Memory is that of the whole job as `spark-submit` runs it: the JVM, the driver and all Python workers.
- A whole run of the demo catalog is compared with one start of the JVM and a run of as many empty tasks.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

from hermit.bench import Bar
from hermit.bench import _move_run as whole
from hermit.bench._memory import Filler
from hermit.bench._move_catalog import Case, prepared
from hermit.embedded import spark as spark_home
from hermit.embedded.postgres import EmbeddedPostgres
from hermit.settings import load

_MIB = 1 << 20
_MEMORY_LIMIT_MIB = 2048
_RIVAL_ROWS = 1_000_000


def run(quick: bool, workdir: Path) -> list[Bar]:
    """Measure every bar of this area."""
    sizes = [200_000, 600_000] if quick else [200_000, 2_000_000, 10_000_000]
    filler = None if quick else Filler(workdir / "memory")
    bars: list[Bar] = []
    with _server(workdir) as url:
        measured = []
        with _spark(workdir) as session:
            for size in sizes:
                case = prepared(url, workdir, size)
                measured.append(Measured(case, session, filler, rounds=5 if size <= 2_000_000 else 2))
                bars += measured[-1].bars()
        bars += _growth(measured)
        bars += _cut_overs(measured)
        bars.append(_memory(measured[-1].case))
    bars.append(whole.bar(workdir))
    return bars


class Measured:
    """The seconds of every way, there and back, at one size."""

    def __init__(self, case: Case, session: Any, filler: Filler | None, rounds: int) -> None:
        self.case = case
        self.filler = filler
        ways: dict[str, Callable[[], object]] = {
            "limit there": case.read_limit,
            "there": lambda: case.migrate(session),
            "limit back": case.ingest_limit,
            "back": lambda: case.rollback(session),
        }
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(rounds + 1):
            for name, way in ways.items():
                seconds[name].append(self._seconds(way))
        # The first round warms up: workers that start, code that is compiled, pages that are cached.
        self.best = {name: min(found[1:]) for name, found in seconds.items()}
        # Rivals take long. The first time at the first size warms them up as well.
        for name, rival in (("rival there", case.jdbc_there), ("rival back", case.jdbc_back)):
            taken = [
                self._seconds(lambda rival=rival: rival(session))  # type: ignore[misc]
                for _ in range(1 if case.rows > _RIVAL_ROWS else 2)
            ]
            self.best[name] = min(taken)
        _tell(f"{case.rows:,} rows: " + ", ".join(f"{name} {s:.2f} s" for name, s in self.best.items()))

    def _seconds(self, way: Callable[[], object]) -> float:
        self.case.settle()
        if self.filler is not None:
            self.filler.fill()
        start = perf_counter()
        way()
        return perf_counter() - start

    def bars(self) -> list[Bar]:
        """What the ways cost beside each other."""
        at, best = f"at {self.case.rows:,} rows", self.best
        return [
            Bar(
                f"migrate, to one process of COPY without output, {at}",
                best["there"] / best["limit there"],
                2.5,
            ),
            Bar(
                f"plain Spark JDBC to Delta, to migrate, {at}",
                best["rival there"] / best["there"],
                3.0,
                False,
            ),
            Bar(f"rollback, to one process of adbc_ingest, {at}", best["back"] / best["limit back"], 1.0),
            Bar(
                f"plain Delta to Spark JDBC, to rollback, {at}", best["rival back"] / best["back"], 2.0, False
            ),
        ]


def _growth(measured: list[Measured]) -> list[Bar]:
    """Seconds per row. What grows for the limit as well is told: that is the machine's."""
    before, after = measured[-2], measured[-1]
    sizes = f"at {after.case.rows:,} rows, to {before.case.rows:,}"
    grown = {
        name: (after.best[name] / after.case.rows) / (before.best[name] / before.case.rows)
        for name in after.best
    }
    limits = ", ".join(f"{name} {grown[name]:.2f}" for name in ("limit there", "limit back"))
    _tell(f"seconds per row {sizes}: {limits}")
    return [
        Bar(f"seconds per row, {way} {sizes}", grown[name], 1.1)
        for name, way in (("there", "migrate"), ("back", "rollback"))
    ]


def _memory(case: Case) -> Bar:
    peaks = {direction: whole.peak_bytes(case, direction) / _MIB for direction in ("migrate", "rollback")}
    _tell(f"{case.rows:,} rows: peak MiB " + ", ".join(f"{name} {peak:.0f}" for name, peak in peaks.items()))
    name = f"peak MiB of JVM, driver and workers at {case.rows:,} rows"
    return Bar(name, max(peaks.values()), _MEMORY_LIMIT_MIB)


def _cut_overs(measured: list[Measured]) -> list[Bar]:
    """The writes that move the truth. That of a migration's contents, before it, is told: its files count."""
    small, large = measured[0].case, measured[-1].case
    bars = []
    for name, method, rounds, cuts_over in (
        ("set the stash's tombstone", Case.set_stash_tombstones, 5, True),
        ("set persist's tombstone", Case.set_persist_tombstones, 5, True),
        ("replace persist's contents", Case.replace_persist, 1, False),
        ("replace the stash's contents", Case.replace_stash, 3, True),
    ):
        # Taking turns: what the disk is still busy with hits both.
        turns = [(method(small), method(large)) for _ in range(rounds)]
        few, many = min(s for turn in turns for s in turn[0]), min(s for turn in turns for s in turn[1])
        _tell(f"{name}: {1000 * few:.1f} ms at {small.rows:,} rows, {1000 * many:.1f} ms at {large.rows:,}")
        if cuts_over:
            bars.append(Bar(f"{name} at {large.rows:,} rows, to {small.rows:,}", many / few, 1.5))
    return bars


@contextmanager
def _server(workdir: Path) -> Iterator[str]:
    # The server's own checkpoints would hit one rival and spare the other. Nor does anybody pay for making
    # the log's files: once made, they stay.
    settings = {"max_wal_size": "10GB", "min_wal_size": "10GB", "checkpoint_timeout": "1h"}
    # JDBC knows no Unix sockets: everybody goes through TCP.
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = EmbeddedPostgres(workdir / "pg", settings=settings, tcp_port=port)
    server.start()
    try:
        yield f"postgresql://hermit@127.0.0.1:{port}/postgres"
    finally:
        server.release()


@contextmanager
def _spark(workdir: Path) -> Iterator[Any]:
    os.environ.update(spark_home.environment())
    from pyspark.sql import SparkSession

    jars = spark_home.jars(load().home)
    session = (
        SparkSession.builder.master("local[*]")
        .config("spark.ui.enabled", "false")
        .config("spark.jars", ",".join(map(str, jars)))
        .config("spark.driver.memory", "2g")
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .config("spark.sql.warehouse.dir", str(workdir / "warehouse"))
        .config("spark.log.level", "ERROR")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.databricks.delta.snapshotPartitions", "2")
        .getOrCreate()
    )
    try:
        yield session
    finally:
        session.stop()


def _tell(line: str) -> None:
    print(f"hermit: {line}", file=sys.stderr, flush=True)

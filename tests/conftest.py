"""Fixtures that all tests share. One PostgreSQL serves the whole run, over all workers."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from hermit.embedded.postgres import EmbeddedPostgres

_SERVER_HOME = "HERMIT_TEST_POSTGRES"
_RESULTS = "HERMIT_TEST_RESULTS"
# Nobody cuts the power of this server; tests of durability kill servers of their own.
_SETTINGS = {"max_connections": "200", "fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
_MEMORY = Path("/dev/shm")
_SCRATCH_BYTES_MIN = 8 << 30
# What costs much and is shared, and by which tests: they run on one worker, one after the other.
_SHARED = {
    "a running Airflow": ("tests/airflow/test_faults.py", "tests/airflow/test_running_airflow.py"),
    "the page": ("tests/page/",),
    "the Spark session": (
        "tests/migration/test_jobs.py",
        "tests/persist/test_interop.py",
        "tests/persist/test_spark.py",
    ),
}
_SHARED_BY_FILE = (
    "tests/airflow/",
    "tests/deploy/",
    "tests/docs/test_site.py",
    "tests/migration/test_cluster.py",
)
_outcomes: dict[str, dict[str, object]] = {}


def pytest_configure(config: pytest.Config) -> None:
    """The controlling process makes the directories; workers find them in their environment."""
    if not hasattr(config, "workerinput") and _SERVER_HOME not in os.environ:
        _scratch_in_memory(config)
        home = tempfile.mkdtemp(prefix="hermit-pg-")
        os.environ[_SERVER_HOME] = home
        config.add_cleanup(lambda: _remove_server(Path(home)))


def _scratch_in_memory(config: pytest.Config) -> None:
    """Put everything temporary into memory, where fsync is free; tests kill processes, not machines."""
    if not _MEMORY.is_dir() or not os.access(_MEMORY, os.W_OK):
        return
    pages = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if min(shutil.disk_usage(_MEMORY).free, pages) < _SCRATCH_BYTES_MIN:
        return
    scratch = tempfile.mkdtemp(prefix="hermit-test-", dir=_MEMORY)
    os.environ["TMPDIR"] = tempfile.tempdir = scratch
    config.add_cleanup(lambda: shutil.rmtree(scratch, ignore_errors=True))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Tests that share something costly stay together."""
    from xdist.scheduler import LoadScopeScheduling

    class ByCost(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            path = nodeid.partition("::")[0]
            for what, paths in _SHARED.items():
                if path.startswith(paths):
                    return what
            return path if path.startswith(_SHARED_BY_FILE) else nodeid

    return ByCost(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The rows that a test proves travel with its report.

    What takes long begins first, so that no worker is alone with it in the end, and the test that stops what
    others share comes last. Otherwise the order stays as it was shuffled.
    """
    for item in items:
        for mark in item.iter_markers("row"):
            item.user_properties += [("row", row) for row in mark.args]
    items.sort(key=lambda item: (_is(item, "stops_everything"), not _is(item, "slow")))


def _is(item: pytest.Item, marker: str) -> bool:
    return item.get_closest_marker(marker) is not None


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Remember what each test proved. A test counts as passed when all its phases did."""
    rows = sorted({str(value) for key, value in report.user_properties if key == "row"})
    outcome = _outcomes.setdefault(report.nodeid, {"passed": True, "rows": rows})
    outcome["passed"] = outcome["passed"] and report.passed


def pytest_sessionfinish(session: pytest.Session) -> None:
    """The controlling process writes down all outcomes, for `hermit conformance`."""
    path = os.environ.get(_RESULTS)
    if path and not hasattr(session.config, "workerinput"):
        Path(path).write_text(json.dumps(_outcomes, indent=1))


def _remove_server(home: Path) -> None:
    EmbeddedPostgres(home).stop()
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres() -> Iterator[EmbeddedPostgres]:
    """The run's PostgreSQL. Do not stop it: a test that kills servers starts one of its own."""
    server = EmbeddedPostgres(Path(os.environ[_SERVER_HOME]), settings=_SETTINGS)
    server.start()
    yield server
    server.release(keep_running=True)


@pytest.fixture
def database_url(postgres: EmbeddedPostgres) -> Iterator[str]:
    """The URL of an empty database that only this test uses."""
    name = f"test_{uuid.uuid4().hex}"
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
    yield postgres.url(name)
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


@pytest.fixture
def organization_id() -> uuid.UUID:
    """A catalog that only this test uses."""
    return uuid.uuid4()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The one Spark session of the run, with Delta Lake and our data source. It takes seconds to start."""
    from hermit.embedded import spark as embedded

    home = Path(os.environ.get("HERMIT_HOME", Path(__file__).parents[1] / ".hermit"))
    home.mkdir(exist_ok=True)
    os.environ.update(embedded.environment())
    from pyspark.sql import SparkSession

    from hermit.persist.spark_source import HermitPersistSource

    session = (
        SparkSession.builder.master("local[2]")
        .appName("hermit-tests")
        .config(map=embedded.conf())
        .config("spark.driver.memory", "1g")
        .config("spark.jars", ",".join(map(str, embedded.jars(home))))
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.databricks.delta.snapshotPartitions", "2")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    session.dataSource.register(HermitPersistSource)
    yield session
    session.stop()

"""Fixtures of the persist tests: empty locations in a directory, in memory and in an object store."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hermit.persist import PersistClient
from hermit.persist.storage import memory
from tests.nursery import Nursery
from tests.persist.s3_server import S3Server


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    """The object store of this test process, which delta-rs finds through the environment."""
    server = S3Server()
    before = {name: os.environ.get(name) for name in server.environment}
    os.environ.update(server.environment)
    yield server
    for name, value in before.items():
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value
    server.stop()


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    """Starts processes that tests race or kill."""
    found = Nursery("tests.persist.processes")
    yield found
    found.stop()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The one Spark session of the run, with Delta Lake and our data source. It takes seconds to start."""
    from hermit.embedded import spark as embedded

    home = Path(os.environ.get("HERMIT_HOME", Path(__file__).parents[2] / ".hermit"))
    home.mkdir(exist_ok=True)
    os.environ.update(embedded.environment())
    from pyspark.sql import SparkSession

    from hermit.persist.spark_source import HermitPersistSource

    session = (
        SparkSession.builder.master("local[2]")
        .appName("hermit-tests")
        .config("spark.jars", ",".join(map(str, embedded.jars(home))))
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.databricks.delta.snapshotPartitions", "2")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    session.dataSource.register(HermitPersistSource)
    yield session
    session.stop()


@pytest.fixture(params=["local", "memory", "s3"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A location that does not exist yet, in each kind of store."""
    if request.param == "local":
        yield str(tmp_path / "location")
        return
    name = uuid.uuid4().hex
    if request.param == "s3":
        request.getfixturevalue("s3")
        yield f"s3://bucket/{name}"
        return
    yield f"memory:{name}"
    memory.forget(f"memory:{name}")


@pytest.fixture
def client(location: str) -> PersistClient:
    return PersistClient.open(location)

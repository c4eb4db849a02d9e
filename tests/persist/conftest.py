"""Fixtures of the persist tests: empty locations in a directory, in memory and in an object store."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

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

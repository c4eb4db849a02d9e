"""Fixtures of the persist tests: an empty location in a directory, and one in memory."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermit.persist import PersistClient
from hermit.persist.storage import memory


@pytest.fixture(params=["local", "memory"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A location that does not exist yet."""
    if request.param == "local":
        yield str(tmp_path / "location")
        return
    name = f"memory:{uuid.uuid4().hex}"
    yield name
    memory.forget(name)


@pytest.fixture
def client(location: str) -> PersistClient:
    return PersistClient.open(location)

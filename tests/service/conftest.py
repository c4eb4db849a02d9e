"""Nodes of the service on real stores, stepped by hand or running by themselves.

A `Cluster` stands for one catalog and its nodes. Its time is the test's: nothing becomes due by itself.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

import pytest

from hermit.durable import init_persist_catalog_state, init_stash_catalog_state
from hermit.service.clock import HybridClock
from hermit.service.homes import Home, OneStore
from hermit.service.manager import CatalogManager
from hermit.service.settings import ServiceSettings

T = TypeVar("T")
START_MS = 1_700_000_000_000
_STEPS_MAX = 500


class Time:
    """Time that stands still until it is moved, and a date that can be set beside it."""

    def __init__(self) -> None:
        self.ms = START_MS
        self.set_by_ms = 0

    def __call__(self) -> int:
        return self.ms

    def date(self) -> int:
        return self.ms + self.set_by_ms


class Cluster:
    """One catalog, and every node that a test makes of it."""

    def __init__(self, home: Callable[[], Home]) -> None:
        self.home = home
        self.time = Time()
        self.nodes: list[CatalogManager] = []
        self._made = ExitStack()

    def node(self, **settings: Any) -> CatalogManager:
        """A node that is stepped by hand; it has found the log when this returns."""
        node = self.unconnected(**settings)
        self.until(lambda: node.is_writable and node.catalog_latest().version > 0, node)
        return node

    def unconnected(self, **settings: Any) -> CatalogManager:
        """A node before its first step."""
        given = {"delay_duration_ms": 0, "take_over_jitter_ms": 0, **settings}
        node = CatalogManager(
            self.home(),
            clock=HybridClock(self.time.date),
            settings=ServiceSettings(**given),
            now_ms=self.time,
        )
        self.nodes.append(node)
        self._made.callback(node.stop)
        return node

    def until(self, condition: Callable[[], object], *nodes: CatalogManager) -> None:
        """Step nodes in turn until something holds."""
        for _ in range(_STEPS_MAX):
            if condition():
                return
            for node in nodes or self.nodes:
                node.step()
        pytest.fail(f"does not hold after {_STEPS_MAX} steps: {[node.trouble for node in self.nodes]}")

    def result(self, future: Future[T], *nodes: CatalogManager) -> T:
        """Step nodes until a future is done."""
        self.until(future.done, *nodes)
        return future.result()

    def close(self) -> None:
        self._made.close()


@pytest.fixture
def stash_home(database_url: str, organization_id: uuid.UUID) -> Callable[[], Home]:
    return lambda: OneStore(init_stash_catalog_state(database_url, organization_id))


@pytest.fixture
def persist_home(tmp_path: Path) -> Callable[[], Home]:
    return lambda: OneStore(init_persist_catalog_state(tmp_path / "shard"))


@pytest.fixture(params=["stash", "persist"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A catalog on each store in turn."""
    made = Cluster(request.getfixturevalue(f"{request.param}_home"))
    yield made
    made.close()


@pytest.fixture
def stash_cluster(stash_home: Callable[[], Home]) -> Iterator[Cluster]:
    """A catalog in the stash."""
    made = Cluster(stash_home)
    yield made
    made.close()

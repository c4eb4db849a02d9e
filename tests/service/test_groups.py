"""How commands come together in one commit."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from hermit.service.catalog import Catalog
from hermit.service.commands import CatalogCommand, CreateSchema
from hermit.service.entries import UpdateEntry
from hermit.service.evolve import evolve
from hermit.service.homes import Home
from hermit.service.manager import CatalogManager
from hermit.service.requests import RequestQueue
from hermit.service.settings import ServiceSettings
from tests.service.conftest import Cluster

WAIT_S = 60


@dataclass(frozen=True)
class _Meanwhile(CatalogCommand):
    """A command during whose execution something else happens."""

    happens: Any
    command: CatalogCommand

    def validate(self) -> None:
        pass

    def plan(self, catalog: Catalog) -> list[UpdateEntry]:
        self.happens()
        return self.command.plan(catalog)


def _schema(number: int) -> CreateSchema:
    return CreateSchema(name=f"s{number}")


def _wait_until(condition: Callable[[], object]) -> None:
    end_s = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < end_s
        time.sleep(0.001)


def test_those_who_were_told_and_those_who_came_meanwhile_make_one_group(stash_cluster: Cluster) -> None:
    node = stash_cluster.node(linger_ms=WAIT_S * 1000)
    told = [
        node.execute(_Meanwhile(lambda: node.execute(_schema(1)), _schema(2))),
        node.execute(_schema(3)),
    ]
    stash_cluster.until(lambda: all(future.done() for future in told))
    gathered: list[int] = []

    def linger() -> None:
        node._linger()
        gathered.append(len(node._queue))

    lingering = threading.Thread(target=linger)
    lingering.start()
    node.execute(_schema(4))
    _wait_until(lambda: gathered or node._queue._wanted == 3)
    node.execute(_schema(5))
    lingering.join(WAIT_S)
    assert gathered == [3]


def test_a_group_is_not_waited_for_twice_nor_for_somebody_who_does_not_come(stash_cluster: Cluster) -> None:
    node = stash_cluster.node(linger_ms=1)
    futures = [node.execute(_schema(number)) for number in range(3)]
    stash_cluster.until(lambda: all(future.done() for future in futures))
    node.execute(_schema(3))
    node._linger()
    assert len(node._queue) == 1
    assert node._expected == 0


def test_what_did_not_fit_a_group_goes_into_the_next_at_once(stash_home: Callable[[], Home]) -> None:
    settings = ServiceSettings(delay_duration_ms=0, poll_interval_ms=10**9, group_max=1)
    with CatalogManager(stash_home(), settings=settings) as node:
        futures = [node.execute(_schema(number)) for number in range(6)]
        assert [future.result(WAIT_S).version for future in futures] == [2, 3, 4, 5, 6, 7]


def test_of_those_who_are_gathered_only_the_last_wakes_whoever_waits() -> None:
    queue = RequestQueue()
    gathering = threading.Thread(target=queue.gather, args=(3, WAIT_S, WAIT_S))
    gathering.start()
    _wait_until(lambda: queue._wanted == 3)
    for number in range(3):
        assert not queue._gathered.is_set()
        queue.put(queue.new((_schema(number),), 0))
    gathering.join(WAIT_S)
    assert not gathering.is_alive()
    assert queue._wanted == 0
    queue.gather(2, WAIT_S, WAIT_S)
    queue.gather(4, 0.001, WAIT_S)
    queue.gather(4, WAIT_S, 0)


def test_a_copy_differs_in_the_fields_that_were_given_and_no_others() -> None:
    catalog = Catalog(version=3, next_id=7)
    copy = evolve(catalog, version=4)
    assert (copy.version, copy.next_id) == (4, 7)
    assert copy.zones is catalog.zones
    assert catalog.version == 3
    with pytest.raises(TypeError, match="Catalog has no field colour"):
        evolve(catalog, colour="red")

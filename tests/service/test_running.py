"""Nodes that run by themselves, in threads, with many clients at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace

import pytest

from hermit.errors import HermitError, InvalidInput
from hermit.service.commands import CreateSchema, DropSchema
from hermit.service.errors import ObjectNotFound, Stopped
from hermit.service.events import CatalogEvent
from hermit.service.homes import Home
from hermit.service.manager import CatalogManager
from hermit.service.requests import Applied
from hermit.service.settings import ServiceSettings

WAIT_S = 120
FAST = ServiceSettings(delay_duration_ms=0, poll_interval_ms=2, take_over_jitter_ms=20)


@pytest.fixture
def running() -> Iterator[Callable[..., CatalogManager]]:
    """Starts nodes, which are stopped when the test ends."""
    with ExitStack() as started:

        def start(home: Home, settings: ServiceSettings = FAST) -> CatalogManager:
            node = started.enter_context(CatalogManager(home, settings=settings))
            node.catalog_ready(1).result(WAIT_S)
            return node

        yield start


@pytest.mark.row("I-14")
@pytest.mark.parametrize("store", ["stash", "persist"])
def test_a_version_is_readable_in_the_very_moment_that_its_future_is_done(
    running: Callable[..., CatalogManager], request: pytest.FixtureRequest, store: str
) -> None:
    nodes = [running(request.getfixturevalue(f"{store}_home")()) for _ in range(2)]
    seen: list[int] = []

    def execute(client: int) -> None:
        node = nodes[client % 2]

        def told(future: object) -> None:
            applied: Applied = future.result()  # type: ignore[attr-defined]
            seen.append(node.catalog_at(applied.version).version)

        for number in range(10):
            future = node.execute(CreateSchema(name=f"c{client}n{number}"))
            future.add_done_callback(told)
            applied = future.result(WAIT_S)
            assert node.catalog_at(applied.version).schema(f"c{client}n{number}") is not None

    with ThreadPoolExecutor(8) as clients:
        list(clients.map(execute, range(8)))
    assert sorted(seen) == list(range(2, 82))


def test_64_clients_share_commits(
    running: Callable[..., CatalogManager], stash_home: Callable[[], Home]
) -> None:
    node = running(stash_home())
    before = node.ask(lambda log: log.state.content_version()).result(WAIT_S)
    barrier = threading.Barrier(64)

    def execute(client: int) -> list[int]:
        barrier.wait(WAIT_S)
        return [node.execute(CreateSchema(name=f"c{client}n{n}")).result(WAIT_S).version for n in range(4)]

    with ThreadPoolExecutor(64) as clients:
        versions = sorted(version for found in clients.map(execute, range(64)) for version in found)
    assert versions == list(range(2, 258))
    commits = node.ask(lambda log: log.state.content_version()).result(WAIT_S) - before
    assert commits < 100


def test_a_listener_may_wait_for_commands_that_it_executes_itself(
    running: Callable[..., CatalogManager], stash_home: Callable[[], Home]
) -> None:
    node = running(stash_home())
    followed: list[int] = []

    def follow_up(event: CatalogEvent) -> None:
        if event.object is not None and event.object.name == "first":
            followed.append(node.execute(CreateSchema(name="second")).result(WAIT_S).version)

    node.subscribe(follow_up)
    assert node.execute(CreateSchema(name="first")).result(WAIT_S).version == 2
    node.catalog_ready(3).result(WAIT_S)
    _until(lambda: followed == [3])


def test_a_callback_may_wait_for_commands_that_it_executes_itself(
    running: Callable[..., CatalogManager], stash_home: Callable[[], Home]
) -> None:
    node = running(stash_home())
    followed: list[int] = []

    def follow_up(future: object) -> None:
        followed.append(node.execute(CreateSchema(name="second")).result(WAIT_S).version)
        followed.append(node.compact().earliest)

    node.execute(CreateSchema(name="first")).add_done_callback(follow_up)
    _until(lambda: len(followed) == 2)
    assert followed[0] == 3
    assert node.execute(CreateSchema(name="third")).result(WAIT_S).version == 4


def test_a_listener_that_takes_for_ever_holds_up_nobody_else(
    running: Callable[..., CatalogManager], stash_home: Callable[[], Home]
) -> None:
    node = running(stash_home())
    release, heard, others = threading.Event(), [], []

    def slow(event: CatalogEvent) -> None:
        release.wait(WAIT_S)
        heard.append(event.version)

    node.subscribe(slow)
    node.subscribe(lambda event: others.append(event.version))
    for version in (2, 3):
        assert node.execute(CreateSchema(name=f"s{version}")).result(WAIT_S).version == version
        assert node.catalog_ready(version).result(WAIT_S).version == version
    _until(lambda: others == [2, 3])
    assert heard == []
    release.set()
    _until(lambda: heard == [2, 3])


@pytest.mark.row("I-18")
def test_what_a_listener_is_still_to_hear_of_is_not_compacted(
    running: Callable[..., CatalogManager], stash_home: Callable[[], Home]
) -> None:
    node = running(stash_home())
    release, seen = threading.Event(), []

    def slow(event: CatalogEvent) -> None:
        release.wait(WAIT_S)
        seen.append(node.catalog_at(event.version).version)

    node.subscribe(slow)
    for version in range(2, 6):
        assert node.execute(CreateSchema(name=f"s{version}")).result(WAIT_S).version == version
    assert node.compact().earliest == 2
    release.set()
    _until(lambda: seen == [2, 3, 4, 5])
    assert node.compact().earliest == 5
    _until(lambda: node.earliest_version == 5)


def test_answers_come_after_the_events_of_a_listener_that_is_quick(
    running: Callable[..., CatalogManager], stash_home: Callable[[], Home]
) -> None:
    node = running(stash_home(), replace(FAST, listener_patience_ms=60_000))
    heard: list[int] = []
    node.subscribe(lambda event: heard.append(event.version))
    for version in range(2, 12):
        assert node.execute(CreateSchema(name=f"s{version}")).result(WAIT_S).version == version
        assert heard[-1] == version


def test_a_closed_subscription_does_not_hear_what_is_still_queued(
    running: Callable[..., CatalogManager], stash_home: Callable[[], Home]
) -> None:
    node = running(stash_home())
    release, begun, heard = threading.Event(), threading.Event(), []

    def slow(event: CatalogEvent) -> None:
        begun.set()
        release.wait(WAIT_S)
        heard.append(event.version)

    subscription = node.subscribe(slow)
    for name in ("a", "b", "c"):
        node.execute(CreateSchema(name=name)).result(WAIT_S)
    assert begun.wait(WAIT_S)
    subscription.close()
    release.set()
    _until(lambda: heard == [2])
    node.execute(CreateSchema(name="d")).result(WAIT_S)
    assert heard == [2]


@pytest.mark.parametrize("where", ["listener", "callback"])
def test_a_node_may_be_stopped_from_within(
    running: Callable[..., CatalogManager], stash_home: Callable[[], Home], where: str
) -> None:
    node, done = running(stash_home()), threading.Event()

    def stop(_: object) -> None:
        node.stop()
        done.set()

    if where == "listener":
        node.subscribe(stop)
        node.execute(CreateSchema(name="s"))
    else:
        node.execute(CreateSchema(name="s")).add_done_callback(stop)
    assert done.wait(WAIT_S)
    with pytest.raises(Stopped):
        node.execute(CreateSchema(name="t")).result(WAIT_S)


def test_a_node_stops_though_a_listener_does_not_end(
    running: Callable[..., CatalogManager], stash_home: Callable[[], Home]
) -> None:
    node, release = running(stash_home()), threading.Event()
    node.subscribe(lambda event: release.wait(WAIT_S))
    node.execute(CreateSchema(name="s")).result(WAIT_S)
    node.stop()
    # What is in memory stays readable, also by those who wait for it.
    assert node.catalog_ready(2).result(WAIT_S).schema("s") is not None
    with pytest.raises(Stopped):
        node.catalog_ready(3).result(WAIT_S)
    release.set()


def test_a_node_is_started_once(
    running: Callable[..., CatalogManager], stash_home: Callable[[], Home]
) -> None:
    node = running(stash_home())
    with pytest.raises(InvalidInput, match="started already"):
        node.start()
    node.stop()
    node.stop()
    with pytest.raises(InvalidInput, match="stopped already"):
        node.start()


def test_clients_of_a_node_that_stops_are_told(
    running: Callable[..., CatalogManager], stash_home: Callable[[], Home]
) -> None:
    node, other = running(stash_home()), running(stash_home())
    outcomes: list[str] = []

    def execute(client: int) -> None:
        for number in range(1000):
            name = f"c{client}n{number}"
            try:
                node.execute(CreateSchema(name=name)).result(WAIT_S)
            except Stopped:
                outcomes.append("stopped")
                return
            except HermitError as error:
                outcomes.append(type(error).__name__)
                return

    with ThreadPoolExecutor(8) as clients:
        work = [clients.submit(execute, client) for client in range(8)]
        other.catalog_ready(10).result(WAIT_S)
        node.stop()
        for each in work:
            each.result(WAIT_S)
    assert set(outcomes) <= {"stopped", "AppliedHereOnly"}
    assert other.execute(CreateSchema(name="goes_on")).result(WAIT_S).changed
    with pytest.raises(ObjectNotFound):
        other.execute(DropSchema(name="none")).result(WAIT_S)


def _until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)

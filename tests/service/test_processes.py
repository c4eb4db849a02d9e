"""Four nodes in four processes on one catalog: killed, paused, compacted under, and moved.

`tests/service/histories.py` says what is checked. HERMIT_TORTURE makes the runs so many times longer.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from uuid import UUID

import pytest

from hermit.errors import Fenced
from hermit.migration.protocol import Direction
from hermit.migration.stores import Stores, connect
from tests.migration.driver import move
from tests.service.histories import check
from tests.service.processes import Processes, poll

LONGER = int(os.environ.get("HERMIT_TORTURE", "1"))
Start = Callable[[dict[str, str]], Processes]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts four nodes, which are killed when the test ends."""
    started: list[Processes] = []

    def make(home: dict[str, str]) -> Processes:
        seed = random.randrange(10**6)
        print(f"seed {seed}")
        started.append(Processes(home, tmp_path, seed))
        return started[-1]

    yield make
    for each in started:
        each.close()


@pytest.fixture(params=["stash", "persist"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """A catalog on each store in turn, as another process finds it."""
    if request.param == "persist":
        return {"location": str(tmp_path / "shard")}
    return {
        "url": request.getfixturevalue("database_url"),
        "organization_id": str(request.getfixturevalue("organization_id")),
    }


def moved(stores: Stores, direction: Direction, protocol: str) -> None:
    """Move, and again if a node that was just taking over was the later one to open both stores."""
    for _ in range(10):
        with suppress(Fenced):
            move(stores, direction, protocol)
            return
    pytest.fail("every move was fenced")


def finish(nodes: Processes) -> None:
    with nodes.late_joiner() as late:
        check(nodes, late, nodes.finish(late))


@pytest.mark.slow
def test_nodes_that_are_killed_at_random_agree_on_one_linearizable_history(
    start: Start, home: dict[str, str]
) -> None:
    nodes = start(home)
    kills = 3 * LONGER
    for kill in range(kills):
        nodes.wait_for_acknowledged(15 * (kill + 1))
        nodes.kill_one()
    nodes.wait_for_acknowledged(15 * (kills + 1))
    finish(nodes)


@pytest.mark.slow
@pytest.mark.parametrize("home", ["stash"], indirect=True)
def test_a_node_paused_while_the_log_is_compacted_goes_on_and_names_the_earliest_version(
    start: Start, home: dict[str, str]
) -> None:
    nodes = start(home)
    nodes.wait_for_acknowledged(20)
    paused, worker = nodes.alive[0], nodes.alive[1]
    paused.send(signal.SIGSTOP)
    seen = int(worker.order("latest"))
    nodes.wait_for_acknowledged(60)
    kept = nodes.keep_updates()
    # Its claim holds the compaction up until it expires; then the log goes on without it.
    poll(lambda: int(worker.order("compact", kept)) > seen, "the log to be compacted")
    paused.send(signal.SIGCONT)
    nodes.wait_for_acknowledged(80)
    poll(lambda: int(paused.order("earliest", 1)) > seen, "the paused node to hear of it")
    finish(nodes)


@pytest.mark.slow
def test_nodes_go_along_with_a_catalog_that_moves_back_and_forth(
    start: Start, database_url: str, organization_id: UUID, tmp_path: Path
) -> None:
    shards = str(tmp_path / "shards")
    nodes = start({"url": database_url, "shards": shards, "organization_id": str(organization_id)})
    stores = connect(database_url, shards, organization_id)
    count = 0
    for _ in range(LONGER):
        for protocol in ("single", "double"):
            for direction in (Direction.MIGRATE, Direction.ROLLBACK):
                count += 15
                nodes.wait_for_acknowledged(count)
                moved(stores, direction, protocol)
                assert stores.state().truth.store is direction.target
            nodes.kill_one()
    nodes.wait_for_acknowledged(count + 15)
    finish(nodes)

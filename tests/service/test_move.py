"""A move under the service's feet: commands are in the old truth, or in the new one, once."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermit.errors import Fenced
from hermit.migration import steps
from hermit.migration.move import Move
from hermit.migration.protocol import SINGLE, Direction, Step
from hermit.migration.stores import Stores, connect
from hermit.service import link
from hermit.service.clock import HybridTimestamp
from hermit.service.commands import CreateSchema
from hermit.service.homes import TwoStores
from tests.migration.driver import Crash, move
from tests.service.conftest import Cluster

MIGRATE, ROLLBACK = Direction.MIGRATE, Direction.ROLLBACK


@pytest.fixture
def stores(database_url: str, tmp_path: Path, organization_id: uuid.UUID) -> Stores:
    return connect(database_url, str(tmp_path / "shards"), organization_id)


@pytest.fixture
def moving(stores: Stores) -> Iterator[Cluster]:
    """A catalog that can move, with nodes on top."""
    made = Cluster(
        lambda: TwoStores(
            connect(stores.stash_url, stores.location.rpartition("/")[0], stores.organization_id)
        )
    )
    yield made
    made.close()


@pytest.mark.parametrize("protocol", ["single", "double"])
def test_versions_times_and_subscriptions_survive_a_migrate_and_a_rollback(
    stores: Stores, moving: Cluster, protocol: str
) -> None:
    one, two = moving.node(), moving.node()
    heard: list[int] = []
    two.subscribe(lambda event: heard.append(event.version))
    known: dict[int, HybridTimestamp] = {}
    for direction, store in (
        (None, "stash"),
        (MIGRATE, "persist"),
        (ROLLBACK, "stash"),
        (MIGRATE, "persist"),
    ):
        if direction is not None:
            move(stores, direction, protocol)
        moving.until(
            lambda store=store: one.store == two.store == store and one.is_writable and two.is_writable
        )
        for node in (one, two):
            applied = moving.result(node.execute(CreateSchema(name=f"s{len(known)}")))
            known[applied.version] = applied.time
    moving.until(lambda: one.catalog_latest().version == two.catalog_latest().version == 9)
    assert sorted(known) == list(range(2, 10))
    assert heard == list(range(2, 10))
    late = moving.node()
    for node in (one, two, late):
        for version, time in known.items():
            assert node.catalog_at(timestamp=time).version == version
            assert node.catalog_at(version) == one.catalog_at(version)


STEPS = [step for step in SINGLE.plans[MIGRATE].steps if step is not Step.SET_TOMBSTONE]


@pytest.mark.parametrize("protocol", ["single", "double"])
@pytest.mark.parametrize("step", STEPS)
def test_a_command_given_at_any_step_of_a_move_is_in_the_new_truth_once_it_is_over(
    stores: Stores, moving: Cluster, protocol: str, step: Step
) -> None:
    node = moving.node()
    moving.result(node.execute(CreateSchema(name="before")))
    with pytest.raises(Crash):
        move(stores, MIGRATE, protocol, crash_after=step)
    during = node.execute(CreateSchema(name="during"))
    for _ in range(3):
        node.step()
    # Opening alone fences nobody: until the epoch is raised, the old truth takes commands.
    assert during.done() == (step is Step.OPEN)
    assert node.catalog_latest().schema("before") is not None
    move(stores, MIGRATE, protocol)
    assert moving.result(during).version == 3
    assert moving.result(node.execute(CreateSchema(name="after"))).version == 4
    assert node.store == "persist"
    assert [each.name for each in moving.node().catalog_latest().schemas] == [
        "public",
        "before",
        "during",
        "after",
    ]


@pytest.mark.parametrize("protocol", ["single", "double"])
def test_a_move_that_died_is_not_waited_for_for_ever(stores: Stores, moving: Cluster, protocol: str) -> None:
    node = moving.node()
    with pytest.raises(Crash):
        move(stores, MIGRATE, protocol, crash_after=Step.REPLACE)
    during = node.execute(CreateSchema(name="during"))
    node.step()
    node.step()
    assert not node.is_writable
    moving.time.ms += 30_001
    assert moving.result(during).version == 2
    assert node.store == "stash"
    # The dead run's batch no longer fits what the node has written; the next run stages anew.
    move(stores, MIGRATE, protocol)
    assert moving.result(node.execute(CreateSchema(name="after"))).version == 3
    assert node.store == "persist"


@pytest.mark.parametrize("protocol", ["single", "double"])
def test_a_node_that_starts_while_a_move_is_announced_waits_for_it(
    stores: Stores, moving: Cluster, protocol: str
) -> None:
    moving.node().stop()
    with pytest.raises(Crash):
        move(stores, MIGRATE, protocol, crash_after=Step.CHECK_TOMBSTONE)
    epoch = stores.stash.epoch()
    node = moving.unconnected()
    for _ in range(3):
        node.step()
    # The single-tombstone protocol announces nothing: there a node that starts is just the next opener.
    assert node.is_writable == (protocol == "single")
    assert (stores.stash.epoch() == epoch) == (protocol == "double")
    moving.time.ms += 30_001
    moving.until(lambda: node.is_writable, node)


def test_a_mover_that_was_fenced_by_the_service_cannot_cut_over(stores: Stores, moving: Cluster) -> None:
    node = moving.node()
    asked = Move.parse(
        direction="migrate",
        organization_id=str(stores.organization_id),
        protocol="double",
        dry_run=False,
        run_id="slow",
    )
    fencing = steps.fence_epoch(stores, asked)
    node.step()
    node.step()
    moving.time.ms += 30_001
    moving.until(lambda: node.is_writable)
    # Both stores are fenced, so that no write of the mover can come any more, on whichever side.
    for side, token in ((stores.stash, fencing.stash), (stores.persist, fencing.persist)):
        with pytest.raises(Fenced):
            side.resume(token).confirm_leadership()
    assert moving.result(node.execute(CreateSchema(name="s"))).version == 2


def test_a_node_that_is_about_to_take_over_leaves_the_next_move_alone(
    stores: Stores, moving: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = moving.node()
    monkeypatch.setattr(link.random, "randrange", lambda _: 1_000)
    move(stores, MIGRATE, "single")
    during = node.execute(CreateSchema(name="during"))
    for _ in range(3):
        node.step()
    # It has found the new truth, and waits whether another node is quicker. So is somebody else.
    asked = Move.parse(
        direction="rollback",
        organization_id=str(stores.organization_id),
        protocol="single",
        dry_run=False,
        run_id="next",
    )
    fencing = steps.fence_epoch(stores, asked)
    for _ in range(3):
        moving.time.ms += 1_001
        node.step()
    assert not node.is_writable
    with stores.resumed(fencing):
        pass
    move(stores, ROLLBACK, "single")
    for _ in range(3):
        node.step()
        moving.time.ms += 1_001
    moving.until(lambda: node.is_writable, node)
    assert moving.result(during).version == 2
    assert node.store == "stash"

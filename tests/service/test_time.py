"""Clocks that are set back, or run ahead: nobody waits for them, and nobody is told what is outdated."""

from __future__ import annotations

import pytest

from hermit.service.commands import CreateSchema
from hermit.service.errors import NodeBehind
from tests.service.conftest import Cluster

HOUR_MS = 3_600_000


def test_a_clock_that_is_set_back_delays_no_answer(stash_cluster: Cluster) -> None:
    node = stash_cluster.node(delay_duration_ms=100)
    stash_cluster.time.set_by_ms = -HOUR_MS
    future = node.execute(CreateSchema(name="s"))
    for _ in range(5):
        node.step()
    assert node.catalog_latest().schema("s") is not None
    assert not future.done()
    # As long as without the jump, and neither an hour nor not at all.
    stash_cluster.time.ms += 99
    node.step()
    assert not future.done()
    stash_cluster.time.ms += 2
    node.step()
    assert future.result(0).version == 2


def test_versions_go_on_growing_in_time_though_every_clock_is_set_back(stash_cluster: Cluster) -> None:
    one, two = stash_cluster.node(), stash_cluster.node()
    times = []
    for number, set_by_ms in enumerate((0, -HOUR_MS, HOUR_MS, -2 * HOUR_MS, 0)):
        stash_cluster.time.set_by_ms = set_by_ms
        future = (one, two)[number % 2].execute(CreateSchema(name=f"s{number}"))
        for _ in range(5):
            one.step()
            two.step()
            stash_cluster.time.ms += 1
        times.append(stash_cluster.result(future).time)
    assert times == sorted(set(times))
    for version, time in enumerate(times, start=2):
        assert one.catalog_at(timestamp=time).version == version
        assert two.catalog_at(timestamp=time).version == version


def test_a_node_whose_clock_was_set_back_does_not_take_the_past_for_the_present(
    stash_cluster: Cluster,
) -> None:
    one, two = stash_cluster.node(delay_duration_ms=100), stash_cluster.node(delay_duration_ms=100)
    stash_cluster.until(lambda: two.catalog_latest().version == 1)
    two.step()
    assert two.catalog_at(timestamp=two.clock.now()).version == 1
    # The second node does not look at the log any more, and its clock stands still as good as.
    stash_cluster.time.set_by_ms = -HOUR_MS
    future = one.execute(CreateSchema(name="s"))
    one.step()
    stash_cluster.time.ms += 101
    one.step()
    assert future.result(0).version == 2
    with pytest.raises(NodeBehind) as behind:
        two.catalog_at(timestamp=two.clock.now())
    assert (behind.value.earliest, behind.value.latest) == (0, 1)
    two.step()
    assert two.catalog_at(timestamp=two.clock.now()).version == 2


def test_a_node_whose_clock_runs_behind_the_others_answers_in_time(stash_cluster: Cluster) -> None:
    ahead = stash_cluster.node(delay_duration_ms=0)
    stash_cluster.result(ahead.execute(CreateSchema(name="a")))
    stash_cluster.time.set_by_ms = -10_000
    behind = stash_cluster.node(delay_duration_ms=100)
    future = behind.execute(CreateSchema(name="b"))
    behind.step()
    stash_cluster.time.ms += 102
    behind.step()
    applied = future.result(0)
    assert applied.version == 3
    assert applied.time > ahead.catalog_at(2).time

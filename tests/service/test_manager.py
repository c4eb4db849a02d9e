"""Executing commands: both phases, what a future promises, and several nodes on one log."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from hermit.service import errors
from hermit.service.catalog import Catalog
from hermit.service.clock import HybridClock, after_ms, hybrid
from hermit.service.commands import CatalogCommand, CreateSchema, CreateZone, DropTable, RenameTable
from hermit.service.entries import UpdateEntry
from hermit.service.follower import Follower
from hermit.service.log import LogContents
from hermit.service.manager import CatalogManager
from hermit.service.requests import Applied
from hermit.service.wire.marshaller import UpdateLogMarshaller
from tests.service.conftest import Cluster
from tests.service.world import column, table

PUBLIC = {"schema": "public"}


def orders(name: str = "orders") -> CatalogCommand:
    return table(name, column("x"), schema="public")


def raw(node: CatalogManager) -> dict[str, bytes]:
    """The rows of the log as they are stored."""
    log = node._link.log
    assert log is not None
    return dict(log.read().rows)


@pytest.mark.row("I-1", "I-3", "I-7")
def test_an_object_is_made_and_changed_through_execute(cluster: Cluster) -> None:
    node = cluster.node()
    made = cluster.result(node.execute(orders()))
    renamed = cluster.result(node.execute(RenameTable(**PUBLIC, name="orders", new_name="sales")))
    assert (made.version, renamed.version) == (2, 3)
    assert node.catalog_at(2).table("public", "orders") is not None
    assert node.catalog_at(3).table("public", "orders") is None
    assert node.catalog_at(3).table("public", "sales") is not None
    assert node.catalog_latest() is node.catalog_at() is node.catalog_at(3)


@pytest.mark.row("I-4", "I-1")
def test_a_time_gives_the_version_last_active_then(stash_cluster: Cluster) -> None:
    node = stash_cluster.node(delay_duration_ms=0)
    made = stash_cluster.result(node.execute(orders()))
    stash_cluster.time.ms += 1000
    dropped = stash_cluster.result(node.execute(DropTable(**PUBLIC, name="orders")))
    assert node.catalog_at(timestamp=made.time).version == 2
    assert node.catalog_at(timestamp=hybrid(0)).version == 0
    just_before = type(dropped.time)(dropped.time - 1)
    assert node.catalog_at(timestamp=just_before).table("public", "orders") is not None
    assert node.catalog_at(timestamp=dropped.time).table("public", "orders") is None


def test_several_commands_give_one_version_or_none(stash_cluster: Cluster) -> None:
    node = stash_cluster.node()
    applied = stash_cluster.result(node.execute([orders("a"), orders("b"), CreateSchema(name="s")]))
    assert applied.version == 2
    assert len(node.catalog_at(2)) - len(node.catalog_at(1)) == 3
    refused = node.execute([orders("c"), orders("a")])
    with pytest.raises(errors.ObjectExists):
        stash_cluster.result(refused)
    assert node.catalog_latest().version == 2
    with pytest.raises(errors.InvalidCommand):
        node.execute([]).result(0)


@pytest.mark.row("I-20")
def test_an_invalid_command_changes_neither_log_nor_version(cluster: Cluster) -> None:
    node = cluster.node()
    before = raw(node)
    with pytest.raises(errors.ObjectNotFound):
        cluster.result(node.execute(DropTable(**PUBLIC, name="none")))
    assert raw(node) == before
    assert node.catalog_latest().version == 1


def test_what_is_done_already_makes_no_version(stash_cluster: Cluster) -> None:
    node = stash_cluster.node()
    assert stash_cluster.result(node.execute(CreateSchema(name="public", if_not_exists=True))) == Applied(
        1, node.catalog_latest().time, changed=False
    )


@dataclass(frozen=True)
class Broken(CatalogCommand):
    """A command with a bug."""

    def validate(self) -> None:
        pass

    def plan(self, catalog: Catalog) -> list[UpdateEntry]:
        raise ZeroDivisionError("oops")


def test_requests_that_arrive_together_become_durable_together_each_with_its_own_fate(
    stash_cluster: Cluster,
) -> None:
    node = stash_cluster.node()
    assert node._link.log is not None
    commits = node._link.log.state.content_version()
    futures = [
        node.execute(command)
        for command in (
            orders("a"),
            orders("a"),
            Broken(),
            orders("b"),
            RenameTable(**PUBLIC, name="a", new_name="c"),
        )
    ]
    node.step()
    assert node._link.log.state.content_version() == commits + 1
    assert [future.result(0).version for future in (futures[0], *futures[3:])] == [2, 3, 4]
    with pytest.raises(errors.ObjectExists):
        futures[1].result(0)
    with pytest.raises(errors.CommandFailed, match="ZeroDivisionError: oops"):
        futures[2].result(0)


def test_a_request_that_was_cancelled_in_time_is_not_executed(stash_cluster: Cluster) -> None:
    node = stash_cluster.node()
    first, second = node.execute(orders("a")), node.execute(orders("b"))
    assert first.cancel()
    assert stash_cluster.result(second).version == 2
    assert node.catalog_latest().table("public", "a") is None


def test_entries_that_fit_no_row_are_refused(stash_cluster: Cluster) -> None:
    node = stash_cluster.node(update_bytes_max=2000)
    many = table("wide", *(column(f"column_{number}") for number in range(200)), schema="public")
    large, small = node.execute(many), node.execute(orders())
    with pytest.raises(errors.UpdateTooLarge):
        stash_cluster.result(large)
    assert stash_cluster.result(small).version == 2


# Several nodes


@pytest.mark.row("I-9", "I-21")
def test_nodes_that_follow_the_log_reach_the_same_catalogs(cluster: Cluster) -> None:
    one, two = cluster.node(), cluster.node()
    for number in range(4):
        cluster.result((one, two)[number % 2].execute(orders(f"t{number}")))
    cluster.until(lambda: one.catalog_latest().version == two.catalog_latest().version == 5)
    for version in range(6):
        assert one.catalog_at(version) == two.catalog_at(version)
        assert one.catalog_at(version).version == version
    late = cluster.node()
    assert [late.catalog_at(version) for version in range(6)] == [one.catalog_at(v) for v in range(6)]


@pytest.mark.row("I-19")
def test_a_node_that_does_not_apply_has_the_entry_in_the_log_and_not_in_its_cache(cluster: Cluster) -> None:
    one, two = cluster.node(), cluster.node()
    cluster.result(one.execute(orders()), one)
    assert "catalog.update.2" in raw(two)
    assert two.catalog_latest().version == 1
    cluster.until(lambda: two.catalog_latest().version == 2, two)


@pytest.mark.row("I-15", "I-16")
def test_a_version_that_has_not_arrived_is_not_there_until_waited_for(stash_cluster: Cluster) -> None:
    one, two = stash_cluster.node(), stash_cluster.node()
    ready = two.catalog_ready(2)
    stash_cluster.result(one.execute(orders()), one)
    with pytest.raises(errors.VersionNotYetAvailable) as missing:
        two.catalog_at(2)
    assert (missing.value.earliest, missing.value.latest) == (0, 1)
    assert not ready.done()
    two.step()
    assert ready.result(0) is two.catalog_at(2)
    assert two.catalog_ready(1).result(0) is two.catalog_at(1)


@pytest.mark.row("I-25")
def test_of_two_nodes_that_race_for_a_version_one_wins_and_the_other_takes_the_next(cluster: Cluster) -> None:
    one, two = cluster.node(), cluster.node()
    first, second = one.execute(orders("a")), two.execute(orders("b"))
    # Both have validated against version 1 when the first of them appends.
    log = two._link.log
    assert log is not None
    overtaken = log.append

    def append(*arguments: object) -> None:
        one.step()
        log.append = overtaken  # type: ignore[method-assign]
        overtaken(*arguments)  # type: ignore[arg-type]

    log.append = append  # type: ignore[assignment,method-assign]
    two.step()
    assert (first.result(0).version, second.result(0).version) == (2, 3)
    assert sorted(raw(one)) == ["catalog.readers"] + [f"catalog.update.{n}" for n in (1, 2, 3)] + [
        "catalog.version"
    ]


def test_the_loser_of_a_race_is_validated_again(stash_cluster: Cluster) -> None:
    one, two = stash_cluster.node(), stash_cluster.node()
    stash_cluster.result(one.execute(orders("a")), one)
    refused = two.execute(orders("a"))
    with pytest.raises(errors.ObjectExists):
        stash_cluster.result(refused, two)


def test_an_append_is_tried_again_only_so_often(stash_cluster: Cluster) -> None:
    one, two = stash_cluster.node(), stash_cluster.node(conflicts_max=3)
    log = two._link.log
    assert log is not None
    append, names = log.append, iter("abcdef")

    def overtaken(*arguments: object) -> None:
        stash_cluster.result(one.execute(orders(next(names))), one)
        append(*arguments)  # type: ignore[arg-type]

    log.append = overtaken  # type: ignore[assignment,method-assign]
    future = two.execute(orders("mine"))
    two.step()
    with pytest.raises(errors.TooManyConflicts) as lost:
        future.result(0)
    assert lost.value.attempts == 3
    assert next(names) == "d"
    assert two.catalog_latest().table("public", "mine") is None


@pytest.mark.row("I-23", "I-24")
def test_versions_are_stored_under_their_keys(cluster: Cluster) -> None:
    node = cluster.node()
    for number in range(3):
        cluster.result(node.execute(orders(f"t{number}")))
    rows = raw(node)
    assert {key for key in rows if key.startswith("catalog.update.")} == {
        f"catalog.update.{version}" for version in (1, 2, 3, 4)
    }
    assert int.from_bytes(rows["catalog.version"], "big") == 4
    assert rows["catalog.update.3"][:5].hex() == "0002000102"


@pytest.mark.row("I-22")
def test_all_that_a_node_knows_is_under_the_keys_of_the_log(cluster: Cluster) -> None:
    node = cluster.node()
    for number in range(3):
        cluster.result(node.execute(orders(f"t{number}")))
    cluster.result(node.wait_for_metadata_completeness(node.clock.now()))
    # Nothing but the rows is handed over, and the store is not asked.
    other = Follower(HybridClock(cluster.time.date))
    other.adopt(LogContents(raw(node), UpdateLogMarshaller()))
    for version in range(5):
        assert other.catalog_at(version) == node.catalog_at(version)
    assert other.clock.now() > node.catalog_latest().time


# What a future promises


@pytest.mark.row("I-10", "I-11", "I-12", "I-13", "I-14")
def test_a_future_is_done_when_the_version_is_available_on_every_node(cluster: Cluster) -> None:
    one, two = cluster.node(delay_duration_ms=50), cluster.node(delay_duration_ms=50)
    seen: list[int] = []
    future = one.execute(orders())
    future.add_done_callback(lambda done: seen.append(one.catalog_at(done.result().version).version))
    cluster.until(lambda: two.catalog_latest().version == 2)
    # Both nodes have it, and may show it; but nobody is told before the delay is over.
    assert one.catalog_at(timestamp=one.clock.now()).version == 2
    assert not future.done()
    cluster.time.ms += 49
    one.step()
    assert not future.done()
    cluster.time.ms += 2
    one.step()
    assert future.done()
    assert seen == [2]
    two.step()
    assert two.catalog_at(timestamp=two.clock.now()).table("public", "orders") is not None


@pytest.mark.row("I-11")
@pytest.mark.parametrize("delay_ms", [0, 10, 250])
def test_the_delay_is_a_setting(stash_cluster: Cluster, delay_ms: int) -> None:
    node = stash_cluster.node(delay_duration_ms=delay_ms)
    future = node.execute(orders())
    node.step()
    began_ms = stash_cluster.time.ms
    while not future.done():
        stash_cluster.time.ms += 1
        node.step()
    # Within one ms events are ordered, but not told apart by time: the last one counts in full.
    assert delay_ms <= stash_cluster.time.ms - began_ms <= delay_ms + 1


@pytest.mark.row("I-11")
def test_the_delay_in_the_catalog_holds_for_all_nodes_as_soon_as_it_changes(stash_cluster: Cluster) -> None:
    node = stash_cluster.node(delay_duration_ms=1000)
    assert node._link.log is not None
    node._link.log.state.set_system_configuration("schema_sync.delay_duration_ms", "20")
    node.step()
    future = node.execute(orders())
    node.step()
    stash_cluster.time.ms += 21
    node.step()
    assert future.done()
    assert stash_cluster.node()._delay_ms == 20


@pytest.mark.row("I-12")
def test_a_node_that_lost_touch_says_so_instead_of_answering_for_the_present(cluster: Cluster) -> None:
    one, two = cluster.node(delay_duration_ms=50), cluster.node(delay_duration_ms=50)
    future = one.execute(orders())
    one.step()
    cluster.time.ms += 51
    one.step()
    assert future.done()
    with pytest.raises(errors.NodeBehind) as behind:
        two.catalog_at(timestamp=two.clock.now())
    assert (behind.value.earliest, behind.value.latest) == (0, 1)
    assert two.catalog_at(timestamp=hybrid(1)).version == 0
    assert two.catalog_latest().version == 1
    two.step()
    assert two.catalog_at(timestamp=two.clock.now()).version == 2


def test_clocks_that_differ_delay_completion_by_as_much(stash_cluster: Cluster) -> None:
    node = stash_cluster.node(delay_duration_ms=50, clock_skew_ms_max=30)
    future = node.execute(orders())
    node.step()
    stash_cluster.time.ms += 79
    node.step()
    assert not future.done()
    stash_cluster.time.ms += 2
    node.step()
    assert future.done()


@pytest.mark.row("I-17")
def test_a_time_that_was_waited_for_is_final(cluster: Cluster) -> None:
    one, two = cluster.node(), cluster.node()
    moment = after_ms(one.clock.now(), 5)
    complete = one.wait_for_metadata_completeness(moment)
    one.step()
    assert not complete.done()
    cluster.time.ms += 6
    cluster.result(complete, one)
    found = one.catalog_at(timestamp=moment)
    # The other node's clock is far behind, and yet it finds no place before the moment.
    cluster.time.ms -= 1000
    applied = cluster.result(two.execute(orders()), two)
    assert applied.time > moment
    cluster.until(lambda: one.catalog_latest().version == 2, one)
    assert one.catalog_at(timestamp=moment) is found


@pytest.mark.row("I-17")
def test_a_time_before_a_version_that_is_here_is_final_already(stash_cluster: Cluster) -> None:
    node = stash_cluster.node()
    before = raw(node)
    assert node.wait_for_metadata_completeness(node.catalog_latest().time).done()
    assert raw(node) == before
    waiting = node.wait_for_metadata_completeness(after_ms(node.clock.now(), 1))
    stash_cluster.time.ms += 5
    applied = stash_cluster.result(node.execute(orders()))
    assert applied.time > hybrid(stash_cluster.time.ms - 1)
    stash_cluster.result(waiting)


def test_activation_times_grow_though_clocks_go_back(stash_cluster: Cluster) -> None:
    one, two = stash_cluster.node(), stash_cluster.node()
    times = []
    for number in range(4):
        stash_cluster.time.ms -= 500
        times.append(stash_cluster.result((one, two)[number % 2].execute(orders(f"t{number}"))).time)
    assert times == sorted(set(times))


# The end


@pytest.mark.row("I-7")
def test_a_stopped_node_refuses_and_releases_everybody_who_waits(stash_cluster: Cluster) -> None:
    node = stash_cluster.node(delay_duration_ms=1000)
    applied = node.execute(orders())
    node.step()
    waiting, ready = node.execute(CreateZone(name="z")), node.catalog_ready(99)
    complete = node.wait_for_metadata_completeness(after_ms(node.clock.now(), 10_000))
    node.stop()
    with pytest.raises(errors.AppliedHereOnly) as here:
        applied.result(0)
    assert here.value.version == 2
    for future in (waiting, ready, complete, node.execute(CreateZone(name="z")), node.catalog_ready(99)):
        with pytest.raises(errors.Stopped):
            future.result(0)  # type: ignore[attr-defined]
    assert node.catalog_at(2).table("public", "orders") is not None
    assert stash_cluster.node().catalog_latest().zone("z") is None

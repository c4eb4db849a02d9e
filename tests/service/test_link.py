"""How nodes share the catalog, lose it to another opener, and get it back."""

from __future__ import annotations

import pytest

from hermit.errors import Unavailable
from hermit.service import errors
from hermit.service.commands import CreateSchema
from hermit.service.link import owner
from tests.service.conftest import Cluster


def test_nodes_share_one_epoch_and_do_not_fence_each_other(cluster: Cluster) -> None:
    nodes = [cluster.node() for _ in range(3)]
    tokens = {node._link.log.state.token.epoch for node in nodes}  # type: ignore[union-attr]
    assert len(tokens) == 1
    for number, node in enumerate(nodes):
        cluster.result(node.execute(CreateSchema(name=f"s{number}")), node)
    assert all(node.is_writable for node in nodes)
    state = nodes[0]._link.log.state  # type: ignore[union-attr]
    found = owner(state)
    assert found is not None
    assert (found.epoch, found.nonce) == (state.token.epoch, state.token.nonce)


def test_a_fenced_node_goes_on_reading_and_waits_before_it_takes_the_catalog_back(cluster: Cluster) -> None:
    node = cluster.node(delay_duration_ms=50)
    with cluster.home().locate().open(preload=False) as stranger:
        future = node.execute(CreateSchema(name="s"))
        for _ in range(5):
            cluster.time.ms += 40
            node.step()
        assert not node.is_writable
        assert not future.done()
        # It follows the log through a handle that fences nobody, and so can answer for the present.
        assert node.catalog_at(timestamp=node.clock.now()).version == 1
        stranger.set_setting("mine", "still")
    cluster.time.ms += 30_000
    cluster.until(lambda: node.is_writable)
    node.step()
    cluster.time.ms += 100
    assert cluster.result(future).version == 2


def test_of_several_fenced_nodes_one_takes_over_and_the_rest_join_it(cluster: Cluster) -> None:
    nodes = [cluster.node() for _ in range(3)]
    with cluster.home().locate().open(preload=False) as stranger:
        futures = [node.execute(CreateSchema(name=f"s{number}")) for number, node in enumerate(nodes)]
        for node in nodes:
            node.step()
            node.step()
        epoch = stranger.epoch
    cluster.time.ms += 30_001
    cluster.until(lambda: all(future.done() for future in futures))
    epochs = {node._link.log.state.epoch for node in nodes}  # type: ignore[union-attr]
    assert len(epochs) == 1
    assert epochs > {epoch} or min(epochs) > epoch
    assert sorted(future.result().version for future in futures) == [2, 3, 4]


def test_a_command_that_waited_too_long_was_not_executed(stash_cluster: Cluster) -> None:
    node = stash_cluster.node(execute_timeout_ms=5_000)
    with stash_cluster.home().locate().open(preload=False):
        future = node.execute(CreateSchema(name="s"))
        task = node.ask(lambda log: log.read())
        node.step()
        stash_cluster.time.ms += 5_001
        node.step()
        with pytest.raises(errors.NotAccepted, match="fenced"):
            future.result(0)
        with pytest.raises(errors.NotAccepted):
            task.result(0)
    stash_cluster.time.ms += 30_000
    stash_cluster.until(lambda: node.is_writable)
    assert node.catalog_latest().version == 1


class Lost(Unavailable):
    """The answer of the store did not come."""


def test_a_lost_answer_is_settled_by_what_the_log_holds(cluster: Cluster) -> None:
    """The commit happened, but the node was not told."""
    node = cluster.node()
    log = node._link.log
    assert log is not None
    append = log.append

    def lossy(*arguments: object) -> None:
        append(*arguments)  # type: ignore[arg-type]
        log.append = append  # type: ignore[method-assign]
        raise Lost("no answer")

    log.append = lossy  # type: ignore[assignment,method-assign]
    future = node.execute(CreateSchema(name="s"))
    node.step()
    assert isinstance(node.trouble, Lost)
    assert not future.done()
    assert cluster.result(future).version == 2
    cluster.until(lambda: len(node._queue) == 0)
    assert node.catalog_latest().version == 2


def test_what_did_not_arrive_is_sent_again(cluster: Cluster) -> None:
    node = cluster.node()
    log = node._link.log
    assert log is not None
    append = log.append

    def dead(*arguments: object) -> None:
        log.append = append  # type: ignore[method-assign]
        raise Lost("no connection")

    log.append = dead  # type: ignore[assignment,method-assign]
    future = node.execute(CreateSchema(name="s"))
    node.step()
    assert cluster.result(future).version == 2
    assert node.catalog_latest().version == 2


def test_a_command_in_doubt_is_refused_only_when_it_cannot_arrive_any_more(stash_cluster: Cluster) -> None:
    """The command turns out to be refused, while its first attempt may still be on its way."""
    node, other = stash_cluster.node(), stash_cluster.node()
    log = node._link.log
    assert log is not None
    append = log.append

    def dead(*arguments: object) -> None:
        log.append = append  # type: ignore[method-assign]
        raise Lost("no connection")

    log.append = dead  # type: ignore[assignment,method-assign]
    future = node.execute(CreateSchema(name="s"))
    node.step()
    stash_cluster.result(other.execute(CreateSchema(name="s")), other)
    commits = other._link.log.state.content_version()  # type: ignore[union-attr]
    with pytest.raises(errors.ObjectExists):
        stash_cluster.result(future, node)
    # It wrote, although there was nothing to write: whatever was sent before has lost its place.
    assert other._link.log.state.content_version() == commits + 1  # type: ignore[union-attr]


def test_a_command_whose_fate_stays_unknown_says_so(stash_cluster: Cluster) -> None:
    node = stash_cluster.node(execute_timeout_ms=5_000)
    log = node._link.log
    assert log is not None

    def dead(*arguments: object) -> None:
        raise Lost("no connection")

    log.append = dead  # type: ignore[assignment,method-assign]
    future = node.execute(CreateSchema(name="s"))
    node.step()
    stash_cluster.time.ms += 5_001
    node.step()
    with pytest.raises(errors.OutcomeUnknown, match="no connection"):
        future.result(0)

"""Events: after the version is readable, in order, and never the log's trouble."""

from __future__ import annotations

import logging

import pytest

from hermit.service.commands import CreateIndex, CreateSchema, CreateSequence, DropTable, RenameTable
from hermit.service.events import CatalogEvent, EventType
from tests.service.conftest import Cluster
from tests.service.world import column, table

PUBLIC = {"schema": "public"}
ORDERS = table("orders", column("x"), schema="public")


@pytest.mark.row("I-5")
def test_a_listener_hears_of_what_it_asked_for_and_of_nothing_else(stash_cluster: Cluster) -> None:
    node = stash_cluster.node()
    heard: list[CatalogEvent] = []
    node.subscribe(heard.append, [EventType.TABLE_CREATED])
    stash_cluster.result(node.execute(ORDERS))
    stash_cluster.result(node.execute(CreateSequence(**PUBLIC, name="s")))
    assert [(event.type, event.version) for event in heard] == [(EventType.TABLE_CREATED, 2)]
    assert heard[0].object == node.catalog_at(2).table("public", "orders")


def test_a_listener_may_ask_for_one_type_only(stash_cluster: Cluster) -> None:
    node = stash_cluster.node()
    heard: list[CatalogEvent] = []
    node.subscribe(heard.append, EventType.SEQUENCE_CREATED)
    stash_cluster.result(node.execute([ORDERS, CreateSequence(**PUBLIC, name="s")]))
    assert [event.type for event in heard] == [EventType.SEQUENCE_CREATED]


@pytest.mark.row("I-18")
def test_every_listener_on_every_node_can_read_the_version_of_its_event(stash_cluster: Cluster) -> None:
    nodes = [stash_cluster.node(), stash_cluster.node()]
    heard: list[list[int]] = [[], []]
    for node, versions in zip(nodes, heard, strict=True):
        node.subscribe(
            lambda event, node=node, versions=versions: versions.append(  # type: ignore[misc]
                node.catalog_at(event.version).version
            )
        )
    futures = [nodes[number % 2].execute(CreateSchema(name=f"s{number}")) for number in range(6)]
    stash_cluster.until(lambda: all(len(versions) == 6 for versions in heard))
    assert heard == [[2, 3, 4, 5, 6, 7]] * 2
    assert {future.result(0).version for future in futures} == set(range(2, 8))


def test_events_of_one_version_come_in_the_order_of_its_changes(stash_cluster: Cluster) -> None:
    node = stash_cluster.node()
    heard: list[CatalogEvent] = []
    node.subscribe(heard.append)
    stash_cluster.result(
        node.execute(
            [
                ORDERS,
                CreateIndex(**PUBLIC, name="i", table="orders", columns=("x",)),
                RenameTable(**PUBLIC, name="orders", new_name="sales"),
                DropTable(**PUBLIC, name="sales"),
            ]
        )
    )
    assert [event.type for event in heard] == [
        EventType.TABLE_CREATED,
        EventType.INDEX_CREATED,
        EventType.TABLE_ALTERED,
        EventType.INDEX_DROPPED,
        EventType.TABLE_DROPPED,
    ]
    assert {event.version for event in heard} == {2}
    altered = heard[2]
    assert altered.former is not None
    assert altered.object is not None
    assert (altered.former.name, altered.object.name) == ("orders", "sales")
    assert heard[4].object is None


def test_a_listener_that_fails_stops_neither_the_others_nor_the_log(
    stash_cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    node = stash_cluster.node()
    heard: list[int] = []

    def fails(event: CatalogEvent) -> None:
        raise RuntimeError("not today")

    node.subscribe(fails)
    node.subscribe(lambda event: heard.append(event.version))
    with caplog.at_level(logging.CRITICAL):
        for number in range(3):
            stash_cluster.result(node.execute(CreateSchema(name=f"s{number}")))
    assert heard == [2, 3, 4]
    assert node._listeners.failures == 3


def test_a_closed_subscription_hears_nothing(stash_cluster: Cluster) -> None:
    node = stash_cluster.node()
    heard: list[CatalogEvent] = []
    subscription = node.subscribe(heard.append)
    stash_cluster.result(node.execute(ORDERS))
    subscription.close()
    stash_cluster.result(node.execute(CreateSchema(name="s")))
    assert len(heard) == 1


def test_every_change_of_every_type_has_an_event() -> None:
    from hermit.service.descriptors import ObjectType

    for type_ in ObjectType:
        assert EventType.created(type_).value == f"{type_.word}_created"
        assert EventType.altered(type_).value == f"{type_.word}_altered"
        assert EventType.dropped(type_).value == f"{type_.word}_dropped"

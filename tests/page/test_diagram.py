"""The diagram says exactly what the protocol's table says."""

from __future__ import annotations

import pytest

from hermit.migration.protocol import PROTOCOLS, Direction, Protocol, Tombstones
from hermit_airflow.page.diagram import diagram, state_id, transitions

_BOTH = list(PROTOCOLS.values())


@pytest.mark.parametrize("protocol", _BOTH, ids=lambda protocol: protocol.name)
def test_every_state_of_the_table_is_a_node_with_the_tables_truth(protocol: Protocol) -> None:
    nodes = {node["id"]: node for node in diagram(protocol.name)["nodes"]}
    assert len(nodes) == len(protocol.truths)
    for state, truth in protocol.truths.items():
        node = nodes[state_id(protocol, Tombstones(*state))]
        assert (node["truth"], node["why"], node["reachable"]) == (truth.store, truth.why, truth.reachable)


@pytest.mark.parametrize("protocol", _BOTH, ids=lambda protocol: protocol.name)
def test_the_edges_reach_every_reachable_state_and_no_other(protocol: Protocol) -> None:
    edges = diagram(protocol.name)["edges"]
    reached = {state_id(protocol, Tombstones(None, None))} | {edge["to"] for edge in edges}
    assert reached == {node["id"] for node in diagram(protocol.name)["nodes"] if node["reachable"]}


@pytest.mark.parametrize("protocol", _BOTH, ids=lambda protocol: protocol.name)
@pytest.mark.parametrize("direction", list(Direction))
def test_following_one_direction_ends_where_it_leads(protocol: Protocol, direction: Direction) -> None:
    nodes = {node["id"]: node for node in diagram(protocol.name)["nodes"]}
    steps = {e["from"]: e["to"] for e in diagram(protocol.name)["edges"] if e["direction"] == direction}
    for start, node in nodes.items():
        if node["reachable"]:
            at = start
            for _ in nodes:
                at = steps.get(at, at)
            assert nodes[at]["truth"] == direction.target
            assert nodes[at]["settled"]


def test_the_truth_moves_on_exactly_the_cut_over() -> None:
    for name in PROTOCOLS:
        for edge in diagram(name)["edges"]:
            assert edge["moves_truth"] == (edge["step"] != "announce")


def test_nothing_leads_on_from_an_unreachable_state() -> None:
    assert transitions(PROTOCOLS["double"], Tombstones(None, True)) == []


def test_no_two_nodes_are_drawn_in_one_place() -> None:
    for name in PROTOCOLS:
        nodes = diagram(name)["nodes"]
        assert len({(node["column"], node["row"]) for node in nodes}) == len(nodes)

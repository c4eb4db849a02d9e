"""The state diagram of a protocol, derived from its table: nodes, edges, and where each is drawn.

Pure. A column stands for the stash's tombstone, a row for persist's, so that an announcement is a step to
the side and a cut-over, under two tombstones, a step up or down.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from hermit.migration.protocol import PROTOCOLS, Direction, Protocol, Step, Tombstones

_COLUMNS: tuple[bool | None, ...] = (None, True, False)
_ROWS: tuple[bool | None, ...] = (None, False, True)


def word(tombstone: bool | None) -> str:
    """A tombstone in one word."""
    return {None: "absent", True: "true", False: "false"}[tombstone]


def state_id(protocol: Protocol, tombstones: Tombstones) -> str:
    """The name of the node that these tombstones light up."""
    stash, persist = protocol.state(tombstones)
    return f"{word(stash)}-{word(persist)}" if protocol.watches_persist else word(stash)


@cache
def diagram(name: str) -> dict[str, Any]:
    """A protocol's nodes and edges, for the page to draw."""
    protocol = PROTOCOLS[name]
    states = [Tombstones(*state) for state in protocol.truths]
    return {
        "protocol": name,
        "watches_persist": protocol.watches_persist,
        "nodes": [_node(protocol, state) for state in states],
        "edges": [edge for state in states for edge in _edges(protocol, state)],
    }


def transitions(protocol: Protocol, tombstones: Tombstones) -> list[dict[str, Any]]:
    """The edges that leave the current state."""
    return list(_edges(protocol, Tombstones(*protocol.state(tombstones))))


def _node(protocol: Protocol, state: Tombstones) -> dict[str, Any]:
    truth = protocol.truth(state)
    return {
        "id": state_id(protocol, state),
        "stash": word(state.stash),
        "persist": word(state.persist) if protocol.watches_persist else None,
        "truth": truth.store.value,
        "why": truth.why,
        "reachable": truth.reachable,
        "settled": protocol.is_settled(state),
        "column": _COLUMNS.index(state.stash),
        "row": _ROWS.index(state.persist),
    }


def _edges(protocol: Protocol, state: Tombstones) -> Iterator[dict[str, Any]]:
    """What each direction would write first from here: its announcement, or else its cut-over."""
    if not protocol.truth(state).reachable:
        return
    for direction in Direction:
        plan = protocol.plans[direction]
        announced = state.with_(plan.announce) if plan.announce else state
        if announced != state:
            step, after = Step.ANNOUNCE, announced
        elif not protocol.is_done(direction, state):
            step = Step.REPLACE if plan.cut_over_with_replace else Step.SET_TOMBSTONE
            after = state.with_(plan.cut_over)
        else:
            continue
        yield {
            "from": state_id(protocol, state),
            "to": state_id(protocol, after),
            "direction": direction.value,
            "step": step.value,
            "moves_truth": protocol.truth(after).store is not protocol.truth(state).store,
            "why": protocol.truth(after).why,
        }

"""Diagrams of the protocols, drawn from their tables: nothing here knows a state or a step by name.

A state is a pair of tombstones, so that states lie on a grid: down the stash's tombstone, across
persist's. A move changes one of them at a time, so that every arrow goes down, up or across.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hermit.handbook import svg
from hermit.migration.protocol import Direction, Protocol, Step, Tombstones

Cell = tuple[bool | None, bool | None]

_STASH_ORDER: tuple[bool | None, ...] = (None, True, False)
_PERSIST_ORDER: tuple[bool | None, ...] = (None, False, True)
_WORDS = {None: "absent", True: "true", False: "false"}
_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _LEFT, _TOP = 170, 76, 120, 74, 150, 56
_LANE = 16


@dataclass(frozen=True)
class Transition:
    """One write of a tombstone: from a state to a state, as part of a move."""

    before: Cell
    after: Cell
    direction: Direction
    is_cut_over: bool


def transitions(protocol: Protocol) -> list[Transition]:
    """Every write of a tombstone that moves make, from every state that the protocol can be in."""
    found: dict[Transition, None] = {}
    for cell, truth in protocol.truths.items():
        if truth.reachable:
            for direction in Direction:
                found.update(dict.fromkeys(_writes(protocol, Tombstones(*cell), direction)))
    return list(found)


def _writes(protocol: Protocol, tombstones: Tombstones, direction: Direction) -> Iterator[Transition]:
    plan = protocol.plans[direction]
    if plan.announce is not None:
        announced = tombstones.with_(plan.announce)
        if announced != tombstones:
            yield Transition(protocol.state(tombstones), protocol.state(announced), direction, False)
        tombstones = announced
    if not protocol.is_done(direction, tombstones):
        moved = tombstones.with_(plan.cut_over)
        yield Transition(protocol.state(tombstones), protocol.state(moved), direction, True)


def states(protocol: Protocol) -> str:
    """The states of a protocol, the truth in each, and the writes between them."""
    columns = len(_PERSIST_ORDER) if protocol.watches_persist else 1
    width = _LEFT + columns * _WIDTH + (columns - 1) * _GAP_X + 30
    height = _TOP + 3 * _HEIGHT + 2 * _GAP_Y + 66
    parts = [*_axes(protocol, columns)]
    parts += [_arrow(transition) for transition in transitions(protocol)]
    for cell, truth in protocol.truths.items():
        x, y = _place(cell)
        words = [f"truth: {truth.store}" if truth.reachable else "no move leads here"]
        kind = truth.store.value if truth.reachable else "none"
        parts.append(svg.box(x, y, _WIDTH, _HEIGHT, kind, words, dashed=not truth.reachable))
    parts += _legend(height - 34)
    return svg.document(width, height, f"States of the {protocol.name}-tombstone protocol", parts)


def _place(cell: Cell) -> tuple[float, float]:
    column, row = _PERSIST_ORDER.index(cell[1]), _STASH_ORDER.index(cell[0])
    return _LEFT + column * (_WIDTH + _GAP_X), _TOP + row * (_HEIGHT + _GAP_Y)


def _axes(protocol: Protocol, columns: int) -> Iterator[str]:
    for value in _STASH_ORDER:
        _, y = _place((value, None))
        yield svg.text(_LEFT - 40, y + _HEIGHT / 2 - 4, "stash", anchor="end")
        yield svg.text(_LEFT - 40, y + _HEIGHT / 2 + 14, _WORDS[value], anchor="end", bold=True)
    if protocol.watches_persist:
        for value in _PERSIST_ORDER[:columns]:
            x, _ = _place((None, value))
            yield svg.text(x + _WIDTH / 2, 22, "persist")
            yield svg.text(x + _WIDTH / 2, 40, _WORDS[value], bold=True)


def _arrow(transition: Transition) -> str:
    """Moves there run on one lane, moves back on another, so that both ways can be seen."""
    (x1, y1), (x2, y2) = _place(transition.before), _place(transition.after)
    kind = transition.direction.value
    lane = -_LANE if transition.direction is Direction.MIGRATE else _LANE
    mark = "cut-over" if transition.is_cut_over else "announce"
    if y1 == y2:
        y = y1 + _HEIGHT / 2 + lane
        start, end = (x1 + _WIDTH, x2) if x2 > x1 else (x1, x2 + _WIDTH)
        word = svg.text((start + end) / 2, y - 6, mark, color=svg.COLORS[kind][0])
        return svg.arrow([(start, y), (end, y)], kind) + word
    if abs(y2 - y1) > _HEIGHT + _GAP_Y:
        y_start, y_end = y1 + _HEIGHT / 2, y2 + _HEIGHT / 2
        return svg.arrow([(x1, y_start), (x2, y_end)], kind, bend=-34)
    x = x1 + _WIDTH / 2 + 2 * lane
    start, end = (y1 + _HEIGHT, y2) if y2 > y1 else (y1, y2 + _HEIGHT)
    side = "end" if lane < 0 else "start"
    word = svg.text(x + (lane / 3), (start + end) / 2 + 4, mark, color=svg.COLORS[kind][0], anchor=side)
    return svg.arrow([(x, start), (x, end)], kind) + word


def _legend(y: float) -> Iterator[str]:
    for place, direction in enumerate(Direction):
        x = _LEFT + 100 * place
        yield svg.arrow([(x, y), (x + 26, y)], direction.value)
        yield svg.text(x + 32, y + 4, direction.value, anchor="start")


def steps(protocol: Protocol, direction: Direction) -> str:
    """The steps of a run in a row, the ways that the branch may take above them."""
    plan = protocol.plans[direction]
    width, height, gap, top = 134, 42, 18, 60
    places = {step: 14 + number * (width + gap) for number, step in enumerate(plan.steps)}
    parts = []
    for step, x in places.items():
        decides = step is Step.SET_TOMBSTONE or (plan.cut_over_with_replace and step is Step.REPLACE)
        kind = direction.target.value if decides else "none"
        parts.append(svg.box(x, top, width, height, kind, [step.value]))
        if step is not plan.steps[0]:
            parts.append(svg.arrow([(x - gap, top + height / 2), (x, top + height / 2)]))
    branch = places[Step.CHECK_TOMBSTONE] + width / 2
    for level, entry in enumerate(plan.entries[1:], start=1):
        over, target = top - 16 * level, places[entry] + width / 2 - 8 * level
        start = branch + 8 * level
        parts.append(svg.arrow([(start, top), (start, over), (target, over), (target, top)]))
    end = places[plan.steps[-1]] + width
    out = top + height + 26
    parts.append(svg.arrow([(branch, top + height), (branch, out), (end, out)]))
    parts.append(svg.text(branch + 8, out - 6, "nothing to do", anchor="start"))
    return svg.document(end + 14, out + 20, f"The steps of {direction}", parts)

"""The checker of histories is right: it agrees with trying every order, and it finds what is wrong."""

from __future__ import annotations

import itertools
import math
import random

import pytest

from tests.service.linearizable import Operation, violations


def sees(id_: str, begun: float, ended: float, *versions: int) -> Operation:
    return Operation(id_, begun, ended, is_right_at=lambda version: version in versions)


def test_a_history_in_order_is_linearizable() -> None:
    history = [
        Operation("a", 0, 1, version=1),
        sees("r", 2, 3, 1),
        Operation("b", 4, math.inf, version=2),
        sees("s", 5, 6, 1),
        sees("t", 7, 8, 2),
    ]
    assert violations(history, 2) == []


@pytest.mark.parametrize(
    "history",
    [
        # A version that was told is not seen afterwards.
        [Operation("a", 0, 1, version=1), sees("r", 2, 3, 0)],
        # Two changes that did not overlap are the other way round.
        [Operation("a", 0, 1, version=2), Operation("b", 2, 3, version=1)],
        # One saw the new version, and another, later, the old one.
        [Operation("a", 0, 9, version=1), sees("r", 1, 2, 1), sees("s", 3, 4, 0)],
        # Something was seen before it was asked for.
        [sees("r", 0, 1, 1), Operation("a", 2, 3, version=1)],
        # A refusal that was right only before and after.
        [
            Operation("a", 0, 1, version=1),
            sees("r", 2, 3, 0, 2),
            Operation("b", 4, 5, version=2),
        ],
    ],
)
def test_a_history_that_nobody_can_explain_is_found(history: list[Operation]) -> None:
    assert violations(history, 2)


def test_the_checker_agrees_with_trying_every_order() -> None:
    rng = random.Random(7)
    outcomes = [_compare(rng) for _ in range(400)]
    assert 50 < sum(outcomes) < 350


def _compare(rng: random.Random) -> bool:
    latest, history = rng.randrange(4), []
    for version in range(1, latest + 1):
        begun = rng.randrange(8)
        ended = math.inf if rng.random() < 0.1 else begun + rng.randrange(1, 6)
        history.append(Operation(f"c{version}", begun, ended, version=version))
    for number in range(rng.randrange(4)):
        begun = rng.randrange(8)
        right = [version for version in range(latest + 1) if rng.random() < 0.5]
        history.append(sees(f"r{number}", begun, begun + rng.randrange(1, 6), *right))
    expected = any(_explains(order) for order in itertools.permutations(history))
    assert (not violations(history, latest)) == expected, history
    return expected


def _explains(order: tuple[Operation, ...]) -> bool:
    if any(b.ended < a.begun for a, b in itertools.combinations(order, 2)):
        return False
    current = 0
    for operation in order:
        if operation.version is not None:
            if operation.version != current + 1:
                return False
            current += 1
        elif operation.is_right_at is not None and not operation.is_right_at(current):
            return False
    return True

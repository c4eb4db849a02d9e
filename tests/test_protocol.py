"""The tables of both protocols, against the tables of the specification, written out once more by hand."""

from __future__ import annotations

import itertools

import pytest

from hermit.errors import InvalidInput
from hermit.migration.protocol import (
    DOUBLE,
    SINGLE,
    Direction,
    ProtocolInUse,
    Store,
    Tombstones,
    UnreachableState,
    adoption,
    parse,
)

N, T, F = None, True, False
MIGRATE, ROLLBACK = Direction.MIGRATE, Direction.ROLLBACK
STASH, PERSIST = Store.STASH, Store.PERSIST


@pytest.mark.parametrize(
    ("tombstone", "truth"),
    [
        (N, STASH),
        (T, PERSIST),
        (F, STASH),
    ],
)
def test_one_tombstone_says_where_the_truth_is(tombstone: bool | None, truth: Store) -> None:
    assert SINGLE.truth(Tombstones(tombstone, None)).store is truth


@pytest.mark.parametrize(
    ("stash", "persist", "truth"),
    [
        *((N, p, STASH) for p in (N, T, F)),
        *((s, N, STASH) for s in (N, T, F)),
        (T, F, PERSIST),
        (F, T, STASH),
        (T, T, STASH),
        (F, F, PERSIST),
    ],
)
def test_two_tombstones_say_where_the_truth_is(
    stash: bool | None, persist: bool | None, truth: Store
) -> None:
    assert DOUBLE.truth(Tombstones(stash, persist)).store is truth


_EDGES = [
    # from, move, after the announcement, whether it stops there, after the cut-over, truth
    ((N, N), MIGRATE, (T, N), False, (T, F), PERSIST),
    ((N, N), ROLLBACK, (F, N), True, None, STASH),
    ((T, N), MIGRATE, (T, N), False, (T, F), PERSIST),
    ((T, N), ROLLBACK, (F, N), True, None, STASH),
    ((F, N), MIGRATE, (T, N), False, (T, F), PERSIST),
    ((F, N), ROLLBACK, (F, N), True, None, STASH),
    ((T, F), MIGRATE, (T, F), True, None, PERSIST),
    ((T, F), ROLLBACK, (F, F), False, (F, T), STASH),
    ((F, F), ROLLBACK, (F, F), False, (F, T), STASH),
    ((F, F), MIGRATE, (T, F), True, None, PERSIST),
    ((F, T), ROLLBACK, (F, T), True, None, STASH),
    ((F, T), MIGRATE, (T, T), False, (T, F), PERSIST),
    ((T, T), MIGRATE, (T, T), False, (T, F), PERSIST),
    ((T, T), ROLLBACK, (F, T), True, None, STASH),
]


@pytest.mark.parametrize(("start", "move", "announced", "stops", "end", "truth"), _EDGES)
def test_every_edge_of_the_two_tombstone_protocol(
    start: tuple[bool | None, bool | None],
    move: Direction,
    announced: tuple[bool | None, bool | None],
    stops: bool,
    end: tuple[bool | None, bool | None] | None,
    truth: Store,
) -> None:
    plan = DOUBLE.plans[move]
    assert plan.announce is not None
    after = Tombstones(*start).with_(plan.announce)
    assert after == Tombstones(*announced)
    assert DOUBLE.is_done(move, after) is stops
    if end is not None:
        # Announcing moves the truth in no state: only the cut-over does.
        assert DOUBLE.truth(after).store is move.source
        after = after.with_(plan.cut_over)
        assert after == Tombstones(*end)
    assert DOUBLE.truth(after).store is truth


def test_announcing_never_moves_the_truth() -> None:
    for stash, persist, move in itertools.product((N, T, F), (N, T, F), Direction):
        before = Tombstones(stash, persist)
        announce = DOUBLE.plans[move].announce
        if DOUBLE.truth(before).reachable and announce is not None:
            assert DOUBLE.truth(before.with_(announce)).store is DOUBLE.truth(before).store


@pytest.mark.parametrize("persist", [T, F])
def test_a_state_that_cannot_be_reached_is_refused(persist: bool) -> None:
    with pytest.raises(UnreachableState, match="stash absent, persist"):
        DOUBLE.require_reachable(Tombstones(N, persist))


def test_changing_the_protocol_moves_the_truth_in_no_state() -> None:
    changed = 0
    for stash, persist in itertools.product((N, T, F), repeat=2):
        for current, wanted in ((SINGLE, DOUBLE), (DOUBLE, SINGLE)):
            before = Tombstones(stash, persist)
            try:
                write = adoption(current, wanted, before)
            except (ProtocolInUse, UnreachableState):
                continue
            after = before.with_(write) if write else before
            truth = current.truth(before).store
            assert current.truth(after).store is truth, "the write itself moved it, under the old table"
            assert wanted.truth(after).store is truth, "the change of table moved it"
            changed += 1
    assert changed == 11


@pytest.mark.parametrize(("stash", "persist"), [(T, N), (T, T), (F, F)])
def test_the_protocol_does_not_change_in_the_middle_of_a_move(stash: bool, persist: bool | None) -> None:
    with pytest.raises(ProtocolInUse, match="half-way"):
        adoption(DOUBLE, SINGLE, Tombstones(stash, persist))


def test_an_unknown_protocol_is_named_with_the_known_ones() -> None:
    with pytest.raises(InvalidInput, match="triple") as caught:
        parse("triple")
    assert "single, double" in str(caught.value)

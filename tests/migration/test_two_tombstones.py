"""Every state and every edge of the two-tombstone protocol, driven over real stores."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from hermit.formats.generate import rows
from hermit.migration.load import load_rows
from hermit.migration.protocol import Direction, Step
from hermit.migration.stores import Stores
from tests.migration.driver import Crash, move, stores_for, truth

N, T, F = None, True, False
MIGRATE, ROLLBACK = Direction.MIGRATE, Direction.ROLLBACK
Pair = tuple[bool | None, bool | None]

# How each state comes about: whole moves, and a last one that dies after announcing itself.
_WAYS: dict[Pair, tuple[list[Direction], Direction | None]] = {
    (N, N): ([], None),
    (T, N): ([], MIGRATE),
    (F, N): ([ROLLBACK], None),
    (T, F): ([MIGRATE], None),
    (F, F): ([MIGRATE], ROLLBACK),
    (F, T): ([MIGRATE, ROLLBACK], None),
    (T, T): ([MIGRATE, ROLLBACK], MIGRATE),
}


@pytest.fixture
def stores(database_url: str, tmp_path: Path, organization_id: UUID) -> Stores:
    stores = stores_for(database_url, str(tmp_path / "shards"), organization_id)
    load_rows(stores, rows(50, 3))
    return stores


def _bring_to(stores: Stores, pair: Pair) -> None:
    whole, dying = _WAYS[pair]
    for direction in whole:
        move(stores, direction, "double")
    if dying is not None:
        _die(stores, dying, Step.ANNOUNCE)
    assert _pair(stores) == pair


def _die(stores: Stores, direction: Direction, step: Step) -> None:
    with pytest.raises(Crash):
        move(stores, direction, "double", crash_after=step)


def _pair(stores: Stores) -> Pair:
    return stores.stash.tombstone(), stores.persist.tombstone()


@pytest.mark.row("M-44")
@pytest.mark.parametrize(
    ("pair", "store"),
    [
        pytest.param((N, N), "stash", marks=pytest.mark.row("M-48")),
        pytest.param((T, N), "stash", marks=pytest.mark.row("M-49")),
        pytest.param((F, N), "stash", marks=pytest.mark.row("M-49")),
        pytest.param((T, F), "persist", marks=pytest.mark.row("M-50")),
        pytest.param((F, T), "stash", marks=pytest.mark.row("M-51")),
        pytest.param((T, T), "stash", marks=pytest.mark.row("M-52")),
        pytest.param((F, F), "persist", marks=pytest.mark.row("M-53")),
    ],
)
def test_every_state_has_one_truth(stores: Stores, pair: Pair, store: str) -> None:
    _, digest = truth(stores)
    _bring_to(stores, pair)
    assert truth(stores) == (store, digest)


@pytest.mark.row("M-45", "M-47", "M-54")
@pytest.mark.parametrize(
    ("start", "direction", "announced", "end"),
    [
        ((N, N), MIGRATE, (T, N), (T, F)),
        ((N, N), ROLLBACK, (F, N), None),
        ((T, N), MIGRATE, (T, N), (T, F)),
        ((T, N), ROLLBACK, (F, N), None),
        ((F, N), MIGRATE, (T, N), (T, F)),
        ((F, N), ROLLBACK, (F, N), None),
        ((T, F), MIGRATE, (T, F), None),
        ((T, F), ROLLBACK, (F, F), (F, T)),
        ((F, F), ROLLBACK, (F, F), (F, T)),
        ((F, F), MIGRATE, (T, F), None),
        ((F, T), ROLLBACK, (F, T), None),
        ((F, T), MIGRATE, (T, T), (T, F)),
        ((T, T), MIGRATE, (T, T), (T, F)),
        ((T, T), ROLLBACK, (F, T), None),
    ],
)
def test_every_edge_leads_where_the_table_says(
    stores: Stores, start: Pair, direction: Direction, announced: Pair, end: Pair | None
) -> None:
    _bring_to(stores, start)
    store, digest = truth(stores)
    if direction.source.value == store:
        # Killed just before the cut-over, everything else having been done: the truth has not moved.
        _die(stores, direction, Step.VERIFY if direction is MIGRATE else Step.REPLACE)
    else:
        _die(stores, direction, Step.ANNOUNCE)
    assert _pair(stores) == announced
    assert truth(stores) == (store, digest)
    run = move(stores, direction, "double")
    assert (run.decision.next == "nothing_to_do") is (end is None)
    assert _pair(stores) == (end or announced)
    assert truth(stores) == (direction.target.value, digest)

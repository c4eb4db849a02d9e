"""What the page says a run would do is what the run then does."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from hermit.formats.generate import rows
from hermit.migration import steps
from hermit.migration.load import load_rows
from hermit.migration.move import Move
from hermit.migration.protocol import DOUBLE, SINGLE, Direction, Tombstones
from hermit.migration.stores import Stores, connect
from hermit_airflow.page.catalogs import Catalogs
from hermit_airflow.page.forecast import forecast
from hermit_airflow.page.place import Place
from hermit_airflow.page.staged import forecasts, look
from tests.page.states import bring_to


@pytest.fixture
def stores(database_url: str, tmp_path: Path, organization_id: UUID) -> Stores:
    stores = connect(database_url, str(tmp_path), organization_id)
    load_rows(stores, rows(5, 11))
    return stores


def _decide(stores: Stores, direction: Direction) -> tuple[str, str]:
    """What a run decides in truth."""
    move = Move.parse(
        direction=direction.value,
        organization_id=str(stores.organization_id),
        protocol=None,
        dry_run=False,
        run_id="a run",
    )
    fencing = steps.fence_epoch(stores, move)
    steps.announce(stores, move, fencing)
    decision = steps.check_tombstone(stores, move, fencing)
    return decision.next, decision.reason


@pytest.mark.parametrize(
    ("state", "direction", "expected"),
    [
        ("single-absent", Direction.MIGRATE, "snapshot"),
        ("double-true-absent", Direction.MIGRATE, "replace"),
        ("double-true-true", Direction.MIGRATE, "verify"),
        ("double-false-false", Direction.MIGRATE, "nothing_to_do"),
    ],
)
def test_the_forecast_is_the_runs_own_decision(
    stores: Stores, tmp_path: Path, state: str, direction: Direction, expected: str
) -> None:
    bring_to(stores, state)
    catalogs = Catalogs(lambda: [Place("default", stores.stash_url, str(tmp_path))])
    sighting = catalogs.find(str(stores.organization_id))
    told = forecasts(sighting, look(catalogs, sighting))[direction.value]
    catalogs.close()
    decided, reason = _decide(stores, direction)
    assert told["next"] == decided == expected
    if expected != "snapshot":
        assert told["reason"] == reason


def test_an_unreachable_state_is_refused_before_anything_runs() -> None:
    told = forecast(DOUBLE, Tombstones(None, True), Direction.MIGRATE, None)
    assert told["next"] == "refuse"
    assert [step["step"] for step in told["steps"] if step["runs"]] == ["open"]


def test_a_run_with_nothing_to_do_ends_at_the_check() -> None:
    told = forecast(SINGLE, Tombstones(True, None), Direction.MIGRATE, None)
    assert told["next"] == "nothing_to_do"
    assert [step["step"] for step in told["steps"] if step["runs"]][-1] == "check_tombstone"

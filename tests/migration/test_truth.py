"""Opening the catalog where its truth is."""

from __future__ import annotations

import shutil
from pathlib import Path
from uuid import UUID

import pytest

from hermit.errors import NotInitialized
from hermit.migration.protocol import Direction
from hermit.migration.stores import Stores, connect, connect_at
from hermit.migration.truth import open_truth, take_over
from tests.migration.driver import move

MIGRATE, ROLLBACK = Direction.MIGRATE, Direction.ROLLBACK


@pytest.fixture
def stores(database_url: str, tmp_path: Path, organization_id: UUID) -> Stores:
    return connect(database_url, str(tmp_path / "shards"), organization_id)


def test_opening_a_catalog_that_never_moved_makes_no_shard(stores: Stores) -> None:
    with open_truth(stores) as catalog:
        assert catalog.store == "stash"
    assert not stores.persist.is_initialized()


@pytest.mark.parametrize("protocol", ["single", "double"])
def test_the_truth_is_opened_wherever_it_is_and_both_epochs_rise(stores: Stores, protocol: str) -> None:
    with open_truth(stores, deploy_generation=3):
        pass
    for direction in (MIGRATE, ROLLBACK, MIGRATE):
        move(stores, direction, protocol)
        highest = max(stores.stash.epoch() or 0, stores.persist.epoch() or 0)
        with take_over(stores) as catalog:
            assert catalog.store == direction.target.value
            assert catalog.deploy_generation() == 3
        assert min(stores.stash.epoch() or 0, stores.persist.epoch() or 0) > highest


def test_a_truth_that_is_lost_is_not_made_anew(stores: Stores) -> None:
    move(stores, MIGRATE)
    shutil.rmtree(stores.location)
    stores = connect_at(stores.stash_url, stores.location, stores.organization_id)
    with pytest.raises(NotInitialized, match="the truth is persist"), open_truth(stores):
        pass
    assert not stores.persist.is_initialized()

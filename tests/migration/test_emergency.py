"""The emergency exit works when persist is gone, and says what is lost when it is not."""

from __future__ import annotations

import shutil
from pathlib import Path
from uuid import UUID

import pytest

from hermit.errors import Fenced
from hermit.formats.generate import rows
from hermit.migration.emergency import emergency_stash
from hermit.migration.load import load_rows
from hermit.migration.protocol import Direction
from hermit.migration.stores import Stores, connect_at
from hermit.migration.truth import open_truth
from tests.migration.driver import move, stores_for, truth


@pytest.fixture
def stores(database_url: str, tmp_path: Path, organization_id: UUID) -> Stores:
    stores = stores_for(database_url, str(tmp_path / "shards"), organization_id)
    load_rows(stores, rows(50, 3))
    return stores


@pytest.mark.parametrize("protocol", ["single", "double"])
def test_the_stash_is_the_truth_again_when_persist_is_gone(stores: Stores, protocol: str) -> None:
    _, digest = truth(stores)
    move(stores, Direction.MIGRATE, protocol)
    shutil.rmtree(stores.location)
    # Whoever comes to the rescue is a new process.
    stores = connect_at(stores.stash_url, stores.location, stores.organization_id)
    found = emergency_stash(stores)
    assert found["persist_differs"] is None
    assert truth(stores) == ("stash", digest)
    move(stores, Direction.MIGRATE)
    assert truth(stores) == ("persist", digest)


@pytest.mark.parametrize("protocol", ["single", "double"])
def test_what_is_lost_is_named_and_whoever_wrote_it_is_fenced(stores: Stores, protocol: str) -> None:
    _, digest = truth(stores)
    move(stores, Direction.MIGRATE, protocol)
    with open_truth(stores) as catalog:
        catalog.set_system_configuration("max_tables", "17")
        found = emergency_stash(stores)
        with pytest.raises(Fenced):
            catalog.set_system_configuration("max_tables", "18")
    assert list(found["persist_differs"]) == ["system_configurations"]
    assert truth(stores) == ("stash", digest)
    assert (stores.stash.epoch() or 0) > 0


def test_running_it_twice_changes_nothing_more(stores: Stores) -> None:
    move(stores, Direction.MIGRATE)
    emergency_stash(stores)
    before = truth(stores)
    assert emergency_stash(stores)["persist_differs"] == {}
    assert truth(stores) == before

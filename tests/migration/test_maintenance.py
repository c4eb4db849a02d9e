"""Maintenance runs beside whoever uses the catalog, changes no contents, and finds damage."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from hermit.durable.contents import OWN_CONFIG
from hermit.errors import CorruptData
from hermit.formats.generate import rows
from hermit.migration import maintenance
from hermit.migration.load import load_rows
from hermit.migration.protocol import Direction
from hermit.migration.stores import Stores
from hermit.migration.truth import open_truth
from tests.migration.driver import move, stores_for, truth


@pytest.fixture
def stores(database_url: str, tmp_path: Path, organization_id: UUID) -> Stores:
    """A stash with a generated catalog, and a shard that does not exist yet."""
    stores = stores_for(database_url, str(tmp_path / "shards"), organization_id)
    load_rows(stores, rows(50, 7))
    return stores


@pytest.mark.parametrize("moved", [False, True])
def test_maintenance_fences_nobody_and_changes_no_contents(stores: Stores, moved: bool) -> None:
    if moved:
        move(stores, Direction.MIGRATE)
    with open_truth(stores) as catalog:
        for number in range(20):
            catalog.set_setting("counter", str(number))
        before, epochs = truth(stores), (stores.stash.epoch(), stores.persist.epoch())
        results = {}
        for action in maintenance.ACTIONS:
            results[action] = maintenance.run(stores, action)
            catalog.set_setting("counter", "19")
        assert (truth(stores), (stores.stash.epoch(), stores.persist.epoch())) == (before, epochs)
    assert results["verify"]["objects"] == before[1].rows + len(_own_config(stores))
    # What was done is kept beside the shard, where there is one.
    assert set(maintenance.last(stores.location)) == (set(maintenance.ACTIONS) if moved else set())


def _own_config(stores: Stores) -> list[str]:
    with open_truth(stores) as catalog:
        return [key for key in OWN_CONFIG if catalog.get_config_by_key(key) is not None]


def test_a_catalog_without_a_shard_is_maintained_without_making_one(stores: Stores) -> None:
    for action in maintenance.ACTIONS:
        maintenance.run(stores, action)
    assert not Path(stores.location).exists()
    assert maintenance.last(stores.location) == {}


def test_what_cancels_out_in_the_stash_is_merged_as_far_as_nobody_needs_it(stores: Stores) -> None:
    with open_truth(stores) as catalog:
        for number in range(20):
            catalog.set_setting("counter", str(number))
    assert maintenance.consolidate(stores)["rows_removed"] == 0
    with stores.stash_client.open_debug() as stash:
        stash.write(lambda transaction: transaction.compact("settings", transaction.upper("settings") - 1))
    assert maintenance.consolidate(stores)["rows_removed"] >= 19
    assert maintenance.consolidate(stores)["rows_removed"] == 0


def test_damage_in_the_shard_is_found_and_named(stores: Stores) -> None:
    move(stores, Direction.MIGRATE)
    maintenance.verify(stores)
    victim = max(Path(stores.location).rglob("*.parquet"), key=lambda path: path.stat().st_size)
    damaged = bytearray(victim.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    victim.write_bytes(damaged)
    with pytest.raises(CorruptData, match=victim.name.split(".")[0]):
        maintenance.verify(stores)


def test_an_upgrade_check_changes_nothing(stores: Stores) -> None:
    before, epoch = truth(stores), stores.stash.epoch()
    check = maintenance.upgrade_check(stores)
    assert (check["store"], check["found"]) == ("stash", check["current"])
    assert (truth(stores), stores.stash.epoch()) == (before, epoch)

"""Moves over real stores, step by step: there, back and again, resumed, reordered and fenced."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pyarrow as pa
import pytest

from hermit.digest import Digest
from hermit.errors import Fenced
from hermit.formats.generate import rows
from hermit.migration import steps
from hermit.migration.in_process import stage_one_by_one
from hermit.migration.load import load_rows
from hermit.migration.move import Fencing, Move
from hermit.migration.protocol import Direction, Step
from hermit.migration.steps import DigestMismatch, NotVerified
from hermit.migration.stores import Stores
from hermit.migration.truth import open_truth
from hermit.persist.batch import BatchWriter, StagedFile, read_file
from hermit.rows import Row
from hermit.stash import StashClient
from hermit.stash.side import side_table
from tests.migration.driver import Crash, move, stores_for, truth

MIGRATE, ROLLBACK = Direction.MIGRATE, Direction.ROLLBACK
PROTOCOLS = ["single", "double"]


@pytest.fixture
def stores(database_url: str, tmp_path: Path, organization_id: UUID) -> Stores:
    """A stash with a generated catalog, and a shard that does not exist yet."""
    stores = stores_for(database_url, str(tmp_path / "shards"), organization_id)
    load_rows(stores, rows(200, 7))
    return stores


@pytest.mark.row("M-1", "M-22", "M-29", "M-35", "M-38", "M-39", "M-41", "M-43")
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_there_and_back_and_there_again_keeps_every_row(stores: Stores, protocol: str) -> None:
    _, digest = truth(stores)
    assert digest.rows > 200
    for direction, store in ((MIGRATE, "persist"), (ROLLBACK, "stash"), (MIGRATE, "persist")):
        assert move(stores, direction, protocol).decision.next == Step.SNAPSHOT
        assert truth(stores) == (store, digest)
        assert move(stores, direction, protocol).decision.next == "nothing_to_do"
        assert truth(stores) == (store, digest)


@pytest.mark.row("M-21", "M-27")
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_move_raises_both_epochs_above_all_before(stores: Stores, protocol: str) -> None:
    highest = 0
    for direction in (MIGRATE, MIGRATE, ROLLBACK, ROLLBACK, MIGRATE):
        move(stores, direction, protocol)
        epochs = {stores.stash.epoch() or 0, stores.persist.epoch() or 0}
        assert min(epochs) > highest
        highest = max(epochs)


@pytest.mark.row("M-28", "M-37")
def test_rolling_back_what_never_moved_changes_nothing_but_epochs(stores: Stores) -> None:
    before = truth(stores)
    assert move(stores, ROLLBACK).decision.next == "nothing_to_do"
    assert truth(stores) == before
    assert stores.stash.tombstone() is None


@pytest.mark.row("M-8", "M-9", "M-30")
def test_the_tombstone_is_absent_then_true_then_false(stores: Stores) -> None:
    assert stores.stash.tombstone() is None
    move(stores, MIGRATE)
    assert stores.stash.config("tombstone") == 1
    move(stores, ROLLBACK)
    assert stores.stash.config("tombstone") == 0


def _crashed(stores: Stores, direction: Direction, protocol: str, step: Step) -> None:
    with pytest.raises(Crash):
        move(stores, direction, protocol, crash_after=step)


def _changed(stores: Stores) -> tuple[str, Digest]:
    """Write to whichever store is the truth, and give the truth."""
    store = stores.state().truth.store.value
    unopened = {"stash": stores.stash, "persist": stores.persist}[store]
    _, before = truth(stores)
    with unopened.open() as catalog:
        catalog.set_system_configuration("max_tables", "17")
        catalog.set_setting("changed", store)
    after = truth(stores)
    assert after[1] != before
    return after


@pytest.mark.row("M-24")
def test_what_a_crashed_attempt_left_in_persist_is_replaced_not_merged(stores: Stores) -> None:
    _crashed(stores, MIGRATE, "single", Step.REPLACE)
    before = _changed(stores)
    move(stores, MIGRATE)
    assert truth(stores) == ("persist", before[1])


def test_a_staged_snapshot_is_used_again_exactly_while_the_contents_have_not_changed(stores: Stores) -> None:
    _crashed(stores, MIGRATE, "single", Step.SNAPSHOT)
    _crashed(stores, MIGRATE, "single", Step.CHECK_TOMBSTONE)
    run = move(stores, MIGRATE)
    assert (run.decision.next, run.decision.reused) == (Step.REPLACE, True)
    move(stores, ROLLBACK)
    _crashed(stores, MIGRATE, "single", Step.SNAPSHOT)
    _changed(stores)
    assert move(stores, MIGRATE).decision.next == Step.SNAPSHOT


def test_when_only_the_tombstone_is_missing_the_run_goes_on_at_verify(stores: Stores) -> None:
    _crashed(stores, MIGRATE, "single", Step.REPLACE)
    assert move(stores, MIGRATE).decision.next == Step.VERIFY
    assert truth(stores)[0] == "persist"


@pytest.mark.parametrize("back", [False, True])
def test_a_settled_catalog_may_change_its_protocol(stores: Stores, back: bool) -> None:
    before = truth(stores)
    for protocol in ("single", "double", "single"):
        move(stores, MIGRATE, protocol)
        assert truth(stores) == ("persist", before[1])
        assert stores.state().protocol.name == protocol
        if back:
            move(stores, ROLLBACK, protocol)
            assert truth(stores) == before


class Tasks:
    """The steps of one run, to be called in any order: what clearing and marking tasks amounts to."""

    def __init__(self, stores: Stores, direction: Direction, protocol: str) -> None:
        self.stores = stores
        self.move = Move.parse(
            direction=direction.value,
            organization_id=str(stores.organization_id),
            protocol=protocol,
            dry_run=False,
            run_id="tasks",
        )
        self.fencing = steps.fence_epoch(stores, self.move)
        steps.announce(stores, self.move, self.fencing)
        batch = steps.check_tombstone(stores, self.move, self.fencing).batch
        assert batch is not None
        self.batch = batch

    def stage(self) -> None:
        stage_one_by_one(self.stores, self.move, self.fencing, self.batch)

    def all(self, order: list[str]) -> None:
        for step in [*order, "set_tombstone"]:
            self(step)

    def __call__(self, step: str) -> None:
        getattr(steps, step)(self.stores, self.move, self.fencing, self.batch)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("missing", ["replace", "verify"])
@pytest.mark.parametrize("direction", [MIGRATE, ROLLBACK])
def test_the_cut_over_does_not_believe_that_a_step_before_it_ran(
    stores: Stores, direction: Direction, missing: str, protocol: str
) -> None:
    if direction is ROLLBACK:
        move(stores, MIGRATE, protocol)
        _changed(stores)
    before = truth(stores)
    tasks = Tasks(stores, direction, protocol)
    tasks.stage()
    order = ["replace", "verify"] if direction is MIGRATE else ["verify", "replace"]
    with pytest.raises((NotVerified, DigestMismatch), match="did not move"):
        tasks.all([step for step in order if step != missing])
    assert truth(stores) == before


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("direction", [MIGRATE, ROLLBACK])
def test_every_step_may_be_run_twice(stores: Stores, direction: Direction, protocol: str) -> None:
    if direction is ROLLBACK:
        move(stores, MIGRATE, protocol)
    before = truth(stores)
    tasks = Tasks(stores, direction, protocol)
    tasks.stage()
    order = ["replace", "verify"] if direction is MIGRATE else ["verify", "replace"]
    for step in [*order, "set_tombstone"]:
        tasks(step)
        if step != "verify" or direction is MIGRATE:
            tasks(step)
    assert truth(stores) == (direction.target.value, before[1])


@pytest.mark.parametrize("direction", [MIGRATE, ROLLBACK])
@pytest.mark.parametrize("step", ["replace", "verify", "set_tombstone"])
def test_a_fenced_run_can_go_on_with_no_step(stores: Stores, direction: Direction, step: str) -> None:
    if direction is ROLLBACK:
        move(stores, MIGRATE)
    before = truth(stores)
    tasks = Tasks(stores, direction, "single")
    tasks.stage()
    with open_truth(stores):
        pass
    with pytest.raises(Fenced):
        tasks(step)
    assert truth(stores) == before


def test_a_run_whose_truth_has_moved_is_done_though_somebody_opened_the_catalog_since(stores: Stores) -> None:
    move(stores, MIGRATE)
    digest = truth(stores)[1]
    tasks = Tasks(stores, ROLLBACK, "single")
    tasks.stage()
    tasks("verify")
    tasks("replace")
    # The contents and the tombstone moved together; whoever waited for that may open the catalog at once.
    with open_truth(stores):
        pass
    tasks("set_tombstone")
    assert truth(stores) == ("stash", digest)


@pytest.mark.row("M-31")
def test_rolling_back_changes_contents_and_tombstone_in_one_write(stores: Stores) -> None:
    move(stores, MIGRATE)
    digest = _changed(stores)[1]
    tasks = Tasks(stores, ROLLBACK, "single")
    tasks.stage()
    tasks("verify")
    before = stores.stash_client.fence()
    tasks("replace")
    after = stores.stash_client.fence()
    assert before is not None
    assert after is not None
    assert after.version == before.version + 1
    assert truth(stores) == ("stash", digest)


@pytest.mark.row("M-23")
def test_a_migration_carries_every_kind_of_object(
    database_url: str, tmp_path: Path, organization_id: UUID
) -> None:
    stores = stores_for(database_url, str(tmp_path / "shards"), organization_id)
    load_rows(stores, rows(1_000, 1))
    with stores.stash.inspect() as stash:
        expected = stash.digests()
    assert all(digest.rows for digest in expected.values())
    assert len(expected) == 18
    move(stores, MIGRATE)
    with stores.persist.inspect() as persist:
        assert persist.digests() == expected


@pytest.mark.parametrize("direction", [MIGRATE, ROLLBACK])
def test_a_mismatch_names_the_collection_and_some_keys_and_moves_nothing(
    stores: Stores, direction: Direction
) -> None:
    if direction is ROLLBACK:
        move(stores, MIGRATE)
    with open_truth(stores) as catalog:
        catalog.set_setting("lost", "yes")
    before = truth(stores)

    def stage_less(stores: Stores, asked: Move, fencing: Any, batch: str) -> None:
        """A staging job with a defect: one row is not what it was, and one is missing."""
        stage_one_by_one(stores, asked, fencing, batch)
        forget_setting(stores, asked, fencing, batch)

    with pytest.raises(DigestMismatch) as caught:
        move(stores, direction, stage=stage_less)
    assert caught.value.collections == ["settings"]
    (sample,) = caught.value.sample
    assert (sample["collection"], sample["how"]) == ("settings", "only in the source")
    assert "lost" in sample["key"]
    assert truth(stores) == before
    move(stores, direction)
    assert truth(stores) == (direction.target.value, before[1])


def forget_setting(stores: Stores, asked: Move, fencing: Fencing, batch: str) -> None:
    """Lose the row of the setting `lost` from what was staged."""
    if asked.direction is ROLLBACK:
        with psycopg.connect(stores.stash_url) as connection:
            table = f"hermit_{stores.organization_id.hex}.{side_table(batch)}"
            connection.execute(f"delete from {table} where position('lost'::bytea in key) > 0")
        return
    manifest = stores.manifests().read(batch)
    assert manifest is not None
    kept = [file for file in manifest.files if file["collection"] != "settings"]
    with BatchWriter(stores.location, batch) as writer:
        for file in manifest.files:
            if file["collection"] == "settings":
                for pairs in read_file(
                    stores.location, StagedFile.from_json(file), ["key", "value"]
                ).to_batches():
                    mask = pa.array([b"lost" not in key for key in pairs.column(0).to_pylist()])
                    writer.write("settings", pairs.filter(mask))
        kept += [file.to_json() for file in writer.finish()]
    stores.manifests().write(dataclasses.replace(manifest, files=kept))


@pytest.mark.row("M-2")
def test_collections_of_other_components_are_never_touched(stores: Stores) -> None:
    url, organization_id = stores.stash_url, stores.organization_id
    other = StashClient(url, organization_id, component="storage")
    handle, _ = other.open(lambda transaction: transaction.append([(Row("sources", b"k", b"v"), 1)]))
    with handle:
        for direction in (MIGRATE, ROLLBACK, MIGRATE):
            move(stores, direction)
            assert handle.read(lambda transaction: list(transaction.rows("sources"))) == [(b"k", b"v")]
        handle.write(lambda transaction: transaction.append([(Row("sources", b"k2", b"v2"), 1)]))
        assert len(handle.read(lambda transaction: list(transaction.rows("sources")))) == 2

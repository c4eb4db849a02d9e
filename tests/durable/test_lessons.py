"""The ten lessons that others paid for (see the design), each as a test of its name."""

from __future__ import annotations

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from hermit.durable import shard as shard_module
from hermit.durable import stash as stash_module
from hermit.durable.dump import updates_by_collection
from hermit.durable.shard import Shard, upper_of
from hermit.errors import Fenced
from hermit.formats.generate import rows as generate
from hermit.formats.versions import STASH_VERSION
from hermit.rows import Row, consolidate

from .conftest import Lab, fill, refill
from .samples import item, role

NEWER_FORMAT = Row("items", b"a key of a newer format", b"a value of a newer format")


def test_lesson_1_the_epoch_never_goes_down_when_the_backend_changes(stash: Lab, persist: Lab) -> None:
    epochs = [stash.open(epoch_min=7).epoch]
    for _ in range(3):
        for here, there in ((persist, stash), (stash, persist)):
            epochs.append(here.open(epoch_min=(there.unopened().epoch() or 0) + 1).epoch)
    assert epochs == sorted(set(epochs))


def test_lesson_2_opening_the_stash_in_an_emergency_clears_a_stale_tombstone(stash: Lab) -> None:
    with stash.unopened().open() as opened:
        opened.set_tombstone(True)
    with stash.unopened().open() as ordinary:
        assert ordinary.tombstone() is True
    with stash.unopened().open(clear_tombstone=True) as emergency:
        assert emergency.tombstone() is False
    assert stash.unopened().tombstone() is False


def test_lesson_2_an_emergency_does_not_make_up_a_tombstone(stash: Lab) -> None:
    with stash.unopened().open(clear_tombstone=True) as fresh:
        assert fresh.tombstone() is None


def test_lesson_3_a_dry_run_works_on_a_shard_that_was_never_initialized_and_changes_nothing(
    persist: Lab, tmp_path: Path
) -> None:
    with persist.unopened().open_savepoint() as dry:
        dry.set_objects("items", [item(1)])
        dry.set_tombstone(True)
        assert dry.get_items() == [item(1)]
        assert dry.digests()["items"].rows == 1
    assert list(tmp_path.iterdir()) == []


def test_lesson_4_a_reader_newer_than_the_writer_does_not_fence_it_out(lab: Lab) -> None:
    writer = lab.open()
    lab.read_only().get_roles()
    lab.savepoint().set_objects("items", [item(1)])
    lab.unopened().check_open()
    with lab.unopened().inspect() as found:
        found.digests()
    writer.set_objects("items", [item(2)])
    assert writer.get_items() == [item(2)]


@pytest.mark.row("D-17")
def test_lesson_4_a_reader_of_a_newer_build_leaves_an_older_catalog_alone(lab: Lab) -> None:
    fill(lab, generate(40, 1, STASH_VERSION - 1))
    with pytest.raises(Exception, match=f"format {STASH_VERSION - 1}") as caught:
        lab.read_only()
    assert type(caught.value).__name__ == "UpgradeNeeded"
    assert (lab.unopened().epoch(), lab.unopened().format_version()) == (1, STASH_VERSION - 1)


@pytest.mark.parametrize("together", [True, False], ids=["in the same commit", "in a later commit"])
def test_lesson_5_on_persist_a_fence_is_seen_before_a_row_of_a_newer_format_is_decoded(
    persist: Lab, together: bool
) -> None:
    leader = persist.open()
    reader = persist.read_only()
    followers = leader.subscribe(), reader.subscribe()
    leader.set_objects("items", [item(1)])
    newer = persist.open()
    _write_newer_format(newer, together)
    for fenced in (leader, reader):
        with pytest.raises(Fenced):
            fenced.get_items()
    for follower in followers:
        with pytest.raises(Fenced):
            follower.poll()


def _write_newer_format(newer: Any, together: bool) -> None:
    shard = Shard(newer.client.location)
    state = shard.client.state()
    records: dict[str, Any] = {}
    if together:
        fence = shard.fence(upper_of(state))
        assert fence is not None
        next_fence = type(fence)(fence.epoch + 1, "a newer one", "a newer build")
        records = shard_module.fence_records(upper_of(state), fence, next_fence)
    shard.append(state, [(NEWER_FORMAT, 1)], records)


def test_lesson_5_on_the_stash_a_fence_is_seen_before_a_row_of_a_newer_format_is_decoded(stash: Lab) -> None:
    leader = stash.open()
    reader = stash.read_only()
    followers = leader.subscribe(), reader.subscribe()
    leader.set_objects("items", [item(1)])
    newer: Any = stash.open()
    newer.stash.write(lambda transaction: transaction.append([(NEWER_FORMAT, 1)]))
    for call in (leader.get_items, reader.get_items, *(follower.poll for follower in followers)):
        with pytest.raises(Fenced):
            call()


@pytest.mark.row("D-20", "D-45")
def test_lesson_6_racing_openers_retract_the_epoch_that_is_stored(lab: Lab) -> None:
    """If one retracted what it remembered, the store would be left with two fences, or with none."""
    epochs: list[int] = []
    initial: list[int] = []

    def race() -> None:
        for _ in range(4):
            with lab.unopened().open() as opened:
                epochs.append(opened.epoch)
                initial.append(opened.boot_ts)

    if lab.unopened().store == "shadow":
        race()  # Two stores cannot be raced for in one atomic step: one opener at a time.
    else:
        with ThreadPoolExecutor(3) as pool:
            for running in [pool.submit(race) for _ in range(3)]:
                running.result()
    assert sorted(epochs) == list(range(1, len(initial) + 1))
    with lab.unopened().inspect() as found:
        history = consolidate(found.snapshot_unconsolidated())
    assert set(history.values()) == {1}, "exactly one initial batch"
    assert lab.unopened().epoch() == len(epochs)


@pytest.mark.row("M-4")
@pytest.mark.parametrize("version", [14, STASH_VERSION - 2, STASH_VERSION - 1])
def test_lesson_7_an_upgrade_rewrites_only_what_it_changes_and_retracts_byte_for_byte(
    lab: Lab, version: int
) -> None:
    rows = list(generate(80, 1, version))
    fill(lab, rows)
    with lab.unopened().open() as opened:
        after = Counter(opened.snapshot())
        history = sorted(opened.snapshot_unconsolidated(), key=lambda update: (update.time, -update.diff))
    sums: Counter[Row] = Counter()
    touched = Counter(update.row for update in history if update.diff < 0)
    for update in history:
        sums[update.row] += update.diff
        assert sums[update.row] >= 0, "a retraction of what was never stored"
    kept = set(rows) & set(after)
    assert not kept & set(touched), "a row that did not change was written again"
    if version == STASH_VERSION - 1:
        assert all(row.collection == "config" for row in touched), "the last step changes nothing"
    assert sum(sums.values()) == sum(after.values())


@pytest.mark.parametrize("kept", [12])
def test_lesson_8_the_cost_of_staying_in_sync_does_not_grow_with_history(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    for module in (shard_module, stash_module):
        monkeypatch.setattr(module, "HISTORY_KEPT", kept)
        monkeypatch.setattr(module, "HISTORY_INTERVAL", 4)
    leader = lab.open()
    reader = lab.read_only()
    follower = reader.subscribe()
    live = len(list(leader.snapshot()))
    stored = []
    for number in range(1, 65):
        leader.set_timestamp("epoch_ms", number)
        assert [len(batch.updates) for batch in follower.poll()] == [2], "just what is new"
        if number % 8 == 0:
            stored.append(len(list(leader.snapshot_unconsolidated())))
    assert reader.get_timestamps() == leader.get_timestamps()
    # Persist merges files when there are enough of them, which is why it may keep some more for a while.
    assert max(stored[4:]) <= live + 2 * (kept + 40)
    assert stored[-1] < live + 2 * 64, "old history went"


@pytest.mark.parametrize("version", [14, 16, STASH_VERSION - 2])
def test_lesson_9_a_dump_copes_with_retractions_of_an_older_format(lab: Lab, version: int) -> None:
    rows = list(generate(60, 1, version))
    gone = next(row for row in rows if row.collection == "items")
    fill(lab, rows)
    refill(lab, [(gone, -1)])
    with lab.unopened().inspect() as stored:
        assert "$undecodable" not in stored.dump()
        retracted = [update for update in stored.snapshot_unconsolidated() if update.diff < 0]
        assert [update.key for update in retracted] == [gone.key]
        assert updates_by_collection(retracted)
    opened = lab.open()
    assert "$undecodable" not in opened.dump()
    assert json.loads(opened.dump())["items"]
    if opened.store == "stash":
        # On persist an upgrade replaces what it changes, and leaves nothing to retract.
        retracted = [update for update in opened.snapshot_unconsolidated() if update.diff < 0]
        assert gone.key in {update.key for update in retracted}
        assert len(retracted) > 1
        assert updates_by_collection(retracted)


def test_lesson_10_mutual_exclusion_is_the_epoch_and_nothing_else(stash: Lab, persist: Lab) -> None:
    """Two runs of a move at once, each with tokens of its own, as a backfill beside a manual run would be."""
    runs = []
    for _ in range(2):
        epoch = (persist.unopened().epoch() or 0) + 1
        with (
            stash.unopened().open(epoch_min=epoch) as one,
            persist.unopened().open(epoch_min=one.epoch + 1) as other,
        ):
            runs.append((one.token, other.token))
    (old_stash, old_persist), (new_stash, new_persist) = runs
    for lab, token in ((stash, old_stash), (persist, old_persist)):
        with pytest.raises(Fenced):
            lab.resume(token)
    stash.resume(new_stash).set_tombstone(True)
    persist.resume(new_persist).set_objects("roles", [role(1)])
    assert stash.unopened().tombstone() is True


def test_lesson_5_also_when_the_fence_comes_between_looking_and_reading(persist: Lab) -> None:
    """The check passed, then a newer opener came and wrote: what is read next begins with its fence."""
    leader = persist.open()
    reader: Any = persist.read_only()
    leader.set_objects("items", [item(1)])

    class Raced(shard_module.ShardStore):
        """The same place in the shard, overtaken right after it looked."""

        def check(self) -> Any:
            position = super().check()
            if not overtaken:
                overtaken.append(persist.open())
                _write_newer_format(overtaken[0], together=False)
            return position

    overtaken: list[Any] = []
    held = reader._store
    raced = Raced(held._shard, held._state, held._fence)
    with pytest.raises(Fenced):
        raced.commits_since(held.position)
    assert overtaken

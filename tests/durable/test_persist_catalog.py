"""What the persist implementation promises about its shard, looked at from below."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from hermit.durable import fence as fences
from hermit.durable.contents import FENCE, MOVED
from hermit.durable.errors import ConcurrentChange, NotACatalog
from hermit.durable.fence import Fence
from hermit.durable.shard import VERSION, Shard, fence_records, upper_of
from hermit.errors import CorruptData, Fenced, HermitError
from hermit.formats.gen import objects_pb2 as pb
from hermit.objects import KINDS
from hermit.persist.batch import BatchWriter, list_staged
from hermit.persist.errors import LocationGone
from hermit.rows import Row

from .conftest import Lab, fill
from .samples import SAMPLES, item, role


def _shard(tmp_path: Path) -> Shard:
    return Shard(str(tmp_path / "shard"))


@pytest.mark.row("D-37", "D-38", "D-88")
def test_the_catalog_is_one_table_of_bytes_tagged_with_their_kind(persist: Lab, tmp_path: Path) -> None:
    with persist.unopened().open() as opened:
        for kind in set(KINDS) - {"audit_log", "storage_usage"}:
            opened.set_objects(kind, [SAMPLES[kind](1)])
        opened.append_storage_usage([SAMPLES["storage_usage"](1).value])
    assert [path.name for path in tmp_path.iterdir()] == ["shard"]
    table = DeltaTable(str(tmp_path / "shard"))
    assert table.metadata().partition_columns == ["collection"]
    rows = table.to_pyarrow_table().to_pylist()
    assert {row["collection"] for row in rows} == {*KINDS, FENCE}
    names = [pb.RoleValue.FromString(row["value"]).name for row in rows if row["collection"] == "roles"]
    assert "role_1" in names


@pytest.mark.row("D-51", "M-12")
def test_the_epoch_is_stored_in_the_shard_under_its_own_tag(persist: Lab, tmp_path: Path) -> None:
    for expected in (1, 2, 3):
        persist.open()
        rows = _shard(tmp_path).rows(FENCE, upper_of(_shard(tmp_path).client.state()))
        fence = fences.find(rows.items())
        assert fence is not None
        assert fence.epoch == expected


@pytest.mark.row("M-15")
@pytest.mark.parametrize("epoch", [1, 5, 9])
def test_any_other_fence_fences_also_a_lower_one(persist: Lab, tmp_path: Path, epoch: int) -> None:
    opened = persist.open(epoch_min=5)
    shard = _shard(tmp_path)
    state = shard.client.state()
    stored = shard.fence(upper_of(state))
    forged = Fence(epoch, "somebody else", "a test")
    shard.append(state, [], fence_records(upper_of(state), stored, forged))
    for call in (opened.get_roles, opened.confirm_leadership, lambda: opened.set_tombstone(True)):
        with pytest.raises(Fenced):
            call()
    assert persist.unopened().tombstone() is None


@pytest.mark.row("D-46", "D-45")
def test_opening_is_one_commit_with_everything_at_one_time(persist: Lab, tmp_path: Path) -> None:
    persist.open()
    table = DeltaTable(str(tmp_path / "shard"))
    assert table.version() == 0
    assert set(table.to_pyarrow_table()["time"].to_pylist()) == {0}
    persist.open()
    rows = DeltaTable(str(tmp_path / "shard")).to_pyarrow_table().to_pylist()
    assert {(row["collection"], row["diff"]) for row in rows if row["time"] == 1} == {(FENCE, 1), (FENCE, -1)}


@pytest.mark.row("D-46")
def test_an_upgrade_and_the_epoch_are_one_commit(persist: Lab, tmp_path: Path) -> None:
    from hermit.formats.generate import rows as generate

    fill(persist, generate(60, 1, 15))
    before = Shard(str(tmp_path / "shard")).state()
    persist.open()
    after = Shard(str(tmp_path / "shard")).state()
    assert after.version == before.version + 1
    changed = {file.collection for path, file in after.live.items() if path not in before.live}
    assert {"items", "config", FENCE} <= changed
    assert {after.upper(name) for name in (*MOVED, FENCE, VERSION)} == {upper_of(before) + 1}
    assert not list_staged(tmp_path / "shard")


@pytest.mark.row("D-39", "D-52", "D-56", "D-57")
def test_reads_and_transactions_need_no_storage_but_for_the_check(persist: Lab, tmp_path: Path) -> None:
    """With all data files gone, everything but a look at the log's end goes on."""
    opened = persist.open()
    opened.set_objects("roles", [role(1)])
    data = tmp_path / "shard" / "data"
    shutil.move(data, tmp_path / "away")
    assert opened.get_role_by_id(role(1).key.id) == role(1)
    assert opened.get_config_by_key("tombstone") is None
    shutil.move(tmp_path / "away", data)
    # Without any shard at all, a transaction can still be begun, read and filled.
    shutil.move(tmp_path / "shard", tmp_path / "away")
    transaction = opened.transaction()
    assert transaction.roles.get(role(1).key) == role(1).value
    transaction.roles.insert(*role(2))
    (tmp_path / "shard").write_text("a file where the shard was")
    with pytest.raises((HermitError, OSError)):
        opened.commit_transaction(transaction)
    (tmp_path / "shard").unlink()
    shutil.move(tmp_path / "away", tmp_path / "shard")
    assert opened.get_role_by_id(role(2).key.id) is None, "memory follows the store"
    opened.set_objects("roles", [role(2)])


@pytest.mark.row("D-88")
def test_reading_one_kind_reads_no_other(persist: Lab, tmp_path: Path) -> None:
    with persist.unopened().open() as opened:
        expected = opened.get_roles()
        files = opened.client.files()  # type: ignore[attr-defined]
    for file in files:
        if file.collection not in ("roles", "config", FENCE):
            (tmp_path / "shard" / file.path).unlink()
    reader = persist.read_only(preload=False)
    assert reader.get_roles() == expected
    with pytest.raises(CorruptData):
        reader.get_clusters()


@pytest.mark.row("D-27", "D-59", "D-89")
def test_leadership_is_confirmed_by_the_store_and_not_by_two_remembered_numbers(
    persist: Lab, tmp_path: Path
) -> None:
    opened = persist.open()
    opened.confirm_leadership()
    shard = _shard(tmp_path)
    shard.client.compact()
    opened.confirm_leadership()
    persist.open()
    with pytest.raises(Fenced):
        opened.confirm_leadership()


@pytest.mark.row("D-85")
def test_a_handle_halts_when_somebody_else_changed_the_shard(persist: Lab, tmp_path: Path) -> None:
    """Also without a new fence: a commit that is not ours never goes unnoticed."""
    opened = persist.open()
    transaction = opened.transaction()
    transaction.roles.insert(*role(1))
    shard = _shard(tmp_path)
    stray = Row("settings", b"", b"")
    shard.append(shard.client.state(), [(stray, 1)], {})
    with pytest.raises(ConcurrentChange):
        opened.commit_transaction(transaction)


def test_two_fences_are_damage(persist: Lab, tmp_path: Path) -> None:
    persist.open()
    shard = _shard(tmp_path)
    state = shard.client.state()
    shard.append(state, [], fence_records(upper_of(state), None, Fence(9, "x", "a test")))
    for ask in (persist.unopened().epoch, persist.open, persist.read_only):
        with pytest.raises(CorruptData):
            ask()


def test_a_fence_is_retracted_as_it_is_stored_whatever_a_later_build_added(
    persist: Lab, tmp_path: Path
) -> None:
    persist.open()
    shard = _shard(tmp_path)
    state = shard.client.state()
    upper = upper_of(state)
    stored = shard.fence(upper)
    assert stored is not None
    later = stored.encode().replace(b"{", b'{"added":1,', 1)
    records = fence_records(upper, stored, Fence.decode(later))
    shard.append(state, [], records)
    assert persist.open().epoch == 2
    assert persist.open().epoch == 3


def test_a_fence_that_is_no_fence_is_damage() -> None:
    for data in (b"", b"{}", b'{"epoch":1}', b"\xff"):
        with pytest.raises(CorruptData):
            Fence.decode(data)


def test_all_frontiers_move_together_and_the_version_only_with_contents(persist: Lab, tmp_path: Path) -> None:
    opened = persist.open()
    opened.set_tombstone(True)
    version = opened.content_version()
    persist.open()
    state = _shard(tmp_path).client.state()
    assert {state.upper(name) for name in (*MOVED, FENCE)} == {3}
    assert state.upper(VERSION) == version == 2
    assert persist.unopened().frontiers() == {"upper": 3, "since": 0, "delta_version": 2}  # type: ignore[attr-defined]


def _staged(location: str, rows: list[Row]) -> Any:
    import pyarrow as pa

    with BatchWriter(location, f"batch_{len(rows)}") as writer:
        for name in {row.collection for row in rows}:
            mine = [row for row in rows if row.collection == name]
            columns = [pa.array([row.key for row in mine]), pa.array([row.value for row in mine])]
            writer.write(name, pa.RecordBatch.from_arrays(columns, names=["key", "value"]))
        return writer.finish()


def test_a_batch_replaces_all_contents_and_keeps_fence_and_own_config(
    persist: Lab, stash: Lab, tmp_path: Path
) -> None:
    source = stash.open()
    source.set_objects("items", [item(1)])
    rows = list(source.snapshot())
    opened: Any = persist.open()
    opened.set_objects("roles", [role(7)])
    opened.set_tombstone(True)
    reader = persist.read_only()
    assert reader.get_role_by_id(role(7).key.id) is not None
    opened.replace_with_batch(_staged(opened.client.location, rows))
    for handle in (opened, reader, persist.resume(opened.token)):
        assert handle.digests() == source.digests()
        assert handle.get_items() == source.get_items()
        assert handle.get_role_by_id(role(7).key.id) is None
        assert handle.tombstone() is True
        assert handle.epoch == opened.epoch
    opened.set_objects("roles", [role(8)])
    files = [file.to_json() for file in _staged(opened.client.location, rows[:-1])]
    opened.replace_with_staged(files, config={"tombstone": 0})
    assert (opened.tombstone(), len(list(opened.snapshot()))) == (False, len(rows) - 1)
    opened.replace_with_batch(_staged(opened.client.location, rows[:-2]), config={"tombstone": None})
    assert opened.tombstone() is None
    persist.open()
    with pytest.raises(Fenced):
        opened.replace_with_batch(_staged(opened.client.location, rows))


def test_a_follower_learns_that_other_contents_took_the_place(persist: Lab, stash: Lab) -> None:
    from hermit.durable.errors import HistoryGone

    rows = list(stash.open().snapshot())
    opened: Any = persist.open()
    follower = opened.subscribe()
    opened.replace_with_batch(_staged(opened.client.location, rows))
    with pytest.raises(HistoryGone):
        follower.poll()
    assert opened.subscribe().poll() == []


def test_a_shard_without_a_fence_is_a_named_error_and_stays_as_it_is(persist: Lab, tmp_path: Path) -> None:
    """Somebody wrote the collections by hand and forgot one, or wrote them one by one."""
    client = _shard(tmp_path).client
    uppers = dict.fromkeys(MOVED, 1)
    client.compare_and_append({}, expected=dict.fromkeys(MOVED, 0), new_upper=uppers)
    state = client.state()
    unopened = persist.unopened()
    for call in (unopened.open, unopened.open_read_only, unopened.is_initialized, unopened.epoch):
        with pytest.raises(NotACatalog, match="no fence") as caught:
            call()
        assert caught.value.location == str(tmp_path / "shard")
    assert client.state() == state


def test_a_collection_that_left_the_timeline_is_a_named_error(persist: Lab, tmp_path: Path) -> None:
    opened = persist.open()
    _shard(tmp_path).client.compare_and_append({}, expected={"items": 1}, new_upper={"items": 9})
    for call in (opened.get_roles, persist.open, persist.read_only):
        with pytest.raises(NotACatalog, match="items at 9"):
            call()


def test_a_shard_that_is_deleted_under_a_handle_is_not_answered_from_memory(
    persist: Lab, tmp_path: Path
) -> None:
    opened = persist.open()
    reader = persist.read_only()
    shutil.rmtree(tmp_path / "shard")
    for call in (
        opened.get_roles,
        opened.confirm_leadership,
        lambda: opened.set_objects("roles", [role(1)]),
        reader.get_roles,
        lambda: reader.subscribe(),
    ):
        with pytest.raises(LocationGone):
            call()
    assert not (tmp_path / "shard").exists()

"""What the stash implementation promises, looked at from below."""

from __future__ import annotations

import sys
import tracemalloc
import uuid
from typing import Any

import psycopg
import pytest
from psycopg import sql

from hermit.durable import stash as stash_module
from hermit.durable.contents import MOVED
from hermit.durable.errors import HistoryGone
from hermit.durable.load import load
from hermit.durable.stash_presence import hold_stash
from hermit.errors import CorruptData, Fenced
from hermit.formats import codec
from hermit.rows import Row
from hermit.stash import Stash
from hermit.stash.consolidate import consolidate

from .conftest import Lab
from .samples import item, role


def _execute(url: str, organization_id: uuid.UUID, statement: str) -> None:
    schema = sql.Identifier(f"hermit_{organization_id.hex}")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql.SQL(statement).format(schema=schema))  # type: ignore[arg-type]


@pytest.mark.row("M-15", "M-16")
@pytest.mark.parametrize("change", ["epoch = epoch - 1", "epoch = epoch + 1", "nonce = '\\x00'"])
def test_any_other_fence_fences_also_a_lower_one(
    stash: Lab, database_url: str, organization_id: uuid.UUID, change: str
) -> None:
    opened = stash.open(epoch_min=5)
    _execute(database_url, organization_id, f"UPDATE {{schema}}.fence SET {change}")
    for call in (opened.get_roles, opened.confirm_leadership, lambda: opened.set_tombstone(True)):
        with pytest.raises(Fenced):
            call()
    assert stash.unopened().tombstone() is None


def test_who_is_fenced_the_moment_after_it_opened_has_opened(
    stash: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its open took place, and raised the epoch: it learns of the newer one as any handle does."""
    newer = stash.unopened()
    late: list[Any] = []

    def open_first(*arguments: Any) -> None:
        monkeypatch.setattr(stash_module, "hold_stash", hold_stash)
        late.append(newer.open())
        hold_stash(*arguments)

    monkeypatch.setattr(stash_module, "hold_stash", open_first)
    first = stash.open()
    with late[0]:
        assert (first.epoch, late[0].epoch) == (1, 2)
        with pytest.raises(Fenced):
            first.confirm_leadership()
        late[0].confirm_leadership()


def test_whoever_is_interrupted_while_it_opens_lets_its_connection_go(
    stash: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[Stash] = []

    def interrupt(opened: Stash, organization_id: uuid.UUID) -> None:
        held.append(opened)
        raise KeyboardInterrupt

    monkeypatch.setattr(stash_module, "hold_stash", interrupt)
    with pytest.raises(KeyboardInterrupt):
        stash.open()
    assert held[0].closed


def test_commits_are_ordered_by_time_across_collections(stash: Lab) -> None:
    opened = stash.open()
    follower = stash.read_only().subscribe()
    for number in range(1, 6):
        opened.set_objects("roles", [role(number)])
        opened.set_objects("items", [item(number)])
        opened.set_timestamp("epoch_ms", number)
    batches = follower.poll()
    assert [batch.time for batch in batches] == sorted({batch.time for batch in batches})
    kinds = [{update.collection for update in batch.updates} for batch in batches]
    assert kinds == [{"roles"}, {"items"}, {"timestamps"}] * 5


def test_a_stash_that_nobody_consolidated_opens_to_the_same_contents(stash: Lab) -> None:
    opened: Any = stash.open()
    for number in range(1, 30):
        opened.set_objects("roles", [role(number % 4 + 1, f"name_{number}")])
    opened.set_objects("items", [item(1)])
    with opened.transaction() as transaction:
        transaction.roles.delete(role(1).key)
        opened.commit_transaction(transaction)
    expected = opened.dump()
    assert stash.read_only().dump() == expected
    merged = consolidate(opened.stash)
    assert merged.removed > 50
    assert stash.read_only().dump() == expected
    assert stash.open().dump() == expected


def test_a_reader_that_is_behind_a_consolidation_reads_anew_and_a_follower_is_told(stash: Lab) -> None:
    opened: Any = stash.open()
    reader = stash.read_only()
    follower = reader.subscribe()
    opened.set_objects("roles", [role(1)])
    opened.set_objects("roles", [role(1, "other")])
    consolidate(opened.stash)
    with pytest.raises(HistoryGone):
        follower.poll()
    assert reader.get_role_by_id(role(1).key.id) == role(1, "other")
    opened.set_objects("roles", [role(2)])
    assert reader.get_role_by_id(role(2).key.id) == role(2)


@pytest.mark.parametrize("diffs", [(1, 1), (-1, -1), (1, 1, 1, -1)])
def test_a_row_that_is_there_twice_or_less_than_never_is_damage(stash: Lab, diffs: tuple[int, ...]) -> None:
    opened: Any = stash.open()
    key, value = role(1)
    row = Row("roles", codec.encode_key("roles", key), codec.encode_value("roles", value))
    for diff in diffs:
        opened.stash.write(lambda transaction, diff=diff: transaction.append([(row, diff)]))
    if diffs == (1, 1):
        other = row._replace(value=codec.encode_value("roles", role(1, "other").value))
        opened.stash.write(lambda transaction: transaction.append([(row, -1), (other, 1)]))
    with pytest.raises(CorruptData, match="roles"):
        stash.open()


def test_contents_with_much_that_was_not_merged_are_loaded_in_the_memory_of_what_is_live(stash: Lab) -> None:
    """As after an upgrade that rewrote every row, several times."""
    rows = 25_000
    client = stash.unopened().client  # type: ignore[attr-defined]
    stash.open().close()

    def rewrite(transaction: Any, old: bytes | None, new: bytes) -> None:
        for value, diff in ((old, -1), (new, 1)):
            if value is not None:
                transaction.append((Row("items", b"%d" % n, value), diff) for n in range(rows))

    values = [b"%d" % n * 1000 for n in range(4)]
    with client.open(lambda transaction: None)[0] as handle:
        for old, new in zip([None, *values], values, strict=False):
            handle.write(lambda t, old=old, new=new: rewrite(t, old, new))
        tracemalloc.start()
        try:
            found = handle.read(lambda t: load(t, client.schema, ["items"]))["items"]
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert found == {b"%d" % n: values[-1] for n in range(rows)}
        live = sum(sys.getsizeof(key) + sys.getsizeof(value) for key, value in found.items())
        assert peak < 2 * live
        handle.write(lambda t: t.append([(Row("items", b"7", b"another"), 1)]))
        with pytest.raises(CorruptData, match="items"):
            handle.read(lambda t: load(t, client.schema, ["items"]))


def test_a_side_table_replaces_all_contents_and_readers_take_them_over(stash: Lab, persist: Lab) -> None:
    import pyarrow as pa

    from hermit.stash import bulk

    source = persist.open()
    source.set_objects("items", [item(1)])
    opened: Any = stash.open()
    opened.set_objects("roles", [role(7)])
    opened.set_tombstone(True)
    reader = stash.read_only()
    follower = reader.subscribe()
    bulk.create_side(opened.stash, "back", MOVED)
    ids = opened.stash.read(lambda transaction: transaction.collections())
    rows = [(ids[row.collection], row.key, row.value) for row in source.snapshot()]
    schema = pa.schema([("collection_id", pa.int64()), ("key", pa.binary()), ("value", pa.binary())])
    batch = pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), schema, strict=True)],
        schema=schema,
    )
    where: Any = stash.unopened()
    reader_of_rows = pa.RecordBatchReader.from_batches(schema, [batch])
    bulk.write_side(where.client.url, where.client.organization_id, "back", reader_of_rows)
    opened.replace_from_side("back", config={"tombstone": 0})
    for handle in (opened, reader, stash.resume(opened.token)):
        assert handle.digests() == source.digests()
        assert handle.get_items() == [item(1)]
        assert handle.get_role_by_id(role(7).key.id) is None
        assert handle.tombstone() is False
    with pytest.raises(HistoryGone):
        follower.poll()
    opened.set_objects("roles", [role(8)])
    assert reader.get_role_by_id(role(8).key.id) == role(8)


def test_other_components_of_the_same_stash_are_left_alone(
    stash: Lab, database_url: str, organization_id: uuid.UUID
) -> None:
    from hermit.stash import StashClient

    other = StashClient(database_url, organization_id, component="storage")
    foreign = Row("frontiers", b"key", b"value")
    handle, _ = other.open(lambda transaction: transaction.append([(foreign, 1)]))
    with handle:
        opened = stash.open()
        opened.set_objects("roles", [role(1)])
        assert {row.collection for row in opened.snapshot()} <= set(MOVED)
        assert handle.read(lambda transaction: list(transaction.rows("frontiers"))) == [(b"key", b"value")]
        handle.confirm()
        opened.confirm_leadership()

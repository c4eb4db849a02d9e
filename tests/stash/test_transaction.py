"""What a body can do: append, seal, compact, and read at a time."""

from __future__ import annotations

import tracemalloc

import pytest

from hermit.errors import CorruptData, InvalidInput, ReadOnly
from hermit.rows import Row, Update
from hermit.stash import Stash, StashTransaction
from hermit.stash.bulk import create_side
from hermit.stash.consolidate import Consolidation, consolidate
from hermit.stash.errors import (
    Closed,
    CompactOutOfRange,
    FrontierError,
    LowerMismatch,
    ReadOutOfRange,
    SealBackwards,
    TransactionOpen,
)

from .conftest import ClosingClient, nothing, raw

A, B = Row("items", b"a", b"1"), Row("items", b"b", b"2")
A2 = Row("items", b"a", b"3")
ROLE = Row("roles", b"r", b"")


@pytest.mark.row("F-2")
def test_a_change_is_stored_as_a_retraction_and_an_addition_at_one_time(
    stash: Stash, client: ClosingClient
) -> None:
    stash.write(lambda t: t.append([(A, 1)]))
    stash.write(lambda t: t.append([(A, -1), (A2, 1)]))
    assert sorted(raw(client, "select key, value, time, diff from {schema}.data")) == [
        (b"a", b"1", 0, 1),
        (b"a", b"1", 1, -1),
        (b"a", b"3", 1, 1),
    ]
    assert stash.read(lambda t: list(t.rows("items"))) == [(b"a", b"3")]
    assert stash.read(lambda t: t.get("items", b"a")) == b"3"
    assert set(stash.read(lambda t: list(t.updates("items")))) == {
        Update("items", b"a", b"1", 0, 1),
        Update("items", b"a", b"1", 1, -1),
        Update("items", b"a", b"3", 1, 1),
    }


def test_each_append_moves_the_uppers_of_what_it_touched(stash: Stash) -> None:
    def body(transaction: StashTransaction) -> None:
        transaction.append([(A, 1), (ROLE, 1)])
        transaction.append([(B, 1)], lower=1)

    stash.write(body)
    assert stash.read(lambda t: (t.upper("items"), t.upper("roles"), t.upper("none"))) == (2, 1, 0)


def test_an_append_with_a_wrong_lower_bound_writes_nothing(stash: Stash) -> None:
    stash.write(lambda t: t.append([(A, 1)], lower=0))
    before = stash.confirm()
    for lower in (0, 2):
        with pytest.raises(LowerMismatch) as caught:
            stash.write(lambda t, lower=lower: t.append([(ROLE, 1), (B, 1)], lower=lower))
        assert (caught.value.lower, caught.value.upper, caught.value.since) in {(0, 1, 0), (2, 0, 0)}
    assert stash.confirm() == before
    assert stash.read(lambda t: t.collections().keys()) == {"items"}


def test_a_body_that_swallows_a_failed_append_cannot_commit(stash: Stash) -> None:
    def body(transaction: StashTransaction) -> None:
        transaction.append([(A, 1)])
        with pytest.raises(LowerMismatch):
            transaction.append([(B, 1)], lower=7)

    with pytest.raises(LowerMismatch):
        stash.write(body)
    assert stash.read(lambda t: list(t.rows("items"))) == []


@pytest.mark.parametrize("name", ["größe", "日本", 'a"; drop table fence; --', "%s {schema} $1", "日" * 255])
def test_a_collection_may_have_any_name(stash: Stash, name: str) -> None:
    for body in (lambda t: t.append([(Row(name, b"k", b"v"), 1)]), lambda t: t.seal(name, 7)):
        stash.write(body)
    assert stash.read(lambda t: (list(t.rows(name)), t.upper(name))) == ([(b"k", b"v")], 7)
    assert consolidate(stash, [name]) == Consolidation()


@pytest.mark.parametrize("name", ["", "a\0b", "\ud800", "x" * 256])
def test_a_name_that_cannot_be_stored_is_refused(client: ClosingClient, stash: Stash, name: str) -> None:
    before = stash.confirm()
    dry, _ = client.open_savepoint(nothing)
    for operation in (
        lambda: stash.write(lambda t: t.append([(Row(name, b"", b""), 1)])),
        lambda: stash.write(lambda t: t.seal(name, 1)),
        lambda: dry.write(lambda t: t.append([(Row(name, b"", b""), 1)])),
        lambda: create_side(stash, "x", [name]),
    ):
        with pytest.raises(InvalidInput):
            operation()
    assert stash.read(lambda t: t.collections()) == {}
    assert stash.confirm() == before


def test_a_body_that_raises_changes_nothing(stash: Stash) -> None:
    def body(transaction: StashTransaction) -> None:
        transaction.append([(Row("items", b"%d" % n, b"v" * 1000), 1) for n in range(2000)])
        raise LookupError

    before = stash.confirm()
    with pytest.raises(LookupError):
        stash.write(body)
    assert stash.confirm() == before
    assert stash.read(lambda t: list(t.rows("items"))) == []


def test_a_body_reads_its_own_writes(stash: Stash) -> None:
    def body(transaction: StashTransaction) -> list[tuple[bytes, bytes]]:
        transaction.append([(A, 1), (B, 1)])
        transaction.append([(A, -1)])
        assert transaction.get("items", b"b") == b"2"
        assert transaction.get("items", b"a") is None
        return list(transaction.rows("items"))

    assert stash.write(body) == [(b"b", b"2")]


def test_rows_may_be_read_while_others_are_appended(stash: Stash) -> None:
    """An upgrade reads one collection as a stream and writes what it makes of it as another stream."""
    stash.write(lambda t: t.append((Row("items", b"%06d" % n, b"x" * 500), 1) for n in range(5000)))

    def body(transaction: StashTransaction) -> None:
        rows = transaction.rows("items")
        transaction.append((Row("copies", key, value), 1) for key, value in rows)

    stash.write(body)
    assert stash.read(lambda t: sum(1 for _ in t.rows("copies"))) == 5000


def test_rows_are_those_of_the_moment_of_the_call(stash: Stash) -> None:
    def body(transaction: StashTransaction) -> list[tuple[bytes, bytes]]:
        transaction.append([(A, 1)])
        before = transaction.rows("items")
        transaction.append([(B, 1)])
        return list(before)

    assert stash.write(body) == [(b"a", b"1")]


def test_a_time_can_be_read_at_until_it_is_compacted(stash: Stash) -> None:
    for change in ([(A, 1)], [(A, -1), (A2, 1)], [(B, 1)]):
        stash.write(lambda t, change=change: t.append(change))

    def at(time: int) -> list[tuple[bytes, bytes]]:
        return stash.read(lambda t: sorted(t.rows("items", as_of=time)))

    assert at(0) == [(b"a", b"1")]
    assert at(1) == [(b"a", b"3")]
    assert at(2) == [(b"a", b"3"), (b"b", b"2")]
    stash.write(lambda t: t.compact("items", 1))
    for time in (0, 3):
        with pytest.raises(ReadOutOfRange) as caught:
            at(time)
        assert (caught.value.since, caught.value.upper) == (1, 3)
    assert at(1) == [(b"a", b"3")]


def test_frontiers_do_not_go_back(stash: Stash) -> None:
    stash.write(lambda t: t.seal("items", 5))
    stash.write(lambda t: t.compact("items", 3))
    assert stash.read(lambda t: (t.since("items"), t.upper("items"))) == (3, 5)
    wrong = {
        SealBackwards: lambda t: t.seal("items", 4),
        CompactOutOfRange: lambda t: t.compact("items", 2),
        FrontierError: lambda t: t.compact("items", 6),
    }
    for error, body in wrong.items():
        with pytest.raises(error) as caught:
            stash.write(body)
        assert (caught.value.since, caught.value.upper) == (3, 5)
    version = stash.confirm().version
    stash.write(lambda t: (t.seal("items", 5), t.compact("items", 3)))
    assert stash.confirm().version == version
    stash.write(lambda t: t.append([(A, 1)], lower=5))


def test_a_read_transaction_refuses_to_write(stash: Stash) -> None:
    for body in (
        lambda t: t.append([(A, 1)]),
        lambda t: t.seal("items", 1),
        lambda t: t.compact("items", 0),
    ):
        with pytest.raises(ReadOnly):
            stash.read(body)


def test_a_read_only_handle_refuses_to_write(client: ClosingClient, stash: Stash) -> None:
    stash.write(lambda t: t.append([(A, 1)]))
    reader = client.open_read_only()
    with pytest.raises(ReadOnly):
        reader.write(nothing)
    assert reader.read(lambda t: list(t.rows("items"))) == [(b"a", b"1")]
    assert stash.confirm().epoch == reader.epoch


def test_a_reader_sees_one_snapshot_whatever_is_written_meanwhile(
    stash: Stash, client: ClosingClient
) -> None:
    stash.write(lambda t: t.append([(A, 1)]))
    reader = client.open_read_only()

    def body(transaction: StashTransaction) -> None:
        before = list(transaction.rows("items"))
        stash.write(lambda t: t.append([(B, 1)]))
        assert list(transaction.rows("items")) == before
        assert transaction.fence.version == 1

    reader.read(body)
    assert len(reader.read(lambda t: list(t.rows("items")))) == 2


def test_a_row_added_twice_is_there_twice_and_one_retracted_twice_is_corrupt(stash: Stash) -> None:
    stash.write(lambda t: t.append([(A, 1)]))
    stash.write(lambda t: t.append([(A, 1)]))
    assert stash.read(lambda t: list(t.rows("items"))) == [(b"a", b"1")] * 2
    with pytest.raises(CorruptData):
        stash.read(lambda t: t.get("items", b"a"))
    stash.write(lambda t: t.append([(A, -3)]))
    with pytest.raises(CorruptData):
        stash.read(lambda t: list(t.rows("items")))


def test_a_transaction_inside_a_transaction_is_refused(stash: Stash) -> None:
    for inner in (stash.confirm, lambda: stash.read(nothing), lambda: stash.write(nothing)):
        with pytest.raises(TransactionOpen):
            stash.write(lambda t, inner=inner: inner())


def test_a_closed_handle_does_nothing_and_fences_nobody(stash: Stash, client: ClosingClient) -> None:
    other = client.resume(stash.token)
    stash.close()
    with pytest.raises(Closed):
        stash.read(nothing)
    assert other.confirm().epoch == stash.epoch


def test_debug_takes_over_without_touching_contents(client: ClosingClient, stash: Stash) -> None:
    stash.write(lambda t: t.append([(A, 1)]))
    debug = client.open_debug()
    assert debug.epoch == stash.epoch + 1
    assert debug.confirm().version == 1
    debug.write(lambda t: t.append([(A, -1)]))
    assert debug.read(lambda t: list(t.rows("items"))) == []
    debug.close()


def test_rows_stream_in_bounded_memory(stash: Stash) -> None:
    value = bytes(200_000)
    stash.write(lambda t: t.append((Row("items", b"%d" % n, value), 1) for n in range(400)))
    stash.write(lambda t: t.append((Row("items", b"%d" % n, value), -1) for n in range(10)))

    def body(transaction: StashTransaction) -> int:
        tracemalloc.start()
        found = sum(1 for _ in transaction.rows("items"))
        peak_bytes = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak_bytes < 40_000_000
        return found

    assert stash.read(body) == 390

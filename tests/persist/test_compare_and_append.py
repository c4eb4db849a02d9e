"""Compare-and-append: one conditional commit, or nothing."""

from __future__ import annotations

import pytest

from hermit.errors import InvalidInput, NotInitialized, ReadOnly
from hermit.persist import PersistClient, State
from hermit.persist.errors import (
    CommitConflict,
    CompactionBackwards,
    CompactionBeyondUpper,
    ReadBeforeSince,
    ReadBeyondUpper,
    SealBackwards,
    UpperMismatch,
    WriteBehindUpper,
    WriteBeyondUpper,
)
from hermit.persist.frontier import END, TIME_MAX, Frontier


def append(client: PersistClient, time: int, *rows: tuple[bytes, bytes, int], since: int = 0) -> State:
    return client.compare_and_append(
        {"a": [(key, value, time, diff) for key, value, diff in rows]},
        expected={"a": client.state().upper("a")},
        new_upper={"a": time + 1},
        since={"a": since} if since else None,
    )


def contents(client: PersistClient, as_of: int | None = None) -> set[tuple[bytes, bytes, int]]:
    return {(key, value, diff) for _, key, value, diff in client.snapshot(["a"], as_of)}


def test_a_location_that_nobody_wrote_to_does_not_exist_and_stays_so(location: str) -> None:
    client = PersistClient.open(location)
    assert not client.is_initialized
    assert client.state() == State()
    assert client.is_current(-1)
    with pytest.raises(NotInitialized):
        list(client.snapshot(["a"], 0))
    assert not PersistClient.open(location, mode="ro").exists()


@pytest.mark.row("P-1")
def test_the_first_append_creates_the_location_and_each_collection_has_its_frontiers(
    client: PersistClient,
) -> None:
    state = client.compare_and_append(
        {"a": [(b"k", b"v", 0, 1)]}, expected={"a": 0, "b": 0}, new_upper={"a": 1, "b": 5}
    )
    assert state.frontiers == {"a": Frontier(0, 1), "b": Frontier(0, 5)}
    assert client.is_initialized
    assert contents(client) == {(b"k", b"v", 1)}


def test_an_append_shows_up_in_another_client(location: str, client: PersistClient) -> None:
    other = PersistClient.open(location, mode="ro")
    state = append(client, 0, (b"k", b"v", 1))
    assert other.state() == state
    assert not other.is_current(state.version - 1)
    append(client, 1, (b"k", b"v", -1), (b"k", b"w", 1))
    assert contents(other) == {(b"k", b"w", 1)}
    assert contents(other, 0) == {(b"k", b"v", 1)}


def test_an_append_that_expects_another_upper_changes_nothing(location: str, client: PersistClient) -> None:
    append(client, 0, (b"k", b"v", 1))
    other = PersistClient.open(location)
    append(other, 1, (b"l", b"v", 1))
    before = other.state()
    with pytest.raises(UpperMismatch) as caught:
        client.compare_and_append({"a": [(b"m", b"v", 1, 1)]}, expected={"a": 1}, new_upper={"a": 2})
    assert (caught.value.collection, caught.value.upper, caught.value.requested) == ("a", 2, 1)
    assert other.state() == before
    assert contents(client) == {(b"k", b"v", 1), (b"l", b"v", 1)}


def test_an_append_to_another_collection_does_not_disturb_one_without_a_version(
    location: str, client: PersistClient
) -> None:
    state = append(client, 0, (b"k", b"v", 1))
    other = PersistClient.open(location)
    other.compare_and_append({"b": [(b"x", b"y", 0, 1)]}, expected={"b": 0}, new_upper={"b": 1})
    with pytest.raises(CommitConflict) as caught:
        client.compare_and_append({}, expected={"a": 1}, new_upper={"a": 2}, version=state.version)
    assert (caught.value.expected, caught.value.current) == (state.version, state.version + 1)
    assert client.compare_and_append({}, expected={"a": 1}, new_upper={"a": 2}).upper("b") == 1


def test_frontiers_that_would_move_back_are_refused_by_name(client: PersistClient) -> None:
    append(client, 0, (b"k", b"v", 1))
    append(client, 4, since=3)
    before = client.state()
    with pytest.raises(SealBackwards):
        client.compare_and_append({}, expected={"a": 5}, new_upper={"a": 4})
    with pytest.raises(CompactionBackwards):
        client.compare_and_append({}, expected={"a": 5}, new_upper={"a": 5}, since={"a": 2})
    with pytest.raises(CompactionBeyondUpper):
        client.compare_and_append({}, expected={"a": 5}, new_upper={"a": 6}, since={"a": 7})
    with pytest.raises(WriteBehindUpper):
        client.compare_and_append({"a": [(b"k", b"v", 4, 1)]}, expected={"a": 5}, new_upper={"a": 6})
    with pytest.raises(WriteBeyondUpper):
        client.compare_and_append({"a": [(b"k", b"v", 6, 1)]}, expected={"a": 5}, new_upper={"a": 6})
    with pytest.raises(ReadBeforeSince) as before_since:
        contents(client, 2)
    with pytest.raises(ReadBeyondUpper):
        contents(client, 5)
    assert (before_since.value.since, before_since.value.upper, before_since.value.requested) == (3, 5, 2)
    assert client.state() == before


@pytest.mark.row("P-2")
@pytest.mark.row("P-3")
def test_the_extremes_of_times_and_diffs_round_trip(client: PersistClient, location: str) -> None:
    large, small = (1 << 63) - 1, -(1 << 63)
    client.compare_and_append(
        {"a": [(b"", b"", 0, large), (b"k", b"", 1 << 63, small), (b"l", b"", TIME_MAX, 1)]},
        expected={"a": 0},
        new_upper={"a": END},
    )
    reader = PersistClient.open(location, mode="ro")
    assert contents(reader, 0) == {(b"", b"", large)}
    assert contents(reader, TIME_MAX - 1) == {(b"", b"", large), (b"k", b"", small)}
    assert contents(reader, TIME_MAX) == {(b"", b"", large), (b"k", b"", small), (b"l", b"", 1)}
    assert reader.state().frontier("a") == Frontier(0, END)


def test_records_that_cancel_out_leave_no_row(client: PersistClient) -> None:
    append(client, 0, (b"k", b"v", 1), (b"k", b"v", 1), (b"l", b"v", 1), (b"l", b"v", -1))
    assert contents(client) == {(b"k", b"v", 2)}
    append(client, 1, (b"k", b"v", -2))
    assert contents(client) == set()


@pytest.mark.row("P-42")
def test_a_read_only_client_refuses_to_write(client: PersistClient, location: str) -> None:
    append(client, 0, (b"k", b"v", 1))
    reader = PersistClient.open(location, mode="ro")
    with pytest.raises(ReadOnly):
        append(reader, 1)
    with pytest.raises(ReadOnly):
        reader.replace_with_batch([], collections=["a"], version=0, new_upper={"a": 2})


def test_a_collection_needs_a_name_and_both_uppers(client: PersistClient) -> None:
    with pytest.raises(InvalidInput):
        client.compare_and_append({}, expected={"": 0}, new_upper={"": 1})
    with pytest.raises(InvalidInput):
        client.compare_and_append({"a": [(b"k", b"v", 0, 1)]}, expected={"a": 0}, new_upper={})


@pytest.mark.row("P-5")
def test_names_may_be_any_text(client: PersistClient, location: str) -> None:
    names = ["a/b", "a b", "ä%20=", "a/upper", "../x", "null", "A", "a" * 300]
    client.compare_and_append(
        {name: [(b"k", name.encode(), 0, 1)] for name in names},
        expected=dict.fromkeys(names, 0),
        new_upper=dict.fromkeys(names, 1),
    )
    reader = PersistClient.open(location, mode="ro")
    assert set(reader.state().frontiers) == set(names)
    assert set(reader.snapshot(names)) == {(name, b"k", name.encode(), 1) for name in names}


def test_checkpoints_keep_everything(client: PersistClient, location: str) -> None:
    for time in range(120):
        append(client, time, (b"%d" % time, b"v", 1), since=time // 2)
    reader = PersistClient.open(location, mode="ro")
    assert reader.state() == client.state()
    assert contents(reader) == {(b"%d" % time, b"v", 1) for time in range(120)}

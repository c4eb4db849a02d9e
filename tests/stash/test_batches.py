"""Batches of any size get in; a row of any size does not."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from hermit.rows import Row
from hermit.stash import Stash, StashTransaction
from hermit.stash.batch import PARAMETERS_MAX, ROW_BYTES_MAX, STATEMENT_BYTES_MAX
from hermit.stash.errors import ValueTooLarge

from .conftest import ClosingClient, nothing, raw
from .proxy import Message, Proxy


@pytest.fixture
def proxy(database_url: str) -> Iterator[Proxy]:
    with Proxy(database_url) as made:
        yield made


@pytest.fixture
def through(proxy: Proxy, connect: Callable[..., ClosingClient]) -> Iterator[Stash]:
    client = connect(proxy.url)
    with client.handles:
        yield client.open(nothing)[0]


def refuse_oversized(messages: list[Message]) -> None:
    statements = [message for message in messages if message.kind in "PBQ"]
    assert statements
    assert max(message.size_bytes for message in statements) <= STATEMENT_BYTES_MAX
    assert max(message.parameters for message in statements) <= PARAMETERS_MAX


@pytest.mark.slow
def test_a_batch_of_huge_serialized_size_is_split(proxy: Proxy, through: Stash) -> None:
    """Beyond the 32 MiB at which a statement once failed in production."""
    rows = [Row("items", b"%d" % n, bytes([n]) * 1_000_000) for n in range(48)]
    through.write(lambda t: t.append((row, 1) for row in rows))
    refuse_oversized(proxy.messages())
    assert through.read(lambda t: sorted(int(key) for key, _ in t.rows("items"))) == list(range(48))


@pytest.mark.slow
def test_a_batch_of_a_great_number_of_updates_is_split(proxy: Proxy, through: Stash) -> None:
    total = 3 * PARAMETERS_MAX
    through.write(lambda t: t.append((Row("items", b"%d" % n, b""), 1) for n in range(total)))
    refuse_oversized(proxy.messages())
    assert through.read(lambda t: sum(1 for _ in t.rows("items"))) == total


@pytest.mark.parametrize("rows", [1, 2, 255, 256, 257, 258, 1000])
def test_every_size_around_the_switch_to_copy_gets_in_whole(stash: Stash, rows: int) -> None:
    expected = {b"%d" % n: b"v" * n for n in range(rows)}
    stash.write(lambda t: t.append((Row("items", *pair), 1) for pair in expected.items()))
    assert dict(stash.read(lambda t: list(t.rows("items")))) == expected


def test_bytes_of_all_values_survive_both_ways_in(stash: Stash) -> None:
    odd = [bytes(range(256)), b"\\x00", b"\\N", b"\\.", b"{}", b'"', b"\n", b"", b"\xff\xff"]
    stash.write(lambda t: t.append([(Row("few", key, key), 1) for key in odd]))
    stash.write(lambda t: t.append([(Row("many", key, key), 1) for key in odd * 60]))
    assert sorted(stash.read(lambda t: list(t.rows("few")))) == sorted((key, key) for key in odd)
    assert sorted(set(stash.read(lambda t: list(t.rows("many"))))) == sorted((key, key) for key in odd)


def test_a_value_of_16_mib_is_refused_before_anything_is_written(stash: Stash, client: ClosingClient) -> None:
    before = stash.confirm()

    def body(transaction: StashTransaction) -> None:
        transaction.append([(Row("items", b"small", b""), 1)])
        transaction.append([(Row("items", b"large", bytes(16 * 1024 * 1024)), 1)])

    with pytest.raises(ValueTooLarge) as caught:
        stash.write(body)
    assert caught.value.collection == "items"
    assert caught.value.size_bytes == 16 * 1024 * 1024 + 5
    assert caught.value.limit_bytes == ROW_BYTES_MAX
    assert stash.confirm() == before
    assert raw(client, "select * from {schema}.data") == []


def test_the_largest_row_gets_in_and_one_byte_more_does_not(proxy: Proxy, through: Stash) -> None:
    largest = Row("items", b"k", bytes(ROW_BYTES_MAX - 1))
    through.write(lambda t: t.append([(largest, 1)]))
    assert through.read(lambda t: t.get("items", b"k")) == largest.value
    with pytest.raises(ValueTooLarge):
        through.write(lambda t: t.append([(Row("items", b"kk", largest.value), 1)]))
    refuse_oversized(proxy.messages())


def test_keys_longer_than_an_index_entry_are_told_apart(stash: Stash) -> None:
    keys = [b"k" * 5000 + bytes([n]) for n in range(3)]
    stash.write(lambda t: t.append([(Row("audit_log", key, b"%d" % len(key)), 1) for key in keys]))
    stash.write(lambda t: t.append([(Row("audit_log", keys[1], b"5001"), -1)]))
    assert stash.read(lambda t: [t.get("audit_log", key) for key in keys]) == [b"5001", None, b"5001"]


@pytest.mark.parametrize("rows", [3, 5000])
def test_a_small_write_takes_two_round_trips_and_confirming_one(
    proxy: Proxy, through: Stash, rows: int
) -> None:
    through.write(lambda t: t.append([(Row("items", b"", b""), 1)]))
    proxy.messages()
    through.write(lambda t: t.append([(Row("items", b"%d" % n, b""), 1) for n in range(rows)]))
    copying = 2 if rows > 256 else 0
    assert round_trips(proxy.messages()) == 2 + copying
    through.confirm()
    assert round_trips(proxy.messages()) == 1


def round_trips(messages: list[Message]) -> int:
    """Each of these is answered before the client goes on: a sync, a simple query, the end of a COPY."""
    return sum(1 for message in messages if message.kind in "SQc")

"""Processes that stop in the middle, and never come back: what they hold comes free by itself."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from hermit.digest import digest_rows
from hermit.errors import Fenced
from hermit.rows import Row
from hermit.stash import RetryPolicy, Stash, StashTransaction, session
from hermit.stash.bulk import create_side, digests, drop_side, resume_side, write_side
from hermit.stash.errors import SideIncomplete

from .conftest import ClosingClient, nothing
from .proxy import COMMIT, Fault, Proxy
from .test_batches import round_trips
from .test_bulk import SCHEMA, items, reader

RAISE_EPOCH = b"SET epoch = "


@pytest.fixture
def proxy(database_url: str) -> Iterator[Proxy]:
    with Proxy(database_url) as made:
        yield made


@pytest.fixture
def stoppable(proxy: Proxy, connect: Callable[..., ClosingClient]) -> ClosingClient:
    """A client that the proxy can stop, and whose commits the server lets take a second."""
    return connect(proxy.url, retry=RetryPolicy(commit_s_max=1))


@contextmanager
def in_background(action: Callable[[], Any]) -> Iterator[list[Any]]:
    """Run something that somebody else must set free; what it gave, or how it failed, once it ended."""
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append(action())
        except Exception as error:
            outcome.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    yield outcome
    thread.join(30)
    assert not thread.is_alive()


def in_time(action: Callable[[], Any]) -> Any:
    """What something gives that must not have to wait for somebody who stopped."""
    with in_background(action) as outcome:
        pass
    return outcome[0]


def add(transaction: StashTransaction) -> None:
    transaction.append([(Row("items", b"key", b"value"), 1)])


def keys(stash: Stash) -> list[bytes]:
    return [key for key, _ in stash.read(lambda t: list(t.rows("items")))]


def test_a_writer_that_stops_between_the_messages_of_its_commit_keeps_no_opener_waiting(
    proxy: Proxy, stoppable: ClosingClient, client: ClosingClient
) -> None:
    stopped = stoppable.open(nothing)[0]
    proxy.arm(Fault.HANG, COMMIT)
    with in_background(lambda: stopped.write(add)) as outcome:
        assert proxy.lost.wait(30)
        opened = in_time(lambda: client.open(nothing)[0])
    assert isinstance(outcome[0], Fenced)
    assert keys(opened) == []


def test_an_opener_that_stops_before_it_raised_the_epoch_keeps_no_other_waiting(
    proxy: Proxy, stoppable: ClosingClient, client: ClosingClient
) -> None:
    client.open(add)
    proxy.arm(Fault.HANG, RAISE_EPOCH)
    with in_background(lambda: stoppable.open(add)[0]) as outcome:
        assert proxy.lost.wait(30)
        # Afterwards the server ends the stopped one, which comes back and is the last one to open.
        assert in_time(lambda: client.open(nothing)[0].epoch) == 2
    assert outcome[0].epoch == 3


def test_what_comes_after_a_commit_takes_as_long_as_it_likes(connect: Callable[..., ClosingClient]) -> None:
    stash = connect(retry=RetryPolicy(commit_s_max=0.2)).open(add)[0]
    stash.write(add)
    before = stash.read(lambda t: t.execute(b"select pg_backend_pid()").fetchone())
    after = stash.read(lambda t: t.execute(b"select pg_backend_pid() from pg_sleep(0.6)").fetchone())
    assert before == after


def test_a_server_that_cannot_bound_a_pipeline_is_sent_one_statement_after_the_other(
    proxy: Proxy, stoppable: ClosingClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    stash = stoppable.open(nothing)[0]
    stash.write(add)
    proxy.messages()
    stash.write(add)
    assert round_trips(proxy.messages()) == 2
    monkeypatch.setattr(session, "BOUNDING_SERVER", 10**9)
    stash.write(add)
    assert round_trips(proxy.messages()) == 3
    assert keys(stash) == [b"key"] * 3


def test_an_opener_that_reads_is_never_within_a_pipeline(proxy: Proxy, stoppable: ClosingClient) -> None:
    stoppable.open(add)
    proxy.messages()
    stoppable.open(lambda t: list(t.rows("items")))
    kinds = "".join(message.kind for message in proxy.messages())
    *reading, raising, _commit = [batch.count("E") for batch in kinds.split("S")]
    assert max(reading) == 1
    assert raising > 1


@contextmanager
def zombie(url: str, organization_id: UUID, ids: dict[str, int], part: str | None) -> Iterator[list[Any]]:
    """A call that has begun to write to the side `x` and gets no further until the block is left."""
    started, resume = threading.Event(), threading.Event()

    def rows() -> Iterator[pa.RecordBatch]:
        yield from reader(ids, items(0, 5))
        started.set()
        assert resume.wait(60)
        yield from reader(ids, items(5, 10))

    def write() -> int:
        batches = pa.RecordBatchReader.from_batches(SCHEMA, rows())
        return write_side(url, organization_id, "x", batches, part=part)

    with in_background(write) as outcome:
        assert started.wait(30)
        yield outcome
        resume.set()


@pytest.mark.parametrize("part", [None, "one"])
def test_a_side_is_dropped_and_made_anew_under_a_task_that_stopped(
    stash: Stash, database_url: str, organization_id: UUID, part: str | None
) -> None:
    ids = create_side(stash, "x", ["items"])
    with zombie(database_url, organization_id, ids, part) as outcome:
        assert in_time(lambda: drop_side(stash, "x")) is None
        create_side(stash, "x")
        write_side(database_url, organization_id, "x", reader(ids, items(0, 3)), part=part)
    assert isinstance(outcome[0], SideIncomplete)
    assert digests(stash, side="x") == digest_rows(items(0, 3))


def test_the_next_attempt_goes_on_with_a_side_under_a_task_that_stopped(
    stash: Stash, database_url: str, organization_id: UUID
) -> None:
    ids = create_side(stash, "x", ["items"])
    write_side(database_url, organization_id, "x", reader(ids, items(0, 3)), part="done")
    with zombie(database_url, organization_id, ids, "stuck") as outcome:
        assert resume_side(stash, "x", ["done", "stuck"]) == {"done"}
        again = reader(ids, items(3, 9))
        assert in_time(lambda: write_side(database_url, organization_id, "x", again, part="stuck")) == 6
    assert isinstance(outcome[0], SideIncomplete)
    assert digests(stash, side="x") == digest_rows(items(0, 9))

"""A COMMIT whose answer got lost: applied once, never twice, never reported wrong."""

from __future__ import annotations

import gc
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from hermit.errors import Fenced
from hermit.rows import Row
from hermit.stash import RetryPolicy, Stash, StashTransaction
from hermit.stash.bulk import create_side, replace_from_side
from hermit.stash.errors import ConnectionFailed, ConnectionLost, OutcomeUnknown

from .conftest import WAITING, ClosingClient, nothing, raw
from .proxy import COMMIT, FENCE, Fault, Proxy

# Whoever has changed something and is to say whether it counts.
HOLDING = """select pid from pg_stat_activity
 where datname = current_database() and backend_xid is not null and wait_event = 'ClientRead'"""


@pytest.fixture
def proxy(database_url: str) -> Iterator[Proxy]:
    with Proxy(database_url) as made:
        yield made


@pytest.fixture
def through(proxy: Proxy, connect: Callable[..., ClosingClient]) -> Iterator[Stash]:
    """A handle whose connections go through the proxy."""
    client = connect(proxy.url)
    with client.handles:
        yield client.open(nothing)[0]


def count_rows(stash: Stash) -> list[int]:
    """How often each row is there, by its number."""
    return sorted(int(key) for key, _ in stash.read(lambda t: list(t.rows("items"))))


def add(number: int) -> Callable[[StashTransaction], int]:
    def body(transaction: StashTransaction) -> int:
        transaction.append([(Row("items", b"%d" % number, b""), 1)])
        return number

    return body


@pytest.mark.parametrize("at", [COMMIT, FENCE])
@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER])
def test_a_write_whose_commit_was_lost_is_applied_exactly_once(
    proxy: Proxy, through: Stash, client: ClosingClient, fault: Fault, at: bytes
) -> None:
    for number in range(4):
        proxy.arm(fault, at)
        assert through.write(add(number)) == number
    assert proxy.faults == 4
    assert count_rows(through) == [0, 1, 2, 3]
    fence = client.fence()
    assert fence is not None
    assert fence.version == 4


def test_a_body_runs_again_only_if_its_commit_did_not_happen(proxy: Proxy, through: Stash) -> None:
    for fault, runs in ((Fault.BEFORE, 2), (Fault.AFTER, 1)):
        seen: list[int] = []

        def body(transaction: StashTransaction, seen: list[int] = seen) -> None:
            seen.append(transaction.fence.version)
            add(0)(transaction)

        proxy.arm(fault)
        through.write(body)
        assert len(seen) == runs


def test_a_commit_that_reaches_the_server_after_it_was_settled_is_not_applied(
    proxy: Proxy, through: Stash
) -> None:
    runs: list[int] = []

    def body(transaction: StashTransaction) -> None:
        runs.append(transaction.fence.version)
        add(1)(transaction)
        if len(runs) == 2:
            # Settled as not applied, and under way again: only now the first attempt reaches the server.
            proxy.deliver()

    through.write(add(0))
    proxy.arm(Fault.LATE, FENCE)
    through.write(body)
    assert runs == [1, 1]
    assert count_rows(through) == [0, 1]
    assert through.confirm().version == 2


def test_settling_waits_for_a_transaction_that_holds_the_fence_and_may_still_commit(
    proxy: Proxy, through: Stash, client: ClosingClient
) -> None:
    through.write(add(0))
    runs: list[int] = []

    def body(transaction: StashTransaction) -> None:
        runs.append(transaction.fence.version)
        add(1)(transaction)

    proxy.arm(Fault.LATE, COMMIT)
    proxy.gate.clear()
    writing = threading.Thread(target=through.write, args=[body])
    writing.start()
    assert proxy.lost.wait(30)
    while not raw(client, HOLDING):
        time.sleep(0.01)
    # Only now: a client that is back before the server has changed the fence need not wait, and writes again.
    proxy.gate.set()
    while writing.is_alive() and not raw(client, WAITING):
        time.sleep(0.01)
    proxy.deliver()
    writing.join(30)
    assert not writing.is_alive()
    assert runs == [1]
    assert count_rows(through) == [0, 1]
    assert through.confirm().version == 2


@contextmanager
def meanwhile(proxy: Proxy, fault: Fault, action: Callable[[], object]) -> Iterator[None]:
    """Lose the next COMMIT, and do something before the client is back to ask about it."""

    def act() -> None:
        assert proxy.lost.wait(30)
        action()
        proxy.gate.set()

    proxy.arm(fault)
    proxy.gate.clear()
    acting = threading.Thread(target=act)
    acting.start()
    yield
    acting.join(30)
    assert not acting.is_alive()


@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER])
def test_another_writers_version_is_not_taken_for_ours(
    proxy: Proxy, through: Stash, client: ClosingClient, fault: Fault
) -> None:
    """A second handle with the same token writes while the first does not know what became of its own."""
    other = client.resume(through.token)
    with meanwhile(proxy, fault, lambda: other.write(add(2))):
        through.write(add(1))
    assert count_rows(through) == [1, 2]
    assert through.confirm().version == 2


@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER])
def test_a_lost_commit_of_a_handle_that_was_fenced_since_is_reported_as_it_was(
    proxy: Proxy, through: Stash, client: ClosingClient, fault: Fault
) -> None:
    with meanwhile(proxy, fault, lambda: client.open(nothing)[0].write(add(100))):
        if fault is Fault.AFTER:
            through.write(add(1))
        else:
            with pytest.raises(Fenced):
                through.write(add(1))
    expected = [1, 100] if fault is Fault.AFTER else [100]
    assert count_rows(client.open_read_only()) == expected


@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER])
def test_an_open_whose_commit_was_lost_is_settled_by_its_nonce(
    proxy: Proxy, connect: Callable[..., ClosingClient], client: ClosingClient, fault: Fault
) -> None:
    opener = connect(proxy.url)
    opener.open(nothing)
    proxy.arm(fault)
    stash, result = opener.open(lambda t: add(1)(t) if not t.upper("items") else "nothing to do")
    assert proxy.faults == 1
    assert (stash.epoch, result) == (2, 1)
    assert count_rows(stash) == [1]
    assert stash.confirm().version == 1


@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER])
def test_a_cut_over_whose_commit_was_lost_happens_once(proxy: Proxy, through: Stash, fault: Fault) -> None:
    through.write(add(1))
    create_side(through, "x")
    proxy.arm(fault, FENCE)
    replace_from_side(through, "x", config={"tombstone": 0})
    assert count_rows(through) == []
    assert through.confirm().version == 2
    assert through.read(lambda t: t.upper("items")) == 2


def test_an_outcome_that_cannot_be_found_out_is_said_to_be_unknown(
    database_url: str, connect: Callable[..., ClosingClient]
) -> None:
    with Proxy(database_url) as proxy:
        policy = RetryPolicy(attempts_max=3, delay_s_first=0.01, total_s_max=1)
        stash = connect(proxy.url, retry=policy).open(nothing)[0]
        threading.Thread(target=lambda: (proxy.lost.wait(30), proxy.refuse())).start()
        proxy.arm(Fault.AFTER)
        proxy.gate.clear()
        with pytest.raises(OutcomeUnknown):
            stash.write(add(1))
        # Before a COMMIT was sent there is nothing to find out: that is a plain failure.
        with pytest.raises((ConnectionFailed, ConnectionLost)) as caught:
            stash.write(add(2))
        assert not isinstance(caught.value, OutcomeUnknown)
    assert count_rows(connect().open_read_only()) == [1]


class _Interrupted(BaseException):
    """What a scheduler's timeout raises in a signal handler."""


# Where exactly the signal meets psycopg is chance; its half-done generator may complain when it is collected.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_signal_while_the_commit_is_on_its_way_is_raised_and_nothing_is_applied_twice(
    proxy: Proxy, through: Stash, client: ClosingClient
) -> None:
    def interrupt(signal_number: int, frame: object) -> None:
        raise _Interrupted

    def interrupt_at_commit() -> None:
        assert proxy.lost.wait(30)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGALRM)

    proxy.arm(Fault.HANG)
    before = signal.signal(signal.SIGALRM, interrupt)
    interrupting = threading.Thread(target=interrupt_at_commit)
    interrupting.start()
    try:
        with pytest.raises(_Interrupted):
            through.write(add(1))
    finally:
        interrupting.join(60)
        signal.signal(signal.SIGALRM, before)
    gc.collect()
    through.write(add(2))
    assert count_rows(through) == [2]

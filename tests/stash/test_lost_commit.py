"""A COMMIT whose answer got lost: applied once, never twice, never reported wrong."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from hermit.errors import Fenced
from hermit.rows import Row
from hermit.stash import RetryPolicy, Stash, StashTransaction
from hermit.stash.bulk import create_side, replace_from_side
from hermit.stash.errors import ConnectionFailed, ConnectionLost, OutcomeUnknown

from .conftest import ClosingClient, nothing
from .proxy import Fault, Proxy


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


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER])
def test_a_write_whose_commit_was_lost_is_applied_exactly_once(
    proxy: Proxy, through: Stash, client: ClosingClient, fault: Fault, split: bool
) -> None:
    for number in range(4):
        proxy.arm(fault, split=split)
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


@pytest.mark.parametrize("split", [False, True])
def test_a_commit_that_reaches_the_server_too_late_is_not_applied(
    proxy: Proxy, through: Stash, split: bool
) -> None:
    """The server gets the COMMIT after the client has settled that it did not happen.

    With `split`, the server has seen everything but the COMMIT and holds the fence's row: then settling
    waits for it, and it is the late COMMIT that counts.
    """
    proxy.arm(Fault.LATE, split=split)
    if split:
        writing = threading.Thread(target=through.write, args=[add(1)])
        writing.start()
        assert proxy.lost.wait(30)
        proxy.deliver()
        writing.join(30)
        assert not writing.is_alive()
    else:
        through.write(add(1))
        proxy.deliver()
    assert count_rows(through) == [1]
    assert through.confirm().version == 1


def test_another_writers_version_is_not_taken_for_ours(
    proxy: Proxy, through: Stash, client: ClosingClient
) -> None:
    """A second handle with the same token writes while the first does not know what became of its own."""
    for fault, numbers in ((Fault.BEFORE, (1, 2)), (Fault.AFTER, (3, 4))):
        ours, theirs = numbers
        other = client.resume(through.token)
        interfering = threading.Event()

        def interfere(
            other: Stash = other, number: int = theirs, done: threading.Event = interfering
        ) -> None:
            assert proxy.lost.wait(30)
            other.write(add(number))
            done.set()

        proxy.arm(fault)
        thread = threading.Thread(target=interfere)
        thread.start()
        through.write(add(ours))
        thread.join(30)
        assert interfering.is_set()
    assert count_rows(through) == [1, 2, 3, 4]
    assert through.confirm().version == 4


@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER])
def test_a_lost_commit_of_a_handle_that_was_fenced_since_is_reported_as_it_was(
    proxy: Proxy,
    database_url: str,
    connect: Callable[..., ClosingClient],
    client: ClosingClient,
    fault: Fault,
) -> None:
    through = connect(proxy.url).open(nothing)[0]
    settling = threading.Event()
    original = through._settle

    def fence_first(version: int, cause: object) -> None:
        later = client.open(nothing)[0]
        later.write(add(100))
        settling.set()
        original(version, cause)  # type: ignore[arg-type]

    through._settle = fence_first  # type: ignore[method-assign, assignment]
    proxy.arm(fault)
    if fault is Fault.AFTER:
        through.write(add(1))
    else:
        with pytest.raises(Fenced):
            through.write(add(1))
    assert settling.is_set()
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
    proxy.arm(fault)
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
        original = stash._settle

        def settle_without_server(version: int, cause: object) -> None:
            proxy.__exit__(None, None, None)
            original(version, cause)  # type: ignore[arg-type]

        stash._settle = settle_without_server  # type: ignore[method-assign, assignment]
        proxy.arm(Fault.AFTER)
        with pytest.raises(OutcomeUnknown):
            stash.write(add(1))
        # Before a COMMIT was sent there is nothing to find out: that is a plain failure.
        with pytest.raises((ConnectionFailed, ConnectionLost)) as caught:
            stash.write(add(2))
        assert not isinstance(caught.value, OutcomeUnknown)
    assert count_rows(connect().open_read_only()) == [1]

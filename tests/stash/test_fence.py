"""The fence: who may read and write."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from uuid import UUID

import pytest

from hermit.errors import Fenced, NotInitialized
from hermit.rows import Row
from hermit.stash import Stash, StashClient, StashTransaction, Token
from hermit.stash.errors import SchemaReplaced

from .conftest import WAITING, ClosingClient, nothing, raw

ROW = Row("items", b"key", b"value")


def add_row(transaction: StashTransaction) -> None:
    transaction.append([(ROW, 1)])


@pytest.mark.row("M-12")
@pytest.mark.row("D-18")
def test_each_open_takes_the_next_epoch_and_stores_it(client: StashClient) -> None:
    epochs = [client.open(nothing)[0].epoch for _ in range(3)]
    assert epochs == [1, 2, 3]
    assert raw(client, "select epoch from {schema}.fence") == [(3,)]


def test_an_open_never_goes_below_its_lower_bound(client: StashClient) -> None:
    assert client.open(nothing, epoch_min=7)[0].epoch == 7
    assert client.open(nothing, epoch_min=3)[0].epoch == 8


@pytest.mark.row("M-13")
@pytest.mark.row("M-14")
@pytest.mark.row("M-16")
def test_an_open_fences_every_earlier_handle_for_reads_and_writes(client: StashClient) -> None:
    first, second, third = (client.open(nothing)[0] for _ in range(3))
    for handle in (first, second):
        for operation in (lambda h: h.write(add_row), lambda h: h.read(nothing), lambda h: h.confirm()):
            with pytest.raises(Fenced) as caught:
                operation(handle)
            assert (caught.value.epoch, caught.value.current) == (handle.epoch, 3)
            assert not isinstance(caught.value, SchemaReplaced)
    assert raw(client, "select * from {schema}.data") == []
    third.write(add_row)
    assert third.read(lambda t: list(t.rows("items"))) == [(b"key", b"value")]


@pytest.mark.row("M-14")
def test_nobody_writes_between_what_an_opener_reads_and_its_commit(client: StashClient) -> None:
    first = client.open(nothing)[0]
    fenced: list[Fenced] = []

    def write() -> None:
        try:
            first.write(add_row)
        except Fenced as error:
            fenced.append(error)

    writer = threading.Thread(target=write)

    def bootstrap(transaction: StashTransaction) -> list[tuple[bytes, bytes]]:
        found = list(transaction.rows("items"))
        writer.start()
        while writer.is_alive() and not raw(client, WAITING):
            time.sleep(0.01)
        return found

    second, seen = client.open(bootstrap)
    writer.join()
    assert len(fenced) == 1
    assert second.read(lambda transaction: list(transaction.rows("items"))) == seen == []


@pytest.mark.row("M-11")
def test_a_reader_is_fenced_by_the_next_open(client: StashClient, stash: Stash) -> None:
    reader = client.open_read_only()
    assert reader.epoch == stash.epoch
    client.open(nothing)
    with pytest.raises(Fenced):
        reader.read(nothing)


@pytest.mark.row("M-15")
def test_a_stored_epoch_that_went_down_fails_the_handle_as_well(client: StashClient) -> None:
    stash = client.open(nothing, epoch_min=5)[0]
    raw(client, "update {schema}.fence set epoch = 4")
    with pytest.raises(SchemaReplaced) as caught:
        stash.confirm()
    assert (caught.value.epoch, caught.value.current) == (5, 4)


def test_a_schema_created_again_under_a_live_handle_is_told_by_its_nonce(client: StashClient) -> None:
    stash = client.open(nothing)[0]
    raw(client, "drop schema {schema} cascade")
    with pytest.raises(SchemaReplaced) as caught:
        stash.read(nothing)
    assert caught.value.current is None
    assert client.open(nothing)[0].epoch == stash.epoch
    for operation in (stash.confirm, lambda: stash.write(add_row), lambda: stash.read(nothing)):
        with pytest.raises(SchemaReplaced):
            operation()
    assert raw(client, "select * from {schema}.data") == []


def test_a_writer_that_is_fenced_while_it_works_cannot_commit(client: StashClient, stash: Stash) -> None:
    attempts = []

    def body(transaction: StashTransaction) -> None:
        add_row(transaction)
        if not attempts:
            client.open(nothing)
        attempts.append(transaction)

    with pytest.raises(Fenced):
        stash.write(body)
    assert len(attempts) == 1
    assert raw(client, "select * from {schema}.data") == []


def test_a_failing_bootstrap_changes_nothing_and_fences_nobody(client: StashClient) -> None:
    def fail(transaction: StashTransaction) -> None:
        add_row(transaction)
        raise LookupError("cannot upgrade")

    with pytest.raises(LookupError):
        client.open(fail)
    assert client.fence() is None
    leader = client.open(add_row)[0]
    before = leader.confirm()
    with pytest.raises(LookupError):
        client.open(fail)
    assert leader.confirm() == before


def test_opening_alone_leaves_the_version_and_writing_raises_it_once(client: StashClient) -> None:
    stash = client.open(add_row)[0]
    assert stash.confirm().version == 1
    stash = client.open(nothing)[0]
    assert stash.confirm().version == 1
    stash.write(lambda t: (t.append([(ROW, -1)]), t.append([(Row("roles", b"", b""), 1)])))
    assert stash.confirm().version == 2
    stash.write(nothing)
    assert stash.confirm().version == 2


def test_a_token_goes_on_in_another_process_until_it_is_fenced(client: StashClient, stash: Stash) -> None:
    token = Token.from_json(stash.token.to_json())
    with client.resume(token) as resumed:
        resumed.write(add_row)
        assert stash.read(lambda t: t.get("items", b"key")) == b"value"
        client.open(nothing)
        with pytest.raises(Fenced):
            resumed.write(add_row)


def test_an_opener_takes_no_predicate_locks_however_much_it_reads_and_writes(client: ClosingClient) -> None:
    """A server has room for few of them; the upgrade of a large catalog would fill it."""
    mine = b"SELECT count(*) FROM pg_locks WHERE mode = 'SIReadLock' AND pid = pg_backend_pid()"

    def bootstrap(transaction: StashTransaction) -> tuple[int]:
        for name in ("items", "roles"):
            transaction.append((Row(name, b"%d" % n, b"value"), 1) for n in range(3000))
            assert sum(1 for _ in transaction.rows(name)) == 3000
        return tuple(transaction.execute(mine).fetchone())

    assert client.open(bootstrap)[1] == (0,)


@pytest.mark.row("M-10")
def test_the_epoch_goes_on_from_the_stored_one_after_a_kill(client: ClosingClient) -> None:
    program = (
        "import os, signal, sys, uuid; from hermit.stash import StashClient;"
        "client = StashClient(sys.stdin.read(), uuid.UUID(sys.argv[1]));"
        "stash, _ = client.open(lambda t: None, epoch_min=41);"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    command = [sys.executable, "-c", program, str(client.organization_id)]
    killed = subprocess.run(command, input=client.url, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert client.open(nothing)[0].epoch == 42


def test_a_handle_does_not_work_in_a_forked_process(client: ClosingClient) -> None:
    program = (
        "import os, sys, uuid; from hermit.stash import StashClient; from hermit.stash.errors import Closed\n"
        "client = StashClient(sys.stdin.read(), uuid.UUID(sys.argv[1]))\n"
        "stash, _ = client.open(lambda t: None)\n"
        "if os.fork():\n"
        "    status = os.waitstatus_to_exitcode(os.wait()[1])\n"
        "    stash.confirm(); stash.close(); sys.exit(status)\n"
        "try:\n"
        "    stash.confirm()\n"
        "except Closed:\n"
        "    os._exit(7)\n"
        "os._exit(1)\n"
    )
    command = [sys.executable, "-c", program, str(client.organization_id)]
    assert subprocess.run(command, input=client.url, text=True, check=False).returncode == 7


def test_nothing_can_be_opened_to_read_or_to_mend_before_the_first_open(client: StashClient) -> None:
    for opening in (client.open_read_only, client.open_debug):
        with pytest.raises(NotInitialized):
            opening()
    assert client.fence() is None


def test_two_organizations_in_one_database_do_not_see_each_other(
    connect: Callable[..., ClosingClient],
) -> None:
    one, two = (connect(organization=UUID(int=n)) for n in (1, 2))
    handle = one.open(add_row)[0]
    assert not two.is_initialized()
    two.open(nothing)
    assert handle.confirm().epoch == 1
    assert two.open_read_only().read(lambda t: t.collections()) == {}

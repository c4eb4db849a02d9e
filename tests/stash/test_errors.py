"""Each thing that can go wrong has a name, and what cannot heal is not tried again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from hermit.embedded.postgres import EmbeddedPostgres
from hermit.errors import Fenced, HermitError, ReadOnly, Unavailable
from hermit.rows import Row
from hermit.stash import RetryPolicy, Stash, StashClient, StashTransaction
from hermit.stash.consolidate import consolidate
from hermit.stash.errors import (
    ConnectionFailed,
    Contended,
    DiskFull,
    InvalidUrl,
    PermissionDenied,
    ReadOnlyRole,
    StatementTimeout,
)

from .conftest import ClosingClient, nothing, raw

A = Row("items", b"a", b"1")


class Counting:
    """A body that counts how often it ran."""

    def __init__(self, change: Row = A) -> None:
        self.change = change
        self.runs = 0

    def __call__(self, transaction: StashTransaction) -> None:
        self.runs += 1
        transaction.append([(self.change, 1)])


@pytest.mark.parametrize(
    "url",
    [
        "http://somewhere/catalog",
        "postgresql://u:hush@host/db?no_such_option=1",
        "host='unterminated",
        "just words",
    ],
)
def test_an_invalid_url_is_refused_when_the_client_is_made(
    url: str, connect: Callable[..., ClosingClient]
) -> None:
    with pytest.raises(InvalidUrl) as caught:
        connect(url)
    assert "hush" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_a_server_that_is_away_is_tried_again_within_bounds(connect: Callable[..., ClosingClient]) -> None:
    policy = RetryPolicy(attempts_max=4, delay_s_first=0.001)
    with pytest.raises(ConnectionFailed) as caught:
        connect("postgresql://127.0.0.1:1/db", retry=policy).fence()
    assert caught.value.facts["attempts"] == 4


def test_a_refused_connection_is_not_tried_again(
    postgres: EmbeddedPostgres, connect: Callable[..., ClosingClient]
) -> None:
    for url in (
        postgres.url("no_such_database"),
        make_conninfo(postgres.url(), user="nobody_at_all"),
        "service=no_such_service",
    ):
        with pytest.raises(ConnectionFailed) as caught:
            connect(url).is_initialized()
        assert caught.value.facts["attempts"] == 1


@pytest.fixture
def reader_url(client: ClosingClient, database_url: str) -> Iterator[str]:
    """A role that may read this organization's schema and nothing else."""
    client.open(Counting())
    role = f"reader_{client.schema[-12:]}"
    raw(client, f"create role {role} login")
    raw(client, f"grant usage on schema {{schema}} to {role}")
    raw(client, f"grant select on all tables in schema {{schema}} to {role}")
    yield make_conninfo(database_url, user=role)
    raw(client, f"drop owned by {role}")
    raw(client, f"drop role {role}")


def test_a_read_only_role_reads_and_is_told_that_it_cannot_write(
    client: ClosingClient, reader_url: str, connect: Callable[..., ClosingClient]
) -> None:
    limited = connect(reader_url)
    before = client.fence()
    reader = limited.open_read_only()
    assert reader.read(lambda t: list(t.rows("items"))) == [(b"a", b"1")]
    body = Counting()
    for operation in (
        lambda: limited.open(body),
        lambda: limited.resume(reader.token).write(body),
    ):
        with pytest.raises(ReadOnlyRole) as caught:
            operation()
        assert isinstance(caught.value, ReadOnly)
    assert body.runs <= 2
    assert client.fence() == before


def test_a_role_without_rights_is_told_so(
    client: ClosingClient, reader_url: str, connect: Callable[..., ClosingClient]
) -> None:
    raw(client, f"revoke all on all tables in schema {{schema}} from {make_user(reader_url)}")
    with pytest.raises(PermissionDenied) as caught:
        connect(reader_url).fence()
    assert not isinstance(caught.value, ReadOnlyRole)


def make_user(url: str) -> str:
    return str(psycopg.conninfo.conninfo_to_dict(url)["user"])


def test_a_server_that_only_reads_is_named(
    client: ClosingClient, database_url: str, connect: Callable[..., ClosingClient]
) -> None:
    """As a standby is, and as a role with this default is."""
    stash = client.open(Counting())[0]
    standby = connect(make_conninfo(database_url, options="-c default_transaction_read_only=on"))
    body = Counting()
    for operation in (lambda: standby.open(body), lambda: standby.resume(stash.token).write(body)):
        with pytest.raises(ReadOnlyRole):
            operation()
    assert standby.open_read_only().read(lambda t: list(t.rows("items"))) == [(b"a", b"1")]
    assert stash.confirm().version == 1


@pytest.mark.slow
def test_a_standby_is_read_and_named_when_it_shall_write(
    own_server: EmbeddedPostgres, connect: Callable[..., ClosingClient]
) -> None:
    client = connect(own_server.url())
    token = client.open(Counting())[0].token
    client.handles.close()
    own_server.stop()
    (own_server.data / "standby.signal").touch()
    own_server.start()
    body = Counting()
    for operation in (
        lambda: client.open(body),
        lambda: client.resume(token).write(body),
        lambda: consolidate(client.resume(token)),
        lambda: client.open_savepoint(body),
    ):
        with pytest.raises(ReadOnlyRole):
            operation()
    assert body.runs == 0
    assert client.open_read_only().read(lambda t: list(t.rows("items"))) == [(b"a", b"1")]


def test_a_statement_timeout_is_named_and_not_tried_again(
    client: ClosingClient, database_url: str, connect: Callable[..., ClosingClient]
) -> None:
    stash = client.open(Counting())[0]
    hasty = connect(make_conninfo(database_url, options="-c statement_timeout=200")).resume(stash.token)
    body = Counting()
    with psycopg.connect(database_url) as holder:
        holder.execute(f"lock table {client.schema}.data in access exclusive mode")
        with pytest.raises(StatementTimeout):
            hasty.write(body)
        with pytest.raises(StatementTimeout):
            hasty.read(lambda t: list(t.rows("items")))
    assert body.runs == 1
    assert stash.confirm().version == 1
    hasty.write(body)


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[EmbeddedPostgres]:
    server = EmbeddedPostgres(tmp_path / "pg", settings={"autovacuum": "off", "fsync": "off"})
    server.start()
    yield server
    server.release()


@pytest.mark.slow
def test_a_full_disk_is_named_and_leaves_nothing(
    own_server: EmbeddedPostgres, connect: Callable[..., ClosingClient]
) -> None:
    """The table's file is replaced by the device that is always full: no privilege, no tiny file system."""
    client = connect(own_server.url())
    stash = client.open(nothing)[0]
    stash.write(lambda t: t.seal("items", 1))
    # No process that has the file open is left.
    stash.close()
    ((path,),) = raw(client, f"select pg_relation_filepath('{client.schema}.data')")
    raw(client, "checkpoint")
    file = own_server.data / path
    file.unlink()
    file.symlink_to("/dev/full")
    full = client.resume(stash.token)
    body = Counting()
    with pytest.raises(DiskFull) as caught:
        full.write(body)
    assert isinstance(caught.value, Unavailable)
    assert body.runs == 1
    fence = full.confirm()
    assert fence.version == 1
    file.unlink()
    file.touch()
    full.close()
    again = client.resume(stash.token)
    again.write(body)
    assert again.read(lambda t: list(t.rows("items"))) == [(b"a", b"1")]


def test_conflicts_are_retried_until_both_writers_have_written(client: ClosingClient, stash: Stash) -> None:
    """Two handles with one token count up together; a lost update would show."""
    other = client.resume(stash.token)
    each = 25

    def count_up(transaction: StashTransaction) -> None:
        value = transaction.get("settings", b"count")
        changes = [(Row("settings", b"count", value), -1)] if value is not None else []
        transaction.append([*changes, (Row("settings", b"count", b"%d" % (int(value or 0) + 1)), 1)])

    def work(handle: Stash) -> None:
        for _ in range(each):
            handle.write(count_up)

    threads = [threading.Thread(target=work, args=[handle]) for handle in (stash, other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert stash.read(lambda t: t.get("settings", b"count")) == b"%d" % (2 * each)
    assert stash.confirm().version == 2 * each


@pytest.mark.parametrize(("at", "event"), [(12, "DEALLOCATE ALL"), (3, "PREPARE _pg3_0 AS SELECT 1")])
def test_a_pooler_that_changes_connections_under_prepared_statements_is_survived(
    stash: Stash, at: int, event: str
) -> None:
    """A pooler may hand a transaction to a connection without our statements, or with another's."""
    runs: list[int] = []

    def body(transaction: StashTransaction) -> None:
        runs.append(transaction.fence.version)
        transaction.append([(Row("items", b"%d" % transaction.fence.version, b""), 1)])
        if transaction.fence.version == at and runs.count(at) == 1:
            # Inside a block, so that psycopg does not notice.
            transaction.execute(f"DO $$ BEGIN EXECUTE '{event}'; END $$".encode())

    for _ in range(20):
        stash.write(body)
    assert len(runs) == 21
    assert stash.read(lambda t: sum(1 for _ in t.rows("items"))) == 20
    assert stash.confirm().version == 20


def test_conflicts_without_end_are_given_up_and_named(
    client: ClosingClient, stash: Stash, connect: Callable[..., ClosingClient]
) -> None:
    impatient = connect(retry=RetryPolicy(attempts_max=4, delay_s_first=0.001)).resume(stash.token)
    runs: list[int] = []

    def body(transaction: StashTransaction) -> None:
        runs.append(transaction.fence.version)
        transaction.append([(Row("mine", b"", b""), 1)])
        stash.write(lambda t: t.append([(A, 1)]))

    with pytest.raises(Contended):
        impatient.write(body)
    assert runs == [0, 1, 2, 3]
    assert stash.read(lambda t: "mine" in t.collections()) is False


def backend(stash: Stash) -> int:
    """The process of the server that serves this handle."""
    return int(stash.read(lambda t: t.execute(b"select pg_backend_pid()").fetchone())[0])


def test_a_connection_that_broke_between_transactions_is_replaced(
    client: ClosingClient, stash: Stash
) -> None:
    stash.write(Counting())
    for operation in (stash.confirm, lambda: stash.read(nothing), lambda: stash.write(Counting())):
        gone = backend(stash)
        raw(client, f"select pg_terminate_backend({gone}, 60000)")
        operation()
        assert backend(stash) != gone
    assert stash.confirm().version == 2


def test_a_connection_that_breaks_in_the_middle_runs_the_body_again(
    client: ClosingClient, stash: Stash
) -> None:
    runs: list[int] = []

    def body(transaction: StashTransaction) -> int:
        runs.append(transaction.fence.version)
        transaction.append((Row("items", b"%d" % n, b""), 1) for n in range(1000))
        ((pid,),) = transaction.execute(b"select pg_backend_pid()").fetchall()
        if len(runs) == 1:
            raw(client, f"select pg_terminate_backend({pid}, 60000)")
        return sum(1 for _ in transaction.rows("items"))

    assert stash.write(body) == 1000
    assert len(runs) == 2
    assert stash.read(lambda t: sum(1 for _ in t.rows("items"))) == 1000


def test_every_error_of_the_stash_is_in_the_one_tree() -> None:
    from hermit.stash import errors

    found = [value for value in vars(errors).values() if isinstance(value, type)]
    assert all(issubclass(value, HermitError) for value in found if value.__module__ == errors.__name__)
    assert issubclass(errors.SchemaReplaced, Fenced)


def test_a_client_connects_to_nothing_until_it_is_asked(organization_id: object) -> None:
    StashClient("postgresql://127.0.0.1:1/db", organization_id)  # type: ignore[arg-type]

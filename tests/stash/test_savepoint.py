"""A dry run: everything works in it, and nothing of it is ever seen."""

from __future__ import annotations

import pytest

from hermit.errors import Fenced, ReadOnly
from hermit.rows import Row
from hermit.stash import Stash, StashTransaction
from hermit.stash.bulk import create_side, digests, export, replace_from_side, sides
from hermit.stash.consolidate import Consolidation, consolidate

from .conftest import ClosingClient, nothing, raw

A, B = Row("items", b"a", b"1"), Row("items", b"b", b"2")


def pages(client: ClosingClient) -> list[tuple[object, ...]]:
    """What every stored row version is, and how large the files are: any write would show."""
    tables = raw(client, f"select tablename from pg_tables where schemaname = '{client.schema}'")
    versions = "select pg_relation_size(tableoid), ctid::text, xmin::text, xmax::text from {schema}."
    return [(name, raw(client, versions + name)) for (name,) in sorted(tables)]


@pytest.mark.row("D-12")
def test_a_dry_run_writes_no_byte_and_the_owner_stays(client: ClosingClient, stash: Stash) -> None:
    stash.write(lambda t: t.append([(A, 1)]))
    before, fence = pages(client), stash.confirm()
    dry, _ = client.open_savepoint(lambda t: t.append([(B, 1), (A, -1), (Row("new", b"", b""), 1)]))
    dry.write(lambda t: t.append((Row("items", b"%d" % n, b"x"), 1) for n in range(1000)))
    dry.write(lambda t: (t.seal("items", 9), t.compact("items", 4)))
    assert dry.read(lambda t: t.get("items", b"b")) == b"2"
    assert dry.read(lambda t: t.get("items", b"a")) is None
    assert dry.read(lambda t: sum(1 for _ in t.rows("items"))) == 1001
    assert dry.read(lambda t: (t.upper("items"), t.upper("new"))) == (9, 1)
    assert dry.epoch == stash.epoch
    dry.close()
    assert pages(client) == before
    assert stash.confirm() == fence


def test_a_dry_run_works_where_no_stash_is_and_leaves_none(client: ClosingClient) -> None:
    dry, result = client.open_savepoint(lambda t: (t.append([(A, 1)]), t.upper("items")))
    assert result == (None, 1)
    assert dry.read(lambda t: list(t.rows("items"))) == [(b"a", b"1")]
    assert dry.read(lambda t: t.since("items")) == 0
    dry.close()
    assert client.fence() is None
    assert raw(client, "select 1 from pg_namespace where nspname like 'hermit%'") == []


def test_a_dry_run_keeps_no_opener_and_no_writer_waiting(client: ClosingClient) -> None:
    """In one thread: whoever waited for the dry run would wait for ever."""
    dry, _ = client.open_savepoint(lambda t: t.append([(A, 1)]))
    stash = client.open(lambda t: t.append([(A, 1)]))[0]
    again, _ = client.open_savepoint(lambda t: t.append([(A, -1), (Row("roles", b"", b""), 1)]))
    stash.write(lambda t: t.append([(A, -1), (Row("roles", b"", b""), 1)]))
    consolidate(stash)
    assert again.read(lambda t: t.collections().keys()) == {"items", "roles"}
    with pytest.raises(Fenced):
        dry.read(nothing)


def test_a_dry_run_sees_its_snapshot_and_fails_once_the_epoch_moved(
    client: ClosingClient, stash: Stash
) -> None:
    dry, _ = client.open_savepoint(nothing)
    stash.write(lambda t: t.append([(A, 1)]))
    assert dry.read(lambda t: list(t.rows("items"))) == []
    client.open(nothing)
    for operation in (dry.confirm, lambda: dry.read(nothing), lambda: dry.write(nothing)):
        with pytest.raises(Fenced):
            operation()


def test_a_body_that_raises_undoes_only_itself(client: ClosingClient, stash: Stash) -> None:
    dry, _ = client.open_savepoint(lambda t: t.append([(A, 1)]))

    def fail(transaction: StashTransaction) -> None:
        transaction.append((Row("items", b"%d" % n, b""), 1) for n in range(1000))
        raise LookupError

    with pytest.raises(LookupError):
        dry.write(fail)
    assert dry.read(lambda t: (list(t.rows("items")), t.upper("items"))) == ([(b"a", b"1")], 1)


def test_what_would_be_kept_is_refused(client: ClosingClient, stash: Stash) -> None:
    stash.write(lambda t: t.append([(A, 1)]))
    dry, _ = client.open_savepoint(lambda t: t.append([(B, 1)]))
    for operation in (
        lambda: create_side(dry, "x"),
        lambda: replace_from_side(dry, "x", config={}),
        lambda: export(dry, 1).__enter__(),
    ):
        with pytest.raises(ReadOnly):
            operation()
    assert consolidate(dry) == Consolidation()
    assert digests(dry) != digests(stash)
    assert dry.read(lambda t: len(list(t.rows("items")))) == 2
    assert sides(client) == []


def test_a_failing_bootstrap_ends_the_dry_run(client: ClosingClient) -> None:
    def fail(transaction: StashTransaction) -> None:
        raise LookupError

    with pytest.raises(LookupError):
        client.open_savepoint(fail)

"""Consolidation: no sum changes, nothing is done twice, and the cost follows what changed."""

from __future__ import annotations

import random
import threading
from uuid import UUID

import pytest

from hermit.errors import Fenced, ReadOnly
from hermit.rows import Row
from hermit.rows import consolidate as consolidated
from hermit.stash import Stash, StashTransaction
from hermit.stash import consolidate as module
from hermit.stash.consolidate import Consolidation, consolidate

from .conftest import ClosingClient, nothing, raw


def churn(transaction: StashTransaction, generator: random.Random, keys: int) -> None:
    """Insert, replace or delete a few of `keys` keys."""
    changes = []
    for number in generator.sample(range(keys), 3):
        key = b"%d" % number
        value = transaction.get("items", key)
        if value is not None:
            changes.append((Row("items", key, value), -1))
        if value is None or generator.random() < 0.6:
            changes.append((Row("items", key, generator.randbytes(5)), 1))
    transaction.append(changes)


def test_what_cancels_out_is_removed_and_running_again_does_nothing(
    client: ClosingClient, stash: Stash
) -> None:
    generator = random.Random(1)
    for _ in range(60):
        stash.write(lambda t: churn(t, generator, 20))
    updates = stash.read(lambda t: list(t.updates("items")))
    live, fence = stash.read(lambda t: sorted(t.rows("items"))), stash.confirm()
    done = consolidate(stash)
    assert done.removed > 0
    assert len(updates) - done.removed + done.added == len(live)
    assert stash.read(lambda t: sorted(t.rows("items"))) == live
    assert set(consolidated(updates)) == {Row("items", *pair) for pair in live}
    assert raw(client, "select distinct diff from {schema}.data") == [(1,)]
    assert consolidate(stash) == Consolidation()
    assert stash.confirm() == fence


def test_history_that_was_not_given_up_is_kept(stash: Stash) -> None:
    a = Row("items", b"a", b"1")
    stash.write(lambda t: t.append([(a, 1)]))
    stash.write(lambda t: t.append([(a, -1)]))
    stash.write(lambda t: t.append([(Row("items", b"b", b"2"), 1)]))
    assert consolidate(stash, keep_history=True) == Consolidation()
    stash.write(lambda t: t.compact("items", 1))
    assert stash.read(lambda t: list(t.rows("items", as_of=1))) == []
    assert consolidate(stash, keep_history=True) == Consolidation(removed=2)
    assert stash.read(lambda t: list(t.rows("items", as_of=1))) == []
    assert stash.read(lambda t: len(list(t.rows("items")))) == 1


def test_only_the_collections_asked_for_are_merged(stash: Stash) -> None:
    for name in ("items", "roles"):
        stash.write(lambda t, name=name: t.append([(Row(name, b"", b""), 1)]))
        stash.write(lambda t, name=name: t.append([(Row(name, b"", b""), -1)]))
    assert consolidate(stash, ["roles"]) == Consolidation(removed=2)
    assert len(stash.read(lambda t: list(t.updates("items")))) == 2


def test_multiplicities_survive_and_a_dangling_retraction_stays(stash: Stash) -> None:
    a, b = Row("items", b"a", b""), Row("items", b"b", b"")
    stash.write(lambda t: t.append([(a, 3), (b, -2)]))
    consolidate(stash)
    updates = stash.read(lambda t: sorted((u.key, u.diff) for u in t.updates("items")))
    assert updates == [(b"a", 1), (b"a", 1), (b"a", 1), (b"b", -2)]
    stash.write(lambda t: t.append([(b, 2)]))
    consolidate(stash)
    assert stash.read(lambda t: list(t.rows("items"))) == [(b"a", b"")] * 3


def test_a_fenced_handle_and_a_reader_may_not_consolidate(client: ClosingClient, stash: Stash) -> None:
    with pytest.raises(ReadOnly):
        consolidate(client.open_read_only())
    client.open(nothing)
    with pytest.raises(Fenced):
        consolidate(stash)


@pytest.mark.slow
def test_it_runs_beside_a_writer_and_beside_itself(client: ClosingClient, stash: Stash) -> None:
    generator, expected = random.Random(2), {}
    stop = threading.Event()
    failures: list[BaseException] = []

    def keep_consolidating(handle: Stash) -> None:
        try:
            while not stop.is_set():
                consolidate(handle)
        except BaseException as error:
            failures.append(error)

    helpers = [
        threading.Thread(target=keep_consolidating, args=[client.resume(stash.token)]) for _ in range(2)
    ]
    for helper in helpers:
        helper.start()
    for number in range(400):
        key, value = b"%d" % generator.randrange(10), b"%d" % number

        def replace(transaction: StashTransaction, key: bytes = key, value: bytes = value) -> None:
            old = transaction.get("items", key)
            retracted = [] if old is None else [(Row("items", key, old), -1)]
            transaction.append([*retracted, (Row("items", key, value), 1)])

        stash.write(replace)
        expected[key] = value
    stop.set()
    for helper in helpers:
        helper.join(60)
    assert failures == []
    consolidate(stash)
    assert dict(stash.read(lambda t: list(t.rows("items")))) == expected
    assert stash.read(lambda t: len(list(t.updates("items")))) == len(expected)
    assert stash.confirm().version == 400


@pytest.mark.slow
def test_200000_rows_are_pruned_and_consolidated(client: ClosingClient, stash: Stash) -> None:
    def rows(first: int, last: int) -> list[Row]:
        return [Row("storage_usage", b"%09d" % n, b"usage" * 10) for n in range(first, last)]

    stash.write(lambda t: t.append((row, 1) for row in rows(0, 200_100)))
    stash.write(lambda t: t.append((row, -1) for row in rows(0, 200_000)))
    assert stash.read(lambda t: sum(1 for _ in t.rows("storage_usage"))) == 100
    assert consolidate(stash) == Consolidation(removed=400_000)
    assert stash.read(lambda t: sum(1 for _ in t.rows("storage_usage"))) == 100
    assert raw(client, "select count(*) from {schema}.data") == [(100,)]
    assert consolidate(stash) == Consolidation()


@pytest.mark.slow
def test_the_cost_follows_what_changed_and_not_what_is_stored(client: ClosingClient, stash: Stash) -> None:
    """Measured in pages that the server touches, which a busy machine does not change."""

    def retract(first: int) -> int:
        gone = [Row("items", b"%09d" % n, b"value") for n in range(first, first + 50)]
        stash.write(lambda t: t.append((row, -1) for row in gone))
        assert consolidate(stash) == Consolidation(removed=100)
        stash.write(lambda t: t.append((row, 1) for row in gone))
        stash.write(lambda t: t.append((row, -1) for row in gone))
        return stash.beside(lambda connection, row: pages_touched(stash, connection, row))

    def pages_touched(stash: Stash, connection: object, row: object) -> int:
        plan = explain(stash, connection, row)
        return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])

    touched = []
    for size in (2_000, 200_000):
        first = (touched and 2_000) or 0
        stash.write(
            lambda t, f=first, s=size: t.append(
                (Row("items", b"%09d" % n, b"value"), 1) for n in range(f, f + s)
            )
        )
        raw(client, "vacuum analyze {schema}.data")
        touched.append(retract(first + 500))
    assert touched[1] < 2 * touched[0]


def explain(stash: Stash, connection: object, row: object) -> dict[str, int]:
    statement = module.merge_statement(stash.schema, row.heap)  # type: ignore[attr-defined]
    number = stash_collection(connection, stash)
    found = connection.execute(  # type: ignore[attr-defined]
        b"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + statement,
        [number, 2**62, module.BATCH_ROWS, number, 2**62, number, 2**62],
    ).fetchone()
    return dict(found[0][0]["Plan"])


def stash_collection(connection: object, stash: Stash) -> int:
    found = connection.execute(f"select collection_id from {stash.schema}.collections").fetchone()  # type: ignore[attr-defined]
    return int(found[0])


def test_an_organization_is_not_touched_by_another_ones_consolidation(
    client: ClosingClient, stash: Stash, connect: object
) -> None:
    other = connect(organization=UUID(int=7)).open(nothing)[0]  # type: ignore[operator]
    for handle in (stash, other):
        handle.write(lambda t: t.append([(Row("items", b"", b""), 1)]))
        handle.write(lambda t: t.append([(Row("items", b"", b""), -1)]))
    consolidate(stash)
    assert len(other.read(lambda t: list(t.updates("items")))) == 2

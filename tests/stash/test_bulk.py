"""Bulk: out under one snapshot, in beside the contents, and the cut-over."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from uuid import UUID

import psycopg
import pyarrow as pa
import pytest

from hermit.digest import digest_rows
from hermit.errors import CorruptData, Fenced, InvalidInput, NotInitialized
from hermit.formats import config
from hermit.rows import Row
from hermit.stash import Stash, StashTransaction
from hermit.stash.bulk import (
    Export,
    create_side,
    digests,
    drop_side,
    export,
    prepare_side,
    read_range,
    replace_from_side,
    seal_side,
    sides,
    write_side,
)
from hermit.stash.errors import ExportGone, SideMissing, SideSealed, ValueTooLarge

from .conftest import ClosingClient, nothing, raw

SCHEMA = pa.schema([("collection_id", pa.int64()), ("key", pa.binary()), ("value", pa.binary())])


def entry(key: str, value: int) -> Row:
    return Row("config", config.encode_key(key), config.encode_value(value))


def items(first: int, last: int) -> list[Row]:
    return [Row("items", b"%06d" % n, b"value %d" % n) for n in range(first, last)]


def fill(stash: Stash, rows: Iterable[Row]) -> None:
    stash.write(lambda t: t.append((row, 1) for row in rows))


def reader(ids: dict[str, int], rows: Iterable[Row]) -> pa.RecordBatchReader:
    found = list(rows)
    columns = [[ids[r.collection] for r in found], [r.key for r in found], [r.value for r in found]]
    return pa.Table.from_arrays(
        [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    ).to_reader()


def contents(stash: Stash) -> set[Row]:
    def body(transaction: StashTransaction) -> set[Row]:
        return {Row(name, *pair) for name in transaction.collections() for pair in transaction.rows(name)}

    return stash.read(body)


def exported(url: str, found: Export) -> list[Row]:
    return [
        Row(found.collections[part["collection_id"]], part["key"], part["value"])
        for low, high in found.ranges
        for part in read_range(url, found, low, high, batch_rows=100).read_all().to_pylist()
    ]


def test_parts_are_one_snapshot_whatever_is_written_meanwhile(stash: Stash, database_url: str) -> None:
    fill(stash, items(0, 3000))
    stash.write(lambda t: t.append([(row, -1) for row in items(0, 10)]))
    before = contents(stash)
    with export(stash, 4) as found:
        assert len(found.ranges) == 4
        fill(stash, items(5000, 5100))
        stash.write(lambda t: t.append([(row, -1) for row in items(100, 200)]))
        rows = exported(database_url, found)
        assert found.version == 2
    assert len(rows) == len(before)
    assert set(rows) == before


def test_another_process_reads_a_part_from_the_description_alone(stash: Stash, database_url: str) -> None:
    fill(stash, items(0, 500))
    program = (
        "import sys; from hermit.stash.bulk import Export, read_range;"
        "found = Export.from_json(sys.argv[1]); url = sys.stdin.read();"
        "print(sum(read_range(url, found, *part).read_all().num_rows for part in found.ranges))"
    )
    with export(stash, 3) as found:
        assert pickle.loads(pickle.dumps(found)) == Export.from_json(found.to_json()) == found
        result = subprocess.run(
            [sys.executable, "-c", program, found.to_json()],
            input=database_url,
            capture_output=True,
            text=True,
            check=True,
        )
    assert result.stdout == "500\n"


def test_batches_are_of_the_size_asked_for_and_an_empty_stash_has_no_parts(
    stash: Stash, database_url: str
) -> None:
    with export(stash, 4) as found:
        assert found.ranges == []
    fill(stash, items(0, 1000))
    with export(stash, 1) as found:
        ((low, high),) = found.ranges
        sizes = [batch.num_rows for batch in read_range(database_url, found, low, high, batch_rows=300)]
    assert sizes == [300, 300, 300, 100]


def test_a_part_cannot_be_read_after_the_export_ended(stash: Stash, database_url: str) -> None:
    fill(stash, items(0, 10))
    with export(stash, 1) as found:
        pass
    with pytest.raises(ExportGone):
        read_range(database_url, found, 0, 1).read_all()


def test_an_export_locks_nothing_that_other_databases_share(stash: Stash, client: ClosingClient) -> None:
    fill(stash, items(0, 5))
    with export(stash, 1):
        found = raw(
            client,
            "select relation::regclass::text from pg_locks join pg_stat_activity using (pid)"
            " where datname = current_database() and locktype = 'relation' and database = 0"
            " and pid <> pg_backend_pid()",
        )
    assert found == []


def test_a_fenced_handle_exports_nothing(stash: Stash, client: ClosingClient) -> None:
    client.open(nothing)
    with pytest.raises(Fenced), export(stash, 1):
        pass


@pytest.mark.row("M-29")
def test_a_side_replaces_the_contents_and_what_is_not_in_it_is_gone(
    stash: Stash, client: ClosingClient, database_url: str, organization_id: UUID
) -> None:
    fill(stash, [*items(0, 50), entry("tombstone", 1), entry("user_version", 15), Row("roles", b"r", b"")])
    fence = stash.confirm()
    new = [*items(40, 90), entry("user_version", 16), Row("update_log", b"1", b"")]
    ids = create_side(stash, "back", ["update_log"])
    assert write_side(database_url, organization_id, "back", reader(ids, new)) == len(new)
    assert digests(stash, side="back") == digest_rows(new)
    assert contents(stash) >= set(items(0, 50))
    replace_from_side(stash, "back", config={"tombstone": 0})
    assert contents(stash) == {*new, entry("tombstone", 0)}
    assert digests(stash) == digest_rows(new)
    assert client.config() == {"tombstone": 0, "user_version": 16}
    after = stash.confirm()
    assert (after.epoch, after.nonce, after.version) == (fence.epoch, fence.nonce, fence.version + 1)
    assert sides(client) == []


def test_frontiers_go_on_and_later_changes_count(
    stash: Stash, database_url: str, organization_id: UUID
) -> None:
    fill(stash, items(0, 5))
    fill(stash, items(5, 6))
    ids = create_side(stash, "x")
    write_side(database_url, organization_id, "x", reader(ids, items(3, 9)))
    replace_from_side(stash, "x", config={})
    assert stash.read(lambda t: (t.since("items"), t.upper("items"))) == (2, 3)
    stash.write(lambda t: t.append([(items(3, 4)[0], -1), (items(9, 10)[0], 1)], lower=3))
    assert contents(stash) == set(items(4, 10))
    assert stash.read(lambda t: sum(1 for _ in t.rows("items", as_of=2))) == 6


@pytest.mark.parametrize(
    ("stored", "forced", "expected"),
    [
        (None, {}, None),
        (1, {}, 1),
        (0, {}, 0),
        (1, {"tombstone": 0}, 0),
        (None, {"tombstone": 0}, 0),
        (1, {"tombstone": None}, None),
    ],
)
def test_the_own_tombstone_is_kept_unless_it_is_forced(
    stash: Stash,
    client: ClosingClient,
    database_url: str,
    organization_id: UUID,
    stored: int | None,
    forced: dict[str, int | None],
    expected: int | None,
) -> None:
    fill(stash, [entry("user_version", 15)])
    if stored is not None:
        fill(stash, [entry("tombstone", stored)])
    ids = create_side(stash, "x")
    # A foreign tombstone that slipped into a side is not taken over either.
    strange = [entry("user_version", 16), entry("tombstone", 7)]
    write_side(database_url, organization_id, "x", reader(ids, strange))
    replace_from_side(stash, "x", config=forced)
    assert client.config().get("tombstone") == expected
    assert client.config()["user_version"] == 16


def test_the_new_contents_have_their_indexes(stash: Stash, client: ClosingClient) -> None:
    def indexes() -> list[tuple[Any, ...]]:
        return raw(
            client,
            "select regexp_replace(indexdef, '^.* USING', '') from pg_indexes"
            f" where schemaname = '{client.schema}' and tablename = (select heap from {{schema}}.fence)"
            " order by 1",
        )

    before = indexes()
    assert len(before) == 3
    create_side(stash, "x")
    replace_from_side(stash, "x", config={})
    assert indexes() == before


# What this transaction itself did to the contents and to the control tables, in rows. No other
# transaction is counted, and neither is what the server does by itself.
_ROWS_TOUCHED = b"""
SELECT sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0) + n_tup_ins + n_tup_upd + n_tup_del)::bigint
FROM pg_stat_xact_user_tables
"""
_FLUSH_STATISTICS = b"SELECT pg_stat_force_next_flush()"
_OWN_LOG_BYTES = b"SELECT wal_bytes::bigint FROM pg_stat_get_backend_wal(pg_backend_pid())"


def log_bytes(stash: Stash) -> int:
    """How much the connection of this handle, and no other, has written to the server's log."""
    stash.read(lambda t: t.execute(_FLUSH_STATISTICS))
    return int(stash.read(lambda t: t.execute(_OWN_LOG_BYTES).fetchone())[0])


@pytest.mark.slow
def test_the_cut_over_does_the_same_work_for_few_rows_and_for_many(
    stash: Stash, database_url: str, organization_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    touched: list[int] = []
    written: list[int] = []
    write = stash.write

    def counted(body: Callable[[StashTransaction], None]) -> None:
        def watched(transaction: StashTransaction) -> int:
            body(transaction)
            return int(transaction.execute(_ROWS_TOUCHED).fetchone()[0])

        touched.append(write(watched))

    for rows in (10, 100_000):
        ids = create_side(stash, "x", ["items"])
        write_side(database_url, organization_id, "x", reader(ids, items(0, rows)))
        prepare_side(stash, "x")
        before = log_bytes(stash)
        with monkeypatch.context() as patch:
            patch.setattr(stash, "write", counted)
            replace_from_side(stash, "x", config={"tombstone": 0})
        written.append(log_bytes(stash) - before)
    # A few rows more or less is the planner's choice; a pass over the contents would be 100,000.
    assert len(touched) == 2
    assert touched[1] < touched[0] + 1000
    # The log of a pass would be several MB; a page or two may be logged again after a checkpoint.
    assert written[1] < written[0] + 1024 * 1024
    assert written[0] > 0


def test_a_part_is_written_once_however_often_its_task_runs(
    stash: Stash, database_url: str, organization_id: UUID
) -> None:
    ids = create_side(stash, "x", ["items"])
    for _ in range(3):
        assert write_side(database_url, organization_id, "x", reader(ids, items(0, 7)), part="one") == 7
    assert write_side(database_url, organization_id, "x", reader(ids, items(7, 9)), part="two") == 2
    assert digests(stash, side="x") == digest_rows(items(0, 9))


def test_a_part_that_failed_half_way_leaves_nothing_and_can_run_again(
    stash: Stash, database_url: str, organization_id: UUID
) -> None:
    ids = create_side(stash, "x", ["items"])

    def broken() -> Iterator[pa.RecordBatch]:
        yield from reader(ids, items(0, 5))
        yield from reader(ids, [Row("items", b"large", bytes(16 * 1024 * 1024))])

    with pytest.raises(ValueTooLarge):
        write_side(
            database_url,
            organization_id,
            "x",
            pa.RecordBatchReader.from_batches(SCHEMA, broken()),
            part="one",
        )
    assert write_side(database_url, organization_id, "x", reader(ids, items(0, 5)), part="one") == 5
    assert digests(stash, side="x") == digest_rows(items(0, 5))


def test_a_task_that_was_believed_dead_cannot_add_to_a_side_that_was_verified(
    stash: Stash, database_url: str, organization_id: UUID
) -> None:
    ids = create_side(stash, "x", ["items"])
    resume, started, outcome = threading.Event(), threading.Event(), []

    def slow() -> Iterator[pa.RecordBatch]:
        started.set()
        assert resume.wait(30)
        yield from reader(ids, items(0, 5))

    def zombie() -> None:
        outcome.append(
            write_side(database_url, organization_id, "x", pa.RecordBatchReader.from_batches(SCHEMA, slow()))
        )

    writing = threading.Thread(target=zombie)
    writing.start()
    assert started.wait(30)
    # Sealing waits for the task that is under way: what is verified includes what it adds.
    verified: list[Any] = []
    verifying = threading.Thread(target=lambda: verified.append(digests(stash, side="x")))
    verifying.start()
    resume.set()
    writing.join(30)
    verifying.join(30)
    assert outcome == [5]
    assert verified == [digest_rows(items(0, 5))]
    with pytest.raises(SideSealed):
        write_side(database_url, organization_id, "x", reader(ids, items(5, 6)))


def test_sides_are_listed_and_dropped(
    stash: Stash, client: ClosingClient, connect: Any, database_url: str
) -> None:
    create_side(stash, "one")
    create_side(stash, "two")
    assert sides(client) == ["one", "two"]
    drop_side(stash, "one")
    drop_side(stash, "never_made")
    assert sides(client) == ["two"]
    create_side(stash, "two")
    assert sides(client) == ["two"]
    assert sides(connect(organization=UUID(int=3))) == []


def test_contents_that_a_crash_left_behind_after_a_cut_over_are_dropped(
    stash: Stash, client: ClosingClient, database_url: str
) -> None:
    fill(stash, items(0, 5))
    create_side(stash, "x")
    with psycopg.connect(database_url) as holder:
        # Somebody still reads the old contents, so that they cannot be dropped at once.
        holder.execute(f"select * from {client.schema}.data")
        replace_from_side(stash, "x", config={})
        assert contents(stash) == set()
    tables = "select count(*) from pg_tables where schemaname = '{}' and tablename = 'data'"
    assert raw(client, tables.format(client.schema)) == [(1,)]
    create_side(stash, "y")
    assert raw(client, tables.format(client.schema)) == [(0,)]


def test_a_reader_that_began_before_the_cut_over_is_not_torn(stash: Stash, client: ClosingClient) -> None:
    fill(stash, items(0, 5))
    old = client.open_read_only()
    create_side(stash, "x")
    runs: list[int] = []

    def body(transaction: StashTransaction) -> tuple[int, int]:
        runs.append(transaction.fence.version)
        if len(runs) == 1:
            replace_from_side(stash, "x", config={})
        return transaction.fence.version, sum(1 for _ in transaction.rows("items"))

    assert old.read(body) == (2, 0)
    assert runs == [1, 2]


def test_wrong_sides_are_refused(
    stash: Stash, client: ClosingClient, database_url: str, organization_id: UUID
) -> None:
    fill(stash, items(0, 5))
    for name in ("", "parts", "Upper", "a-b", 'x"; drop schema public'):
        with pytest.raises(InvalidInput):
            create_side(stash, name)
    for operation in (
        lambda: replace_from_side(stash, "missing", config={}),
        lambda: digests(stash, side="missing"),
        lambda: seal_side(stash, "missing"),
        lambda: write_side(database_url, organization_id, "missing", reader({}, [])),
        lambda: write_side(database_url, UUID(int=5), "missing", reader({}, [])),
    ):
        with pytest.raises(SideMissing):
            operation()
    create_side(stash, "x")
    write_side(database_url, organization_id, "x", reader({"ghosts": 999}, [Row("ghosts", b"", b"")]))
    with pytest.raises(CorruptData):
        replace_from_side(stash, "x", config={})
    assert contents(stash) == set(items(0, 5))


def test_a_fenced_handle_replaces_nothing(stash: Stash, client: ClosingClient) -> None:
    fill(stash, items(0, 5))
    create_side(stash, "x")
    owner = client.open(nothing)[0]
    for operation in (
        lambda: replace_from_side(stash, "x", config={}),
        lambda: create_side(stash, "y"),
        lambda: drop_side(stash, "x"),
    ):
        with pytest.raises(Fenced):
            operation()
    assert contents(owner) == set(items(0, 5))
    assert sides(client) == ["x"]


def test_digests_are_those_of_the_live_rows_without_the_tombstone(stash: Stash) -> None:
    fill(stash, [*items(0, 10), entry("tombstone", 1), entry("user_version", 15)])
    stash.write(lambda t: t.append([(items(0, 1)[0], -1)]))
    assert digests(stash) == digest_rows([*items(1, 10), entry("user_version", 15)])


def test_there_are_no_sides_where_there_is_no_stash(connect: Callable[..., ClosingClient]) -> None:
    client = connect()
    assert sides(client) == []
    with pytest.raises(NotInitialized):
        client.open_read_only()

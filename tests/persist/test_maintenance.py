"""Maintenance: few files, folded history, nothing deleted that anybody needs, a cost that does not grow."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable
from pathlib import Path
from time import time_ns
from typing import Any

import pyarrow as pa
import pytest

from hermit.errors import InvalidInput
from hermit.persist import PersistClient, State, compaction
from hermit.persist.appender import Appender
from hermit.persist.batch import BatchWriter, list_staged
from hermit.persist.commit import DataFile
from hermit.persist.errors import FilesVacuumed, UpperMismatch
from hermit.persist.files import records_of, table_of
from hermit.persist.reader import Reader
from hermit.persist.storage.local import local_storage
from hermit.persist.storage.open import open_storage
from hermit.persist.table import HISTORY_MIN_S, Table
from hermit.persist.vacuum import LOG_RETENTION_S, vacuum

DAY_MS = int(HISTORY_MIN_S * 1000)


def time_ms() -> int:
    return time_ns() // 1_000_000


def append(client: PersistClient, time: int, *, rows: int = 1, since: int | None = None) -> State:
    return client.compare_and_append(
        {"a": [(b"%d-%d" % (time, row), b"v", time, 1) for row in range(rows)]},
        expected={"a": time},
        new_upper={"a": time + 1},
        since=None if since is None else {"a": since},
    )


def test_live_files_and_log_reads_stay_few_however_many_commits_there_were(tmp_path: Path) -> None:
    client = PersistClient.open(tmp_path / "location")
    for time in range(400):
        append(client, time, since=time)
    assert len(client.files()) < 2 * compaction.FILES_MAX
    opener = PersistClient.open(tmp_path / "location", mode="ro")
    opener.state()
    assert opener.metrics["log_reads"] <= 51  # a checkpoint and what came after it
    assert len(list(opener.snapshot(["a"]))) == 400


def test_a_merge_takes_small_files_and_leaves_large_ones(tmp_path: Path) -> None:
    def file(number: int, size: int) -> DataFile:
        return DataFile(f"data/{number:032x}-a-{number:032x}.parquet", "a", 1, size)

    small = [file(number, 1000) for number in range(40)]
    large = [file(100 + number, 64 << 20) for number in range(40)]
    state = State(version=1, live={f.path: f for f in [*small, *large]}, frontiers={})
    (merge,) = compaction.plan(state, ["a"])
    assert set(merge.inputs) == set(small)
    assert compaction.plan(State(version=1, live={f.path: f for f in [*small[:5], *large]}), ["a"]) == []
    assert compaction.plan(state, ["b"]) == []


def test_folding_sums_up_history_and_keeps_later_times(tmp_path: Path) -> None:
    client = PersistClient.open(tmp_path / "location")
    client.compare_and_append(
        {"a": [(b"k", b"1", 0, 1), (b"k", b"1", 2, -1), (b"k", b"2", 2, 1), (b"k", b"2", 5, -1)]},
        expected={"a": 0},
        new_upper={"a": 6},
        since={"a": 3},
    )
    state = client.compact()
    assert sorted((file.rows, file.time_min, file.time_max) for file in state.files()) == [
        (1, 3, 3),
        (1, 5, 5),
    ]
    assert list(client.snapshot(["a"], 4)) == [("a", b"k", b"2", 1)]
    assert list(client.snapshot(["a"], 5)) == []
    assert client.compact() == state  # nothing is left to do


def test_a_fold_gives_what_summing_by_hand_gives(tmp_path: Path) -> None:
    rows = [
        (b"%d" % (number % 7), b"%d" % (number % 3), number % 11, (-1) ** (number % 5))
        for number in range(500)
    ]
    sums: dict[tuple[bytes, bytes, int], int] = {}
    for key, value, time, diff in rows:
        at = (key, value, max(time, 6))
        sums[at] = sums.get(at, 0) + diff
    expected = [(*at, diff) for at, diff in sorted(sums.items()) if diff]
    parts = [list(records_of(part)) for part in compaction.fold(table_of(rows), 6)]
    assert parts[0] == [record for record in expected if record[2] <= 6]
    assert parts[1] == [record for record in expected if record[2] > 6]


def test_a_compaction_beside_a_writer_loses_neither(tmp_path: Path) -> None:
    client = PersistClient.open(tmp_path / "location", maintain=False)
    for time in range(3):
        append(client, time)
    merges = compaction.plan_all(client.state(), ["a"])
    append(PersistClient.open(tmp_path / "location", maintain=False), 3)
    compactor = client._maintenance._compactor()
    merged = compactor.run(client.location, merges)
    assert merged is not None
    assert len(merged.files()) == 3  # since 0: time 0 on its own, later times, and the newcomer
    assert len(list(client.snapshot(["a"]))) == 4
    assert compactor.run(client.location, merges) is None  # its inputs are gone
    assert len(list(client.snapshot(["a"]))) == 4


def test_a_vacuum_keeps_what_was_removed_recently(tmp_path: Path) -> None:
    now_ms = [10 * DAY_MS]
    client = PersistClient.open(tmp_path / "location", maintain=False, now_ms=lambda: now_ms[0])
    for time in range(3):
        append(client, time, since=time)
    for path in (tmp_path / "location" / "data").iterdir():
        os.utime(path, (1, 1))
    before = client.state().files()
    client.compact()
    assert client.vacuum().files == []  # removed just now: a reader of the version before may be at them
    now_ms[0] += DAY_MS + 1
    assert sorted(client.vacuum(dry_run=True).files) == sorted(file.path for file in before)
    assert sorted(client.vacuum().files) == sorted(file.path for file in before)
    assert client.vacuum().files == []
    assert len(list(PersistClient.open(tmp_path / "location").snapshot(["a"]))) == 3


def test_a_vacuum_spares_files_on_their_way_and_staged_batches(tmp_path: Path) -> None:
    client = PersistClient.open(tmp_path / "location", maintain=False)
    append(client, 0)
    (tmp_path / "location" / "data" / "on-its-way.parquet").write_bytes(b"")
    writer = BatchWriter(client.location, "staged")
    writer.write("a", pa.record_batch({"key": [b"k"], "value": [b"v"]}))
    writer.finish()
    assert client.vacuum().files == []
    client.vacuum(retention_s=0)
    assert list(list_staged(client.location)) == ["staged"]


class Meanwhile(Table):
    """A table beside which something happens at the very moment that somebody has read its state."""

    def __init__(self, client: PersistClient, happens: Callable[[], object]) -> None:
        super().__init__(open_storage(client.location))
        self._happens = happens

    def refresh(self) -> State:
        state = super().refresh()
        self._happens()
        return state


def test_a_vacuum_spares_what_is_committed_while_it_looks_around(tmp_path: Path) -> None:
    """Begun and done right after the state was read."""
    client = PersistClient.open(tmp_path / "location", maintain=False)
    append(client, 0)
    meanwhile = Meanwhile(client, lambda: append(client, 1))
    assert vacuum(meanwhile, time_ms() + DAY_MS, retention_s=0).files == []
    assert len(list(client.snapshot(["a"]))) == 2


def test_a_vacuum_spares_what_was_begun_before_it_and_committed_while_it_looks_around(tmp_path: Path) -> None:
    client = PersistClient.open(tmp_path / "location", maintain=False)
    for at in range(3):
        append(client, at, since=at)
    storage = open_storage(client.location)
    begun, committed = threading.Event(), threading.Event()

    class Slow(Appender):
        def replace_files(self, removes: Any, adds: Any) -> Any:
            begun.set()
            assert committed.wait(60)
            return super().replace_files(removes, adds)

    table = Table(storage)
    compactor = compaction.Compactor(
        Reader(table, storage.blob), Slow(table, storage.blob, time_ms), storage.blob
    )
    merge = threading.Thread(
        target=compactor.run, args=(client.location, compaction.plan_all(client.state(), ["a"]))
    )
    merge.start()
    assert begun.wait(60)

    def happens() -> None:
        committed.set()
        merge.join()

    done = vacuum(Meanwhile(client, happens), time_ms() + DAY_MS, retention_s=0)
    reader = PersistClient.open(tmp_path / "location", mode="ro", cache_bytes=0)
    assert len(list(reader.snapshot(["a"]))) == 3
    assert done.files == []


def test_a_reader_in_this_process_is_not_disturbed_by_a_vacuum(tmp_path: Path) -> None:
    writer = PersistClient.open(tmp_path / "location", maintain=False)
    for time in range(3):
        rows = [(b"%d" % time, b"v", time, 1)]
        writer.compare_and_append(
            {"a": rows, "b": rows}, expected={"a": time, "b": time}, new_upper={"a": time + 1, "b": time + 1}
        )
    reader = PersistClient.open(tmp_path / "location", mode="ro", cache_bytes=0)
    reading = reader.snapshot(["a", "b"])
    assert next(reading)[0] == "a"
    writer.compact()
    assert writer.vacuum(retention_s=0).files == []
    assert len(list(reading)) == 5
    assert len(writer.vacuum(retention_s=0).files) == 6


def test_a_reader_of_vacuumed_files_starts_again_from_the_latest_state(tmp_path: Path) -> None:
    writer = PersistClient.open(tmp_path / "location", maintain=False)
    for time in range(3):
        append(writer, time)
    reader = PersistClient.open(tmp_path / "location", mode="ro", cache_bytes=0)
    reader.state()
    writer.compact()
    writer.vacuum(retention_s=0)
    assert len(list(reader.snapshot(["a"], 2))) == 3
    reader = PersistClient.open(tmp_path / "location", mode="ro", cache_bytes=0)
    old = reader.state().files()[0]
    append(writer, 3)
    writer.compact()
    writer.vacuum(retention_s=0)
    with pytest.raises(FilesVacuumed):
        reader._reader.load(old)


def test_old_log_entries_go_oldest_first_and_the_location_still_opens(tmp_path: Path) -> None:
    client = PersistClient.open(tmp_path / "location")
    for time in range(60):
        append(client, time, since=time)
    storage = local_storage(tmp_path / "location")
    log = tmp_path / "location" / "_delta_log"
    now_ms = max(int(path.stat().st_mtime_ns // 1_000_000) for path in log.iterdir())
    with pytest.raises(InvalidInput):
        vacuum(Table(storage), now_ms, log_retention_s=60)
    done = vacuum(Table(storage), now_ms + int(LOG_RETENTION_S * 1000) + 1)
    assert done.log_entries == 50
    assert sorted(path.name for path in log.glob("*.json"))[0] == f"{50:020d}.json"
    opener = PersistClient.open(tmp_path / "location")
    assert opener.state() == client.state()
    append(opener, 60)
    assert len(list(opener.snapshot(["a"]))) == 61


def test_a_handle_that_slept_through_a_log_cleaning_neither_leads_nor_commits(tmp_path: Path) -> None:
    sleeper = PersistClient.open(tmp_path / "location", maintain=False)
    slept_at = append(sleeper, 0)
    other = PersistClient.open(tmp_path / "location")
    for time in range(1, 60):
        append(other, time, since=time)
    storage = local_storage(tmp_path / "location")
    for version in range(51):
        storage.log.delete(version)
    # The entry after the sleeper's own is gone, and with it the evidence. Its own is gone as well.
    with pytest.raises(UpperMismatch):
        append(sleeper, 1)
    assert sleeper.state().upper("a") == 60
    assert not storage.log.exists(1)
    late = PersistClient.open(tmp_path / "location", maintain=False)
    late._table._state = slept_at
    late._table._confirmed_s = -math.inf
    assert not late.is_current(slept_at.version)
    assert late.state().upper("a") == 60


def test_a_vacuum_of_nothing_does_nothing(tmp_path: Path) -> None:
    assert PersistClient.open(tmp_path / "none").vacuum(retention_s=0).files == []
    assert not (tmp_path / "none").exists()

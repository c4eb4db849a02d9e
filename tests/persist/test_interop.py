"""A location is a plain Delta table: `deltalake` and Spark read the same rows, and disturb nobody."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from hermit.persist import PersistClient, State, checkpoint
from hermit.persist.batch import BatchWriter
from hermit.persist.files import records_of
from hermit.persist.frontier import TIME_MAX
from hermit.persist.storage.local import local_storage

Row = tuple[str, bytes, bytes, int, int]


def fill(location: str, commits: int) -> State:
    """Everything that a location can hold: appends, a replacing batch, merges, checkpoints, odd names."""
    client = PersistClient.open(location)
    names = ("a", "ü/b %=")
    for time in range(commits):
        rows = [(b"%d" % time, b"v", time, 1)]
        client.compare_and_append(
            dict.fromkeys(names, rows),
            expected=dict.fromkeys(names, time),
            new_upper=dict.fromkeys(names, time + 1),
            since={"a": time},
        )
    writer = BatchWriter(location, "batch")
    writer.write("a", pa.record_batch({"key": [b"x", b"y"], "value": [b"1", b""]}))
    version = client.state().version
    client.replace_with_batch(
        writer.finish(), collections=["a"], version=version, new_upper={"a": commits + 1}
    )
    return client.compare_and_append(
        {"a": [(b"x", b"1", commits + 1, -1), (b"huge", b"", TIME_MAX, -(1 << 62))]},
        expected={"a": commits + 1},
        new_upper={"a": 1 << 64},
    )


def stored(location: str, state: State) -> list[Row]:
    """All updates as they are stored, read by hermit."""
    reader = PersistClient.open(location, mode="ro")._reader
    return sorted(
        (file.collection, key, value, time - (1 << 64) if time >= 1 << 63 else time, diff)
        for file in state.files()
        for key, value, time, diff in records_of(reader.load(file))
    )


def read_deltalake(location: str, version: int | None = None) -> list[Row]:
    rows = DeltaTable(location, version=version).to_pyarrow_table().to_pylist()
    return sorted((r["collection"], r["key"], r["value"], r["time"], r["diff"]) for r in rows)


def read_spark(spark: Any, location: str, version: int | None = None) -> list[Row]:
    reader = spark.read.format("delta")
    if version is not None:
        reader = reader.option("versionAsOf", version)
    return sorted(
        (r.collection, bytes(r.key), bytes(r.value), r.time, r.diff) for r in reader.load(location).collect()
    )


def names_in(location: str) -> set[str]:
    return {str(path.relative_to(location)) for path in Path(location).rglob("*") if path.is_file()}


def test_plain_deltalake_reads_the_same_rows_and_frontiers(tmp_path: Path) -> None:
    location = str(tmp_path / "location")
    state = fill(location, 70)
    before = names_in(location)
    assert read_deltalake(location) == stored(location, state)
    table = DeltaTable(location)
    assert table.version() == state.version
    assert table.transaction_version("a/since") == 70
    assert table.transaction_version("ü/b %=/upper") == 70
    assert [entry["operation"] for entry in table.history(1)] == ["WRITE"]
    assert names_in(location) == before


def test_plain_deltalake_opens_from_our_checkpoint_when_older_entries_are_gone(tmp_path: Path) -> None:
    location = str(tmp_path / "location")
    state = fill(location, 70)
    log = local_storage(location).log
    for version in range(50):
        log.delete(version)
    assert read_deltalake(location) == stored(location, state)


def test_a_checkpoint_keeps_the_tombstones_of_the_last_hour(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    now_ms = [10_000_000_000]
    client = PersistClient.open(tmp_path / "location", now_ms=lambda: now_ms[0])

    def commit_and_compact(times: range) -> dict[str, int]:
        for time in times:
            client.compare_and_append(
                {"a": [(b"%d" % time, b"v", time, 1)]}, expected={"a": time}, new_upper={"a": time + 1}
            )
        state = client.compact()
        key = f"_delta_log/{state.version:020d}.checkpoint.parquet"
        rows = pq.ParquetFile(tmp_path / "location" / key).read(["remove"])["remove"].to_pylist()
        return {row["path"]: row["deletionTimestamp"] for row in rows if row}

    first = commit_and_compact(range(3))
    assert set(first.values()) == {now_ms[0]}
    assert len(first) == 3
    now_ms[0] += 3_000_000
    second = commit_and_compact(range(3, 5))
    assert len(second) == 3 + 4
    assert first.items() <= second.items()
    now_ms[0] += 3_000_000
    third = commit_and_compact(range(5, 7))
    assert not set(first) & set(third)
    assert set(second) - set(first) <= set(third)


def test_tombstones_of_a_busy_hour_do_not_make_checkpoints_grow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyarrow.parquet as pq

    monkeypatch.setattr(checkpoint, "TOMBSTONES_MAX", 40)
    client = PersistClient.open(tmp_path / "location")
    for time in range(100):
        client.compare_and_append(
            {"a": [(b"%d" % time, b"v", time, 1)]}, expected={"a": time}, new_upper={"a": time + 1}
        )
    path = max((tmp_path / "location" / "_delta_log").glob("*.checkpoint.parquet"))
    removed = [row for row in pq.ParquetFile(path).read(["remove"])["remove"].to_pylist() if row]
    assert len(removed) == 40
    stored = sorted(key for _, key, _, _ in client.snapshot(["a"]))
    assert stored == sorted(b"%d" % time for time in range(100))
    assert sorted(DeltaTable(str(tmp_path / "location")).to_pyarrow_table()["key"].to_pylist()) == stored


def test_a_reader_of_an_older_version_sees_what_was_there(tmp_path: Path) -> None:
    location = str(tmp_path / "location")
    fill(location, 3)
    assert read_deltalake(location, 1) == [
        (name, b"%d" % time, b"v", time, 1) for name in ("a", "ü/b %=") for time in range(2)
    ]


@pytest.mark.spark
@pytest.mark.slow
def test_plain_delta_spark_reads_the_same_rows_and_disturbs_no_writer(tmp_path: Path, spark: Any) -> None:
    location = str(tmp_path / "location")
    state = fill(location, 70)
    before = names_in(location)
    assert read_spark(spark, location) == stored(location, state)
    assert names_in(location) == before
    client = PersistClient.open(location)
    for upper in range(70, 73):
        client.compare_and_append(
            {"ü/b %=": [(b"more", b"", upper, 1)]},
            expected={"ü/b %=": upper},
            new_upper={"ü/b %=": upper + 1},
        )
        assert read_spark(spark, location) == read_deltalake(location)
    assert read_spark(spark, location, state.version) == stored(location, state)
    for path in Path(location, "_delta_log").iterdir():
        os.utime(path, (1_600_000_000, 1_600_000_000))
    spark.catalog.clearCache()
    latest = client.state()  # however old it is
    assert read_spark(spark, location, latest.version) == stored(location, latest)
    log = local_storage(location).log
    for version in range(50):
        log.delete(version)
    spark.catalog.clearCache()
    assert read_spark(spark, location) == stored(location, client.state())

"""The PySpark data source: batch and streaming; and compaction by Spark."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException

from hermit.persist import PersistClient
from hermit.persist.batch import BatchWriter
from hermit.persist.compaction import plan_all

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def append(location: str, time: int, *rows: tuple[bytes, int], since: int | None = None) -> None:
    PersistClient.open(location, maintain=False).compare_and_append(
        {"a": [(key, b"v", time, diff) for key, diff in rows]},
        expected={"a": time},
        new_upper={"a": time + 1},
        since=None if since is None else {"a": since},
    )


def load(spark: Any, location: str, **options: object) -> list[tuple[str, bytes, bytes, int, int]]:
    frame = spark.read.format("hermit_persist").options(location=location, **options).load()
    return sorted((r.collection, bytes(r.key), bytes(r.value), r.time, r.diff) for r in frame.collect())


def test_a_batch_is_the_contents_at_a_time(tmp_path: Path, spark: Any) -> None:
    location = str(tmp_path / "location")
    append(location, 0, (b"1", 1), (b"2", 1))
    append(location, 1, (b"1", -1), (b"3", 2))
    assert load(spark, location, collection="a", as_of=0) == [
        ("a", b"1", b"v", 0, 1),
        ("a", b"2", b"v", 0, 1),
    ]
    assert load(spark, location, collection="a") == [("a", b"2", b"v", 1, 1), ("a", b"3", b"v", 1, 2)]
    for wrong in ({"as_of": 2, "collection": "a"}, {"collection": ""}):
        with pytest.raises(Exception, match=r"not sealed yet|needs the option"):
            load(spark, location, **wrong)


def test_a_consolidated_batch_is_read_by_one_task_per_file(tmp_path: Path, spark: Any) -> None:
    location = str(tmp_path / "location")
    writer = BatchWriter(location, "batch", file_bytes=1)
    for number in range(3):
        rows = [b"%d-%d" % (number, row) for row in range(5)]
        writer.write("a", pa.record_batch({"key": rows, "value": rows}))
    client = PersistClient.open(location)
    client.replace_with_batch(writer.finish(), collections=["a", "b"], version=-1, new_upper={"a": 1, "b": 1})
    frame = spark.read.format("hermit_persist").options(location=location, collection="a,b").load()
    assert frame.rdd.getNumPartitions() == 3
    assert {bytes(row.key) for row in frame.collect()} == {key for _, key, _, _ in client.snapshot(["a"])}


def run_stream(
    spark: Any, location: str, checkpoint: Path, **options: object
) -> list[tuple[bytes, int, int]]:
    """Everything that a streaming query delivers until it has ended.

    Spark gives a Python process ten seconds to start, which a busy machine may exceed; like anybody who runs
    such a query, start it again at its checkpoint.
    """
    got: list[tuple[bytes, int, int]] = []

    def take(frame: Any, batch: int) -> None:
        got.extend((bytes(row.key), row.time, row.diff) for row in frame.collect())

    frame = spark.readStream.format("hermit_persist")
    frame = frame.options(location=location, collection="a", **options).load()
    stream = (
        frame.writeStream.foreachBatch(take)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
    )
    while True:
        try:
            stream.start().awaitTermination()
            break
        except StreamingQueryException as error:
            if "failed to connect back" not in str(error):
                raise
    return sorted(got, key=lambda row: (row[1], row[0]))


@pytest.mark.row("P-21")
@pytest.mark.row("P-22")
@pytest.mark.row("P-23")
def test_a_stream_goes_on_at_its_checkpoint_without_loss_or_repetition(tmp_path: Path, spark: Any) -> None:
    location, checkpoint = str(tmp_path / "location"), tmp_path / "checkpoint"
    append(location, 0, (b"0", 1))
    append(location, 1, (b"1", 1))
    assert run_stream(spark, location, checkpoint, as_of=0) == [(b"0", 0, 1), (b"1", 1, 1)]
    assert run_stream(spark, location, checkpoint, as_of=0) == []
    for time in range(2, 6):
        append(location, time, (b"%d" % time, 1), (b"%d" % (time - 1), -1), since=0)
    PersistClient.open(location).compact()
    PersistClient.open(location).vacuum(retention_s=0)
    assert run_stream(spark, location, checkpoint, as_of=0) == [
        row for time in range(2, 6) for row in ((b"%d" % (time - 1), time, -1), (b"%d" % time, time, 1))
    ]
    append(location, 6, since=6)
    with pytest.raises(Exception, match="steps were compacted away"):
        run_stream(spark, location, checkpoint, as_of=0)


def compact_job() -> ModuleType:
    path = Path(__file__).parents[2] / "spark_jobs" / "persist_compact.py"
    spec = importlib.util.spec_from_file_location("persist_compact", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_spark_folds_history_and_changes_no_contents(
    tmp_path: Path, spark: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    location = str(tmp_path / "location")
    for time in range(6):
        append(location, time, (b"%d" % time, 1), (b"%d" % (time - 2), -1), since=max(time - 2, 0))
    client = PersistClient.open(location, maintain=False)
    before = [sorted(client.snapshot(["a"], time)) for time in (3, 4, 5)]
    compact_job().main(location, [])
    state = client.state()
    assert [sorted(client.snapshot(["a"], time)) for time in (3, 4, 5)] == before
    assert {(file.time_min, file.time_max) for file in state.files()} == {(3, 3), (4, 5)}
    assert plan_all(state, ["a"]) == []
    assert "6 files became" in capsys.readouterr().out

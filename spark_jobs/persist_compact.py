"""Folds the history of a large location with Spark: the same compaction as in process, spread over a cluster.

    spark-submit persist_compact.py LOCATION [COLLECTION …]

Executors read and verify the files, a shuffle brings equal rows together, executors write the sums as a
batch, and one commit puts it in the place of its inputs. Writers go on meanwhile; if one replaces the
inputs in the meantime, the result is dropped and nothing has changed.
"""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from hermit.errors import HermitError
from hermit.persist import PersistClient, arrays
from hermit.persist.batch import BatchWriter, read_file
from hermit.persist.commit import DataFile
from hermit.persist.compaction import Merge, plan_all
from hermit.persist.files import SCHEMA
from hermit.persist.frontier import TIME_MAX

_UPDATES = "key binary, value binary, time long, diff long"


def main(location: str, names: list[str]) -> None:
    """Fold these collections, or all."""
    spark = SparkSession.builder.getOrCreate()
    with PersistClient.open(location) as client:
        state = client.state()
        for merge in plan_all(state, names or sorted(state.frontiers)):
            outputs = fold(spark, client.location, merge)
            done = client.replace_files(merge.inputs, outputs)
            what = f"{len(outputs)} files" if done else "nothing: somebody else was quicker"
            print(f"{merge.collection}: {len(merge.inputs)} files became {what}", flush=True)


def fold(spark: SparkSession, location: str, merge: Merge) -> list[DataFile]:
    """The files that hold the same contents, folded up to since."""
    batch = uuid.uuid4().hex
    inputs = [(json.dumps(file.to_json()),) for file in merge.inputs]
    frame = spark.createDataFrame(
        spark.sparkContext.parallelize(inputs, len(inputs)), "file string"
    ).mapInArrow(_reader(location, merge.since), _UPDATES)
    sums = frame.groupBy("key", "value", "time").agg(f.sum("diff").alias("diff")).where("diff != 0")
    written = sums.mapInArrow(_writer(location, batch, merge.collection, merge.since), "file string")
    return [DataFile.from_json(json.loads(row.file)) for row in written.collect()]


def _reader(location: str, since: int) -> Any:
    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow.compute as pc

        bound = arrays.time_scalar(min(since, TIME_MAX))
        for batch in batches:
            for text in batch.column(0).to_pylist():
                table = read_file(location, DataFile.from_json(json.loads(text))).combine_chunks()
                times = pc.max_element_wise(table["time"].combine_chunks().view(pa.uint64()), bound)
                columns = [table["key"], table["value"], times.view(pa.int64()), table["diff"]]
                yield from pa.table(columns, schema=SCHEMA).to_batches(max_chunksize=65536)

    return read


def _writer(location: str, batch: str, collection: str, since: int) -> Any:
    """Times up to since, and later ones, go to two batches: the rows of the first are distinct."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow.compute as pc

        bound = arrays.time_scalar(min(since, TIME_MAX))
        with (
            BatchWriter(location, f"{batch}-past") as past,
            BatchWriter(location, f"{batch}-later") as later,
        ):
            for updates in batches:
                is_past = pc.less_equal(updates.column("time").view(pa.uint64()), bound)
                columns = [updates.column(name) for name in SCHEMA.names]
                rows = pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
                past.write_updates(collection, rows.filter(is_past))
                later.write_updates(collection, rows.filter(pc.invert(is_past)))
            staged = [*past.finish(), *later.finish()]
        texts = [json.dumps(file.to_json()) for file in staged]
        yield pa.RecordBatch.from_arrays([arrays.strings(texts)], names=["file"])

    return write


if __name__ == "__main__":
    try:
        main(sys.argv[1], sys.argv[2:])
    except HermitError as error:
        sys.exit(f"hermit: {error}")

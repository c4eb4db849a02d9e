"""Stages a snapshot of the source of a move: the one Spark job of a run.

The request is the only argument, as JSON; the stash's URL, which may hold a password, is in the
environment, and goes to executors inside the serialized task, which neither Spark's UI nor its logs show.
The job checks the run's fencing token before it reads and before it leaves its manifest, which is its last
act, and changes nothing that anybody reads. Spark schedules, retries and scales the partitions; the rows go
from COPY to Parquet, or back, as Arrow batches inside the Python workers, and never enter the JVM. A
small catalog is staged by threads of the driver, sooner than a first task would have started.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from hermit.errors import HermitError
from hermit.identity import parse_organization_id
from hermit.migration import dry_run, staging, steps
from hermit.migration.failpoints import fail_point
from hermit.migration.job import read_request, take_stash_url
from hermit.migration.manifest import Manifest, Manifests
from hermit.migration.move import Fencing
from hermit.migration.protocol import Direction
from hermit.migration.stores import Stores, connect_at
from hermit.migration.throttle import Limits
from hermit.migration.work import Task


def main(request: dict[str, Any]) -> None:
    """Stage what the request names, and leave its manifest."""
    stash_url = take_stash_url()
    stores = connect_at(stash_url, request["location"], parse_organization_id(request["organization_id"]))
    fencing = Fencing.from_json(request["fencing"])
    direction, batch = Direction(request["direction"]), request["batch"]
    started = time.monotonic()
    if "scratch" in request:
        version, part = _stage_dry_run(stores, direction, request["scratch"], batch)
    else:
        with stores.resumed(fencing) as (stash, persist):
            workers = _workers(Limits.parse(request))
            staging.sweep(stores, stash, batch)
            if direction is Direction.MIGRATE:
                version, part = staging.stage_stash(stores, stash, batch, workers)
            else:
                version, part = staging.stage_shard(stores, stash, persist, batch, workers)
        steps.confirm(stores, fencing)
    manifest = Manifest(
        batch=batch,
        direction=direction,
        source_version=version,
        digests=part.read,
        staged_digests=part.staged,
        files=part.files,
        rows=part.rows,
        bytes=part.bytes,
        seconds=time.monotonic() - started,
        rows_reused=part.reused,
    )
    Manifests(request.get("scratch", stores.location)).write(manifest)
    fail_point("snapshot.noted")
    _say(f"staged {part.rows} rows, {part.bytes} bytes in {manifest.seconds:.1f} s")


def _workers(limits: Limits) -> staging.Workers:
    """Spark's executors. The session starts when the first partitions are handed to it."""

    def context() -> Any:
        from pyspark.sql import SparkSession

        return SparkSession.builder.getOrCreate().sparkContext

    def run(function: Callable[[Task], staging.Part], items: Sequence[Task]) -> list[staging.Part]:
        found: list[staging.Part] = context().parallelize(items, len(items)).map(function).collect()
        return found

    return staging.Workers(run, lambda: int(context().defaultParallelism), limits, _say)


def _say(line: str) -> None:
    print(line, flush=True)


def _stage_dry_run(
    stores: Stores, direction: Direction, scratch: str, batch: str
) -> tuple[int, staging.Part]:
    """One process: what a savepoint holds is in its memory, where no executor can read it."""
    with dry_run.source(stores, direction.source) as source:
        return source.content_version(), staging.stage_rows(scratch, batch, source.snapshot())


if __name__ == "__main__":
    try:
        main(read_request(sys.argv[1:], "organization_id", "location", "fencing", "direction", "batch"))
    except HermitError as error:
        sys.exit(f"hermit: {error}")

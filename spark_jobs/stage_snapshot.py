"""Stages a snapshot of the source of a move: the one Spark job of a run.

The request is the only argument, as JSON; the stash's URL, which may hold a password, is in the
environment. The job checks the run's fencing token before it reads, leaves a manifest as its last act,
and changes nothing that anybody reads. Spark schedules, retries and scales the partitions; the rows go
from COPY to Parquet, or back, as Arrow batches inside the Python workers, and never enter the JVM.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import SparkSession

from hermit.errors import HermitError
from hermit.identity import parse_organization_id
from hermit.migration import dry_run, staging
from hermit.migration.manifest import Manifest, Manifests
from hermit.migration.move import Fencing
from hermit.migration.protocol import Direction
from hermit.migration.stores import Stores, connect_at

_STASH_URL_VARIABLE = "HERMIT_JOB_STASH_URL"


def main(request: dict[str, Any]) -> None:
    """Stage what the request names, and leave its manifest."""
    stash_url = os.environ.pop(_STASH_URL_VARIABLE)
    stores = connect_at(stash_url, request["location"], parse_organization_id(request["organization_id"]))
    fencing = Fencing.from_json(request["fencing"])
    direction = Direction(request["direction"])
    spark = SparkSession.builder.getOrCreate()

    def run(function: Callable[[Any], staging.Part], items: Sequence[Any]) -> list[staging.Part]:
        return spark.sparkContext.parallelize(items, max(len(items), 1)).map(function).collect()

    started = time.monotonic()
    if "scratch" in request:
        version, part = _stage_dry_run(stores, direction, request["scratch"], request["batch"])
    else:
        with stores.resumed(fencing) as (stash, persist):
            partitions = 2 * spark.sparkContext.defaultParallelism
            if direction is Direction.MIGRATE:
                version, part = staging.stage_stash(stores, stash, request["batch"], partitions, run)
            else:
                version, part = staging.stage_shard(stores, stash, persist, request["batch"], partitions, run)
    manifest = Manifest(
        batch=request["batch"],
        direction=direction,
        source_version=version,
        digests=part.read,
        staged_digests=part.staged,
        files=part.files,
        rows=part.rows,
        bytes=part.bytes,
        seconds=time.monotonic() - started,
    )
    Manifests(request.get("scratch", stores.location)).write(manifest)
    print(f"staged {part.rows} rows, {part.bytes} bytes in {manifest.seconds:.1f} s", flush=True)


def _stage_dry_run(
    stores: Stores, direction: Direction, scratch: str, batch: str
) -> tuple[int, staging.Part]:
    """One process: what a savepoint holds is in its memory, where no executor can read it."""
    with dry_run.source(stores, direction.source) as source:
        return source.content_version(), staging.stage_rows(scratch, batch, source.snapshot())


if __name__ == "__main__":
    try:
        main(json.loads(sys.argv[1]))
    except HermitError as error:
        sys.exit(f"hermit: {error}")

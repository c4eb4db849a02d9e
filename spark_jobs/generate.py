"""Fills an empty stash with a generated catalog, in partitions: the same that `./hermit generate` makes.

    HERMIT_JOB_STASH_URL=… spark-submit generate.py '{"organization_id": "…", "objects": 1000000, "seed": 1}'

Also in the request, if wanted: `format_version`, and `like`, metrics as `./hermit status --json` prints them.
The same request gives the same catalog, row by row, on any cluster, and from `./hermit generate` with the
same options. A stash that holds a catalog is refused and left as it is.

Rows are made inside the Python workers, go to COPY a batch at a time, and never enter the JVM. A task that
runs twice, by retry or speculation, adds nothing twice. Until the last partition is there, the stash holds
no catalog. One small partition is made here in the driver. The stash's URL, which may hold a password, goes
to executors inside the serialized task, as in `stage_snapshot.py`.
"""

from __future__ import annotations

import sys
from typing import Any

from hermit.errors import HermitError
from hermit.formats.generate import Recipe
from hermit.formats.versions import STASH_VERSION
from hermit.identity import parse_organization_id
from hermit.migration.executors import on_spark
from hermit.migration.generating import generate
from hermit.migration.job import read_request, take_stash_url
from hermit.stash import StashClient


def main(request: dict[str, Any]) -> None:
    """Make the catalog that the request describes."""
    stash_url = take_stash_url()
    organization_id = parse_organization_id(request["organization_id"])
    recipe = Recipe(
        request.get("objects"),
        request.get("seed", 1),
        request.get("format_version", STASH_VERSION),
        request.get("like"),
    )
    rows = generate(StashClient(stash_url, organization_id), recipe, on_spark(_context, request, _say))
    _say(f"wrote {rows:,} rows of format version {recipe.version} to the stash of {organization_id}")


def _context() -> Any:
    from pyspark.sql import SparkSession

    return SparkSession.builder.getOrCreate().sparkContext


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    try:
        main(read_request(sys.argv[1:], "organization_id"))
    except HermitError as error:
        sys.exit(f"hermit: {error}")

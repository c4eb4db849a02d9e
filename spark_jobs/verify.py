"""Compares both stores of a catalog, in partitions: equal, or which collections are not.

    HERMIT_JOB_STASH_URL=… spark-submit verify.py '{"organization_id": "…", "location": "…"}'

`location` is that of the shard. The report is the last line of the output, as JSON: rows and digest of each
collection on both sides, and the content versions that were read. The exit code says it in short:

    0   both sides are equal
    1   they differ
    2   a side changed while it was read: the comparison means nothing, run it again when nobody writes
    3   it could not be found out

The job fences nobody and writes nothing. Rows are read and digested inside the Python workers, a batch at a
time, and never enter the JVM. A catalog of one small partition a side is read here in the driver. The stash's
URL, which may hold a password, goes to executors inside the serialized task, as in `stage_snapshot.py`.
"""

from __future__ import annotations

import json
import sys
import traceback
from typing import Any

from hermit.errors import HermitError
from hermit.identity import parse_organization_id
from hermit.migration.executors import on_spark
from hermit.migration.job import read_request, take_stash_url
from hermit.migration.stores import connect_at
from hermit.migration.verifying import FAILED, verify


def main(request: dict[str, Any]) -> int:
    """Compare what the request names, and print what was found; gives the exit code."""
    stash_url = take_stash_url()
    stores = connect_at(stash_url, request["location"], parse_organization_id(request["organization_id"]))
    found = verify(stores, on_spark(_context, request, _say))
    for store in found.moved:
        _say(f"the {store} changed while it was read")
    # On one line: under spark-submit, whatever else is said goes to the same stream.
    print(json.dumps(found.to_json()), flush=True)
    return found.exit_code


def _context() -> Any:
    from pyspark.sql import SparkSession

    return SparkSession.builder.getOrCreate().sparkContext


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        code = main(read_request(sys.argv[1:], "organization_id", "location"))
    except HermitError as error:
        _say(f"hermit: {error}")
        code = FAILED
    except Exception:
        # Python's own code for this is 1, which says here that both sides were read, and differ.
        traceback.print_exc()
        code = FAILED
    sys.exit(code)

"""Work of other processes, for tests that kill or race them. Nothing here imports pytest.

Children report through files, which survive their being killed.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any, NamedTuple

import hermit.persist.compaction
import hermit.persist.vacuum  # noqa: F401
from hermit.persist import PersistClient
from hermit.persist.errors import CommitConflict, UpperMismatch
from hermit.persist.failpoints import fail_point

PAIR = ("a", "b")
_DAYS_MS = 40 * 24 * 3600 * 1000


class Reports:
    """A file to which a child appends lines, each in one call."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)

    def send(self, value: Any) -> None:
        os.write(self._file, json.dumps(value).encode() + b"\n")


def read_reports(path: str | Path) -> list[Any]:
    """What a child reported, up to where it was killed."""
    if not Path(path).exists():
        return []
    return [json.loads(line) for line in Path(path).read_text().splitlines(keepends=True) if line[-1] == "\n"]


def append_for_ever(location: str, reports: str) -> None:
    """Append the next number to two collections, for ever, reporting each one that was acknowledged."""
    acknowledged = Reports(reports)
    client = PersistClient.open(location)
    upper = client.state().upper("a")
    while True:
        rows = [(b"%d" % upper, b"v", upper, 1)]
        client.compare_and_append(
            dict.fromkeys(PAIR, rows),
            expected=dict.fromkeys(PAIR, upper),
            new_upper=dict.fromkeys(PAIR, upper + 1),
            since=dict.fromkeys(PAIR, upper),
        )
        upper += 1
        acknowledged.send(upper)


def write_for_ever(location: str, reports: str) -> None:
    """The same through the runtime, with everything else that writes: lock, merges, checkpoints, vacuum.

    Its clock is far in the future, so that a vacuum finds log entries old enough to go.
    """
    acknowledged = Reports(reports)
    client = PersistClient.open(
        location, reentrance_id="writer", now_ms=lambda: time.time_ns() // 1_000_000 + _DAYS_MS
    )
    multi = client.multi_write_handle([client.create_or_load(name)[0] for name in PAIR])
    upper = client.state().upper("a")
    while True:
        futures = []
        for _ in range(4):
            rows = [((b"%d" % upper, b"v"), upper, 1)]
            upper += 1
            futures.append((upper, multi.write_and_seal(dict.fromkeys(PAIR, rows), upper)))
        for number, future in futures:
            future.result()
            acknowledged.send(number)
        if upper % 16 == 0:
            client.vacuum(retention_s=0)


def write_and_die(location: str, reports: str, point: str, passes: int) -> None:
    """Write until the fail point kills this process."""
    fail_point.arm(point, passes)
    write_for_ever(location, reports)


class Won(NamedTuple):
    """One successful append of a racer: what it wrote, and when it began and ended."""

    time: int
    key: str
    began_s: float
    ended_s: float


def race(location: str, reports: str, number: int, attempts: int, racers: int) -> None:
    """Try to append; report every attempt as a success with its time or a failure with its key."""
    results = Reports(reports)
    client = PersistClient.open(location)
    results.send("ready")
    while sum(1 for path in Path(reports).parent.glob("racer-*")) < racers:
        time.sleep(0.001)  # everybody begins together
    for attempt in range(attempts):
        key = f"{number}-{attempt}"
        began_s = time.monotonic()
        upper = client.state().upper("a")
        try:
            client.compare_and_append(
                {"a": [(key.encode(), b"", upper, 1)]}, expected={"a": upper}, new_upper={"a": upper + 1}
            )
            results.send(["won", upper, key, began_s, time.monotonic()])
        except (UpperMismatch, CommitConflict):
            results.send(["lost", key])

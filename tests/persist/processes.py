"""Work of other processes, for tests that kill or race them. Nothing here imports pytest.

`Nursery` runs this module as a program that has the heavy imports done and forks a child for each request, so
that hundreds of them are affordable. Children report through files, which survive their being killed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from hermit.persist import PersistClient, failpoints
from hermit.persist.errors import CommitConflict, UpperMismatch

PAIR = ("a", "b")
_DAYS_MS = 40 * 24 * 3600 * 1000


class Nursery:
    """Starts children and waits for them."""

    def __init__(self) -> None:
        self._server = subprocess.Popen(
            [sys.executable, "-m", "tests.persist.processes"],
            cwd=Path(__file__).parents[2],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(
        self, target: Callable[..., None], *args: Any, environment: dict[str, str] | None = None
    ) -> int:
        """Run a function of this module in a child; its process ID."""
        return self._ask(start=target.__name__, args=args, environment=environment or {})

    def wait(self, pid: int) -> int:
        """The exit code of a child, negative if a signal ended it."""
        return self._ask(wait=pid)

    def stop(self) -> None:
        for pipe in (self._server.stdin, self._server.stdout):
            if pipe is not None:
                pipe.close()
        self._server.wait()

    def _ask(self, **request: Any) -> int:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        return int(self._server.stdout.readline())


def serve() -> None:
    """Fork a child for each request on standard input."""
    import hermit.persist.compaction
    import hermit.persist.vacuum  # noqa: F401

    for line in sys.stdin:
        request = json.loads(line)
        if "wait" in request:
            answer = os.waitstatus_to_exitcode(os.waitpid(request["wait"], 0)[1])
        else:
            answer = os.fork()
            if answer == 0:
                _child(request)
        print(answer, flush=True)


def _child(request: dict[str, Any]) -> None:
    code = 1
    try:
        os.environ.update(request["environment"])
        globals()[request["start"]](*request["args"])
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


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
    failpoints.arm(point, passes)
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


if __name__ == "__main__":
    serve()

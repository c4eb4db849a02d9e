"""How far a staging job has come, for the log, the command line and the UI.

Every partition says how many rows it has done, at most twice a second, in a note of its own on the shelf. The
driver adds the notes up into one note, `progress`, which everybody else reads. A partition that Spark runs
twice has two notes and counts once, with the one that came further. When the job ends, the manifest
tells the same; when the batch is forgotten, so is its progress.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any

from hermit.errors import HermitError
from hermit.migration import throttle
from hermit.migration.shelf import Shelf
from hermit.migration.throttle import Brake, Limits

_EVERY_S = 0.5
_LINE_EVERY_S = 5.0
_RATE_OVER_S = 10.0
# A driver renews its note twice a second. One that has not for this long is dead.
_STALE_S = 30.0
_NOTE, _AT = "progress", "at"


@dataclass(frozen=True)
class Progress:
    """How far a batch is. Times are seconds since 1970; `rows_total` is an estimate until the end."""

    batch: str
    direction: str
    rows_done: int
    rows_total: int
    bytes_done: int
    partitions_done: int
    partitions: int
    started: float
    updated: float
    rows_per_second: float
    seconds_left: float | None

    def __str__(self) -> str:
        share = self.rows_done / self.rows_total if self.rows_total else 1.0
        left = "" if self.seconds_left is None else f", {self.seconds_left:,.0f} s left"
        return (
            f"{self.rows_done:,} of {self.rows_total:,} rows ({share:.0%}), "
            f"{self.partitions_done} of {self.partitions} partitions, "
            f"{self.rows_per_second:,.0f} rows/s{left}"
        )


def read(location: str, batch: str) -> Progress | None:
    """How far a batch is; None if nothing is known of it."""
    note = Shelf(location).get(f"{batch}/{_NOTE}")
    try:
        return None if note is None else Progress(**note)
    except TypeError:
        return None


def running(location: str) -> list[Progress]:
    """The batches that are being staged now, the latest first."""
    found = [
        read(location, name.removesuffix(f"/{_NOTE}"))
        for name in Shelf(location).names()
        if name.endswith(f"/{_NOTE}")
    ]
    alive = [
        progress for progress in found if progress is not None and time.time() - progress.updated < _STALE_S
    ]
    return sorted(alive, key=lambda progress: -progress.started)


class Meter:
    """Counts what one attempt at a partition does, tells it, and keeps it to its pace."""

    def __init__(self, location: str, batch: str, partition: str) -> None:
        self._shelf = Shelf(location)
        self._note = f"{batch}/{_AT}/{partition}.{uuid.uuid4().hex[:8]}"
        self._brake = Brake(self._shelf, batch, partition)
        self._partition = partition
        self._told_at = 0.0
        self.rows = self.bytes = 0
        self._tell()

    def add(self, rows: int, size: int) -> None:
        """Some more rows have gone through. Returns when the next may."""
        self.rows += rows
        self.bytes += size
        self._tell_now_and_then()
        self._brake.hold(rows, self._tell_now_and_then)

    def finish(self, rows: int | None = None) -> None:
        """The partition is complete, with so many rows if not as many as were counted."""
        self.rows = self.rows if rows is None else rows
        self._tell(done=True)

    def _tell_now_and_then(self) -> None:
        if time.monotonic() - self._told_at >= _EVERY_S:
            self._tell()

    def _tell(self, done: bool = False) -> None:
        self._told_at = time.monotonic()
        note = {"partition": self._partition, "rows": self.rows, "bytes": self.bytes, "done": done}
        with suppress(OSError, HermitError):
            self._shelf.put(self._note, {**note, "at": time.time()})


class Monitor:
    """The driver's side: adds up, writes the note and the log, and divides the pace."""

    def __init__(
        self,
        location: str,
        batch: str,
        direction: str,
        partitions: Sequence[str],
        rows_total: int,
        *,
        finished: Mapping[str, tuple[int, int]] | None = None,
        limits: Limits | None = None,
        parallelism: int = 1,
        say: Callable[[str], None] | None = None,
    ) -> None:
        self._shelf = Shelf(location)
        self._batch, self._direction = batch, direction
        self._partitions = list(partitions)
        self._rows_total = rows_total
        self._finished = {
            name: {"partition": name, "rows": rows, "bytes": size, "done": True, "at": 0.0}
            for name, (rows, size) in (finished or {}).items()
        }
        self._limits = limits or Limits()
        self._parallelism = parallelism
        self._say = say
        self._started = time.time()
        self._said_at = time.monotonic()
        self._pace: throttle.Pace | None = None
        self._history: deque[tuple[float, int]] = deque()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="progress", daemon=True)

    def __enter__(self) -> Monitor:
        if throttle.read(self._shelf, self._batch) is None:
            throttle.write(self._shelf, self._batch, self._limits)
        self.look()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        with suppress(OSError, HermitError):
            self._tell(self.look())

    def _watch(self) -> None:
        while not self._stop.wait(_EVERY_S):
            # Rows matter, not what is told of them: the next look may succeed.
            with suppress(OSError, HermitError):
                found = self.look()
                if time.monotonic() - self._said_at >= _LINE_EVERY_S:
                    self._said_at = time.monotonic()
                    self._tell(found)

    def _tell(self, found: Progress) -> None:
        if self._say is not None:
            self._say(f"progress: {found}")

    def look(self) -> Progress:
        """Add up what the partitions say, tell it, and set their pace."""
        notes = self._best_notes()
        self._set_pace(notes)
        done = sum(bool(note["done"]) for note in notes.values())
        rows = sum(int(note["rows"]) for note in notes.values())
        complete = done == len(self._partitions)
        total = rows if complete else max(rows, self._rows_total)
        rate = self._rate(rows)
        found = Progress(
            batch=self._batch,
            direction=self._direction,
            rows_done=rows,
            rows_total=total,
            bytes_done=sum(int(note["bytes"]) for note in notes.values()),
            partitions_done=done,
            partitions=len(self._partitions),
            started=self._started,
            updated=time.time(),
            rows_per_second=rate,
            seconds_left=0.0 if complete else ((total - rows) / rate if rate else None),
        )
        self._shelf.put(f"{self._batch}/{_NOTE}", asdict(found))
        return found

    def _best_notes(self) -> dict[str, dict[str, Any]]:
        best: dict[str, dict[str, Any]] = dict(self._finished)
        wanted = set(self._partitions)
        for note in self._shelf.all(f"{self._batch}/{_AT}").values():
            partition = str(note["partition"])
            if partition in wanted and _weight(note) > _weight(best.get(partition)):
                best[partition] = note
        return best

    def _rate(self, rows: int) -> float:
        """Over the last seconds, so that a change of pace shows."""
        now = time.monotonic()
        self._history.append((now, rows))
        while len(self._history) > 2 and now - self._history[1][0] > _RATE_OVER_S:
            self._history.popleft()
        before, rows_before = self._history[0]
        return max(rows - rows_before, 0) / (now - before) if now > before else 0.0

    def _set_pace(self, notes: dict[str, dict[str, Any]]) -> None:
        limits = throttle.read(self._shelf, self._batch) or self._limits
        # One that has not been heard of for so long does not stand in the way of those behind it.
        heard_of = time.time() - _STALE_S
        going = [
            p for p in self._partitions if p in notes and not notes[p]["done"] and notes[p]["at"] > heard_of
        ]
        expected = min(self._parallelism, limits.max_parallelism or self._parallelism)
        pace = throttle.divide(limits, going, expected)
        if pace != self._pace:
            throttle.announce(self._shelf, self._batch, pace)
            self._pace = pace


def _weight(note: dict[str, Any] | None) -> tuple[bool, int]:
    return (False, -1) if note is None else (bool(note["done"]), int(note["rows"]))

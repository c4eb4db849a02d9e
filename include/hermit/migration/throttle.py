"""How fast a staging job may go, and how that is changed while it runs.

Limits come with the request and lie on the shelf as the note `throttle`, where anybody may change them. The
driver looks at it, divides the rate among the partitions that are under way, and tells each how fast it may
go in the note `pace`. A partition looks at its pace between two batches of rows. One that is over the
allowed parallelism waits where it is: the ones before it are let through first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

from hermit.errors import HermitError, InvalidInput
from hermit.migration.move import Limits
from hermit.migration.shelf import Shelf

_LOOK_S = 0.5
_THROTTLE, _PACE = "throttle", "pace"
__all__ = ["Brake", "Limits", "Pace", "announce", "change", "divide", "read", "write"]


def read(shelf: Shelf, batch: str) -> Limits | None:
    """The limits that hold for a batch now."""
    note = shelf.get(f"{batch}/{_THROTTLE}")
    return None if note is None else Limits.parse(note)


def write(shelf: Shelf, batch: str, limits: Limits) -> None:
    """Let these limits hold for a batch from now on."""
    shelf.put(f"{batch}/{_THROTTLE}", limits.to_json())


def change(shelf: Shelf, batch: str, **changes: int | None) -> Limits:
    """Change some limits of a batch that is under way; None lifts one."""
    found = read(shelf, batch)
    if found is None:
        raise InvalidInput(f"no staging of batch {batch!r} is under way")
    wanted = Limits.parse(asdict(replace(found, **changes)))
    write(shelf, batch, wanted)
    return wanted


@dataclass(frozen=True)
class Pace:
    """What the partitions under way may do: rows a second each, and which of them must wait."""

    rows_per_second: float | None = None
    waiting: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {"rows_per_second": self.rows_per_second, "waiting": list(self.waiting)}


def divide(limits: Limits, under_way: Sequence[str], expected: int) -> Pace:
    """The pace of each partition, given those under way; before any is, as if `expected` were."""
    waiting = () if limits.max_parallelism is None else tuple(under_way[limits.max_parallelism :])
    going = len(under_way) - len(waiting) if under_way else max(expected, 1)
    rate = limits.max_rows_per_second
    return Pace(None if rate is None else rate / going, waiting)


def announce(shelf: Shelf, batch: str, pace: Pace) -> None:
    """Tell the partitions their pace."""
    shelf.put(f"{batch}/{_PACE}", pace.to_json())


class Brake:
    """Holds one partition back to its pace. Rows are owed when they have gone through."""

    def __init__(
        self,
        shelf: Shelf,
        batch: str,
        partition: str,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._shelf = shelf
        self._note = f"{batch}/{_PACE}"
        self._partition = partition
        self._clock, self._sleep = clock, sleep
        self._owed = 0.0
        self._paid_at = clock()
        self._looked_at: float | None = None
        self._pace = Pace()

    def hold(self, rows: int, meanwhile: Callable[[], None]) -> None:
        """Return when the rows are within the pace. `meanwhile` is called now and then while waiting."""
        self._owed += rows
        while True:
            self._look()
            now = self._clock()
            rate = self._pace.rows_per_second
            waits = self._partition in self._pace.waiting
            self._owed = 0.0 if rate is None else max(0.0, self._owed - rate * (now - self._paid_at))
            self._paid_at = now
            if not waits and self._owed <= 0:
                return
            meanwhile()
            self._sleep(_LOOK_S if waits or rate is None else min(_LOOK_S, self._owed / rate))

    def _look(self) -> None:
        now = self._clock()
        if self._looked_at is not None and now - self._looked_at < _LOOK_S:
            return
        self._looked_at = now
        note = None
        with suppress(OSError, HermitError):
            note = self._shelf.get(self._note)
        if note is not None:
            self._pace = Pace(note["rows_per_second"], tuple(note["waiting"]))

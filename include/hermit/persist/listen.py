"""Listening: the contents at a time, then every change after it, exactly once, one time at a time.

A listener knows how far it got, its `frontier`: everything before it was delivered. What comes next are the
updates between it and the collections' upper, read from whatever files hold them now, so that it does not
matter how far behind it is or what was merged in between. Once `since` reaches the frontier, single
steps cannot be told apart from what was delivered, and the listener says so instead of guessing.

Nothing is delivered before it is durable. A listener that was stopped goes on with `resume` at its frontier.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import NamedTuple

from hermit.persist.errors import FilesVacuumed, HistoryCompacted, Stopped
from hermit.persist.frontier import time_from_long
from hermit.persist.pins import pin
from hermit.persist.reader import Reader
from hermit.persist.state import State
from hermit.persist.table import Table
from hermit.rows import Update

POLL_S = 1.0  # how long a wait lasts at most before the listener looks whether it was closed


class Step(NamedTuple):
    """What changed at one time. `frontier` is what a listener has got to after it.

    The first step of a listener that does not resume is the snapshot, at `as_of`. A step without updates
    says that the collections were sealed up to `frontier` without any change.
    """

    time: int
    frontier: int
    updates: list[Update]
    is_snapshot: bool = False


class Listener:
    """Follows collections of one location. Iterate over it, also asynchronously, or call `poll`."""

    def __init__(
        self,
        table: Table,
        reader: Reader,
        names: Sequence[str],
        as_of: int,
        *,
        resume: bool = False,
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self._table = table
        self._reader = reader
        self._names = list(names)
        self._as_of = as_of
        self._stopped = stopped
        self._closed = False
        self.frontier: int | None = as_of + 1 if resume else None

    def poll(self, timeout_s: float = 0.0) -> list[Step]:
        """The next steps, waiting for them at most this long. An empty list means: nothing new."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            if self._stopped():
                raise Stopped(f"the client of {self._table.storage.location} was stopped")
            steps, state = self._steps()
            left_s = deadline_s - time.monotonic()
            if steps or left_s <= 0 or self._closed:
                return steps
            self._table.storage.log.wait(state.version + 1, min(left_s, POLL_S))

    def close(self) -> None:
        """End iterations over this listener."""
        self._closed = True

    def __iter__(self) -> Iterator[Step]:
        while not self._closed:
            yield from self.poll(POLL_S)

    async def __aiter__(self) -> AsyncIterator[Step]:
        import asyncio

        while not self._closed:
            for step in await asyncio.to_thread(self.poll, POLL_S):
                yield step

    def _steps(self) -> tuple[list[Step], State]:
        if self.frontier is None:
            updates = [
                Update(name, key, value, self._as_of, diff)
                for name, table in self._reader.tables(self._names, self._as_of)
                for key, value, diff in zip(*(table[c].to_pylist() for c in table.column_names), strict=True)
            ]
            self.frontier = self._as_of + 1
            return [Step(self._as_of, self.frontier, updates, is_snapshot=True)], self._table.cached
        for _ in range(3):
            state = self._table.refresh()
            try:
                return self._changes(state, self.frontier), state
            except FilesVacuumed:
                continue
        raise FilesVacuumed(f"files of {self._table.storage.location} vanish faster than they can be read")

    def _changes(self, state: State, frontier: int) -> list[Step]:
        for name in self._names:
            at = state.frontier(name)
            if at.since >= frontier:
                raise HistoryCompacted("steps were compacted away", name, at, frontier)
        upper = min(state.upper(name) for name in self._names)
        if upper <= frontier:
            return []
        by_time: dict[int, dict[tuple[str, bytes, bytes], int]] = {}
        with pin(self._table.storage.location, state.files(self._names)):
            for name in self._names:
                for table in self._reader.updates(state, name, frontier, upper):
                    for key, value, stored, diff in zip(
                        *(table[c].to_pylist() for c in ("key", "value", "time", "diff")), strict=True
                    ):
                        sums = by_time.setdefault(time_from_long(stored), {})
                        sums[name, key, value] = sums.get((name, key, value), 0) + diff
        steps = [
            Step(at, at + 1, [Update(*row, at, diff) for row, diff in sorted(sums.items()) if diff])
            for at, sums in sorted(by_time.items())
        ]
        steps = [step for step in steps if step.updates]
        if not steps or steps[-1].frontier < upper:
            steps.append(Step(upper - 1, upper, []))
        self.frontier = upper
        return steps

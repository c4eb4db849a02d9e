"""The runtime: a thread that turns calls of `write`, `seal` and `allow_compaction` into few commits.

Calls are queued in the order in which they are made and answered by futures. The thread takes all that wait,
applies them in order to the frontiers that it knows, and commits what is valid in one go; calls that break
a rule get their error and change nothing. A future resolves when its commit is durable. Each call is atomic:
it is in one commit or in none. Every commit is conditional on the write lock still being ours.

Stopping finishes what was queued and refuses the rest. It is a courtesy: whatever a future
acknowledged is durable anyway.
"""

from __future__ import annotations

import atexit
import threading
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from hermit.errors import HermitError
from hermit.persist import check
from hermit.persist.appender import Append, Record
from hermit.persist.errors import LockLost, PersistError, Stopped, UpperMismatch, WriteBehindUpper
from hermit.persist.frontier import Frontier
from hermit.persist.lock import COLLECTION, WriteLock
from hermit.persist.state import State, check_name
from hermit.persist.table import Table

T = TypeVar("T")
GROUP_MAX = 1024  # calls in one commit


class PersistFuture(Future[T]):
    """A future of the standard library that can also be awaited."""

    def __await__(self) -> Generator[Any, None, T]:
        import asyncio  # slow to import, and only those who await pay for it

        return asyncio.wrap_future(self).__await__()


@dataclass
class Call:
    """One atomic mutation of one or several collections, and who waits for it."""

    writes: Mapping[str, Sequence[Record]] = field(default_factory=dict)
    seals: Mapping[str, int] = field(default_factory=dict)
    compactions: Mapping[str, int] = field(default_factory=dict)
    future: PersistFuture[State] = field(default_factory=PersistFuture)


class Draft:
    """The commit that a row of calls amounts to, on top of a state."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._frontiers: dict[str, Frontier] = {}
        self._updates: dict[str, list[Record]] = {}

    def apply(self, call: Call) -> None:
        """Add one call, entirely or, if it breaks a rule, not at all."""
        after: dict[str, Frontier] = {}
        for name, records in call.writes.items():
            at = after[name] = self._frontier(check_name(name), after)
            for _, _, time, _ in records:
                if time < at.upper:
                    raise WriteBehindUpper("a record is behind upper", name, at, time)
        for name, upper in call.seals.items():
            at = self._frontier(check_name(name), after)
            check.seal(name, at, upper)
            after[name] = Frontier(at.since, upper)
        for name, since in call.compactions.items():
            at = self._frontier(check_name(name), after)
            check.compaction(name, at, since, at.upper)
            after[name] = Frontier(since, at.upper)
        self._frontiers.update(after)
        for name, records in call.writes.items():
            self._updates.setdefault(name, []).extend(records)

    def append(self, lock_upper: int) -> Append:
        """The commit, conditional on the frontiers it started from and on the lock."""
        expected = {name: self._state.upper(name) for name in self._frontiers}
        return Append(
            expected={**expected, COLLECTION: lock_upper},
            new_upper={name: frontier.upper for name, frontier in self._frontiers.items()},
            since={
                name: frontier.since
                for name, frontier in self._frontiers.items()
                if frontier.since != self._state.since(name)
            },
            updates=self._updates,
        )

    def _frontier(self, name: str, after: Mapping[str, Frontier]) -> Frontier:
        return after.get(name) or self._frontiers.get(name) or self._state.frontier(name)


class Runtime:
    """The thread and its queue. Made by the first write handle of a client."""

    def __init__(
        self,
        table: Table,
        append: Callable[[Append], State],
        lock: WriteLock,
        reentrance_id: str,
        now_ms: Callable[[], int],
    ) -> None:
        self._table = table
        self._append = append
        self._lock = lock
        self._lock_upper = lock.acquire(reentrance_id, now_ms())
        self._queue: deque[Call] = deque()
        self._changed = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="hermit-persist", daemon=True)
        self._thread.start()
        atexit.register(self.stop)

    def submit(self, call: Call) -> PersistFuture[State]:
        """Queue a call behind all that were made before it."""
        with self._changed:
            if self._stopping:
                raise Stopped(f"the client of {self._table.storage.location} was stopped")
            self._queue.append(call)
            self._changed.notify()
        return call.future

    def stop(self, *, wait: bool = True) -> None:
        """Refuse new calls and finish those that wait."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if wait and threading.current_thread() is not self._thread:
            self._thread.join()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def _run(self) -> None:
        while calls := self._take():
            self._commit(calls)
        with suppress(OSError, HermitError):  # else the lock stays, and the same reentrance ID takes it over
            self._lock.release(self._lock_upper)
        atexit.unregister(self.stop)

    def _take(self) -> list[Call]:
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._stopping)
            count = min(len(self._queue), GROUP_MAX)
            calls = [self._queue.popleft() for _ in range(count)]
        # A future that nobody waits for any more may have been cancelled.
        return [call for call in calls if call.future.set_running_or_notify_cancel()] or (
            self._take() if calls else []
        )

    def _commit(self, calls: list[Call]) -> None:
        """Commit all calls that are valid; settle every future."""
        while True:
            draft, accepted, refused = self._draft(calls)
            if not accepted:
                break
            try:
                state = self._append(draft.append(self._lock_upper))
            except UpperMismatch as error:
                if error.collection == COLLECTION:
                    lost = LockLost(f"the write lock of {self._table.storage.location} was taken away")
                    _fail(accepted, lost)
                    break
                continue  # a compare-and-append came between: the calls are judged by the new frontiers
            except Exception as error:  # whatever it is, nobody may wait for ever
                _fail(accepted, error)
                break
            for call in accepted:
                call.future.set_result(state)
            break
        for call, why in refused:
            call.future.set_exception(why)

    def _draft(self, calls: list[Call]) -> tuple[Draft, list[Call], list[tuple[Call, PersistError]]]:
        """What the calls amount to. A refusal is checked against the latest state before it counts."""
        state = self._table.cached
        while True:
            draft = Draft(state)
            accepted: list[Call] = []
            refused: list[tuple[Call, PersistError]] = []
            for call in calls:
                try:
                    draft.apply(call)
                    accepted.append(call)
                except PersistError as error:
                    refused.append((call, error))
            latest = self._table.refresh() if refused else state
            if latest.version == state.version:
                return draft, accepted, refused
            state = latest


def _fail(calls: Sequence[Call], error: Exception) -> None:
    for call in calls:
        call.future.set_exception(error)

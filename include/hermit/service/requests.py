"""Commands on their way: handed in by any thread, taken by the node's own.

A request is waiting, or handed to the store (from then on its fate may be in doubt), or in the log at a
known version; then it is told its result once, when its version is available everywhere.
"""

from __future__ import annotations

import heapq
import itertools
import secrets
import threading
import time
from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import NamedTuple

from hermit.service.clock import HybridClock, HybridTimestamp, physical_ms
from hermit.service.commands.base import CatalogCommand
from hermit.service.update import Origin


@dataclass(frozen=True, slots=True)
class Applied:
    """The version in which a command's results are; `changed` is false when there was nothing to do."""

    version: int
    time: HybridTimestamp
    changed: bool = True


@dataclass(slots=True, eq=False)
class Request:
    """One `execute`."""

    commands: tuple[CatalogCommand, ...]
    origin: Origin
    deadline_ms: int
    future: Future[Applied] = field(default_factory=Future)
    started: bool = False
    in_doubt: bool = False
    is_settled: bool = False

    def begin(self) -> bool:
        """Whether it is still to be executed. From here on nobody can cancel it."""
        if not self.started:
            self.started = True
            self.is_settled = not self.future.set_running_or_notify_cancel()
        return not self.is_settled


class RequestQueue:
    """Requests that are not in the log yet, oldest first."""

    def __init__(self) -> None:
        self._waiting: deque[Request] = deque()
        self._lock = threading.Lock()
        self._wanted = 0
        self._gathered = threading.Event()
        # Drawn anew by every start of a node, so that no two commands ever have the same origin.
        self._node = secrets.randbits(63) | 1
        self._numbers = itertools.count(1)

    @property
    def node_name(self) -> str:
        """This start of this node, as other nodes know it."""
        return f"{self._node:x}"

    def new(self, commands: tuple[CatalogCommand, ...], deadline_ms: int) -> Request:
        """A request of this node; not queued yet."""
        return Request(commands, Origin(self._node, next(self._numbers)), deadline_ms)

    def put(self, request: Request) -> None:
        """Queue a request."""
        with self._lock:
            self._waiting.append(request)
            if len(self._waiting) == self._wanted:
                self._gathered.set()

    def gather(self, count: int, patience_s: float, limit_s: float) -> None:
        """Return when so many requests wait; or nobody has come for a while, or it takes too long.

        Of those who come only the last wakes whoever waits here.
        """
        end_s = time.monotonic() + limit_s
        before = -1
        while before < len(self._waiting) < count and time.monotonic() < end_s:
            with self._lock:
                before = len(self._waiting)
                self._wanted = count
                self._gathered.clear()
                if before >= count:
                    break
            self._gathered.wait(patience_s)
        self._wanted = 0

    def put_back(self, requests: Iterable[Request]) -> None:
        """Queue requests again, before all others and in the order that they had."""
        with self._lock:
            self._waiting.extendleft(reversed(list(requests)))

    def discard(self, request: Request) -> bool:
        """Take a request out of the queue, if it is still there."""
        with self._lock:
            if request not in self._waiting:
                return False
            self._waiting.remove(request)
            return True

    def take(self, count: int) -> list[Request]:
        """The oldest requests that are still to be executed."""
        with self._lock:
            taken = [self._waiting.popleft() for _ in range(min(count, len(self._waiting)))]
        return [request for request in taken if request.begin()]

    def take_all(self) -> list[Request]:
        """Everything that waits."""
        return self.take(len(self._waiting))

    def overdue(self, now_ms: int) -> list[Request]:
        """Take out every request whose time is up."""
        with self._lock:
            found = [request for request in self._waiting if request.deadline_ms <= now_ms]
            for request in found:
                self._waiting.remove(request)
        return [request for request in found if not request.is_settled]

    def __len__(self) -> int:
        return len(self._waiting)


class Due(NamedTuple):
    """When a version is available everywhere: at a time by the node's clock; or, should the machine's clock
    have been set back since it was applied, when as long has passed by the monotonic one."""

    time: HybridTimestamp
    since: HybridTimestamp
    monotonic_ms: int


class Completions:
    """Requests whose version is here, by the time at which it is everywhere."""

    def __init__(self) -> None:
        self._heap: list[tuple[Due, int, Request, Applied]] = []
        self._order = itertools.count()

    def add(self, due: Due, request: Request, applied: Applied) -> None:
        """Remember what to tell, and when."""
        heapq.heappush(self._heap, (due, next(self._order), request, applied))

    def take_due(self, clock: HybridClock, now_ms: int) -> list[tuple[Request, Applied]]:
        """Those whose time has come, in the order of that time."""
        found: list[tuple[Request, Applied]] = []
        if not self._heap:
            return found
        now, physical = clock.now(), clock.physical_ms()
        while self._heap:
            due = self._heap[0][0]
            was_set_back = physical < physical_ms(due.since)
            if due.time > now and not (was_set_back and due.monotonic_ms <= now_ms):
                break
            _, _, request, applied = heapq.heappop(self._heap)
            found.append((request, applied))
        return found

    def take_all(self) -> list[tuple[Request, Applied]]:
        """All of them, due or not."""
        found, self._heap = [(request, applied) for _, _, request, applied in self._heap], []
        return found

    @property
    def next_due(self) -> Due | None:
        """When the next one is due."""
        return self._heap[0][0] if self._heap else None

"""The read side of a node: catalogs by version and by time, from memory.

What is guaranteed:

- A catalog, once handed out, never changes. The catalog at a version is the same on every node.
- `catalog_at(timestamp=t)` is the version last active at t among those that this node has applied. It is
  final once `wait_for_metadata_completeness(t)` is done.
- A node that has not heard from the log for longer than `delay_duration_ms` raises `NodeBehind` for the
  present, instead of answering with what may be outdated.
- Listeners hear of a version after it can be read here, and of versions in order.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future
from contextlib import contextmanager

from hermit.errors import HermitError
from hermit.service.catalog import Catalog
from hermit.service.clock import (
    BEGINNING,
    HybridClock,
    HybridTimestamp,
    after_ms,
    monotonic_ms,
    physical_ms,
)
from hermit.service.errors import NodeBehind, TimestampCompacted, VersionNotAvailable
from hermit.service.events import EventSubscription, EventType, Listener, Listeners
from hermit.service.futures import fail, succeed
from hermit.service.history import History
from hermit.service.readers import Pins


class CatalogService:
    """Access to the objects of the cluster at any version that this node holds."""

    def __init__(self, clock: HybridClock, now_ms: Callable[[], int] = monotonic_ms) -> None:
        self.clock = clock
        self._now_ms = now_ms
        self._history = History(Catalog())
        # When this node last looked at the log: what comes after is the present. It is answered for up to the
        # second time, and as long by the clock that nobody sets: nobody can have been told of more by then.
        self._past_until = BEGINNING
        self._complete_until = BEGINNING
        self._complete_until_ms = 0
        self._pins = Pins()
        self._listeners = Listeners(self._pins)
        self._ready: dict[int, list[Future[Catalog]]] = {}
        self._ready_lock = threading.Lock()
        self._failure: HermitError | None = None

    # Reading

    def catalog_at(self, version: int | None = None, *, timestamp: HybridTimestamp | None = None) -> Catalog:
        """The catalog at a version, or the one last active at a time."""
        history = self._history
        if version is not None:
            return history.at_version(version)
        if timestamp is None:
            return history.latest
        if timestamp > history.latest.time and not self._answers_for(timestamp):
            raise self._behind(timestamp)
        return history.at_time(timestamp)

    def catalog_latest(self) -> Catalog:
        """The newest version that this node has applied."""
        return self._history.latest

    @property
    def earliest_version(self) -> int:
        """The earliest version that can be read here."""
        return self._history.earliest

    def active_at(self, timestamp: HybridTimestamp) -> Catalog:
        """The version last active at a time among those held, or the earliest if it was active later."""
        try:
            return self._history.at_time(timestamp)
        except TimestampCompacted:
            return self._history.at_version(self._history.earliest)

    def lowest_pinned(self) -> int | None:
        """The lowest version that a reader on this node works with."""
        return self._pins.lowest()

    def catalog_ready(self, version: int) -> Future[Catalog]:
        """Done as soon as the version can be read here; with that catalog as its result."""
        future: Future[Catalog] = Future()
        with self._ready_lock:
            if version > self._history.latest.version:
                if self._failure is not None:
                    future.set_exception(self._failure)
                else:
                    self._ready.setdefault(version, []).append(future)
                return future
        self._settle_ready(future, version)
        return future

    @contextmanager
    def reading(self, version: int | None = None) -> Iterator[Catalog]:
        """The catalog at a version, or the newest, which stays readable here while the block runs."""
        wanted = self._history.latest.version if version is None else version
        with self._pins.hold(wanted):
            yield self._history.at_version(wanted)

    def subscribe(
        self, listener: Listener, types: EventType | Collection[EventType] | None = None
    ) -> EventSubscription:
        """Tell the listener of events of these types, or of one, or of all, from the next version on."""
        return self._listeners.subscribe(listener, types)

    # Inside

    def _heard(self, begun: HybridTimestamp, begun_ms: int, delay_ms: int) -> None:
        """Note that all is applied that was in the log at a moment."""
        self._past_until = max(self._past_until, begun)
        self._complete_until = max(self._complete_until, after_ms(begun, delay_ms))
        # Whole ms were cut off on both sides, here and where the completion is waited for.
        self._complete_until_ms = begun_ms + delay_ms - 1

    def _answers_for(self, timestamp: HybridTimestamp) -> bool:
        """Whether every version that somebody was told of, and that was active then, is here."""
        if timestamp <= self._past_until:
            return True
        return timestamp <= self._complete_until and self._now_ms() < self._complete_until_ms

    def _take_ready(self) -> list[tuple[Future[Catalog], int]]:
        """The futures whose version has arrived, or was skipped."""
        latest = self._history.latest.version
        with self._ready_lock:
            arrived = sorted(version for version in self._ready if version <= latest)
            return [(future, version) for version in arrived for future in self._ready.pop(version)]

    def _settle_ready(self, future: Future[Catalog], version: int) -> None:
        try:
            catalog = self._history.at_version(version)
        except VersionNotAvailable as gone:
            fail(future, gone)
        else:
            succeed(future, catalog)

    def _fail_ready(self, error: HermitError) -> list[Future[Catalog]]:
        """Take every future that waits for a version: there will be no more versions here."""
        with self._ready_lock:
            self._failure = error
            futures = [future for waiting in self._ready.values() for future in waiting]
            self._ready.clear()
        return futures

    def _behind(self, timestamp: HybridTimestamp) -> NodeBehind:
        history = self._history
        return NodeBehind(
            f"this node knows the log up to {physical_ms(self._complete_until)} ms and cannot answer for "
            f"{physical_ms(timestamp)} ms; it holds versions {history.earliest} to {history.latest.version}",
            timestamp=timestamp,
            earliest=history.earliest,
            latest=history.latest.version,
        )

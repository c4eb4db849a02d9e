"""The apply phase: what the log brings becomes versions in memory, events and kept promises.

A version is applied exactly once and right behind the one before it, wherever the log was read from: what
arrives twice (a log that was read as a whole after some of its commits were seen, another store after a
move) is recognised by its version. A log that ends before what this node has applied, or holds something
else there, is not the log that it followed; nothing of it is applied.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from hermit.service.catalog import Catalog
from hermit.service.clock import BEGINNING, HybridClock, HybridTimestamp, monotonic_ms
from hermit.service.errors import LogDamaged, WireError
from hermit.service.events import CatalogEvent, EventType
from hermit.service.history import History
from hermit.service.log import SAFE_TIME, SNAPSHOT_VERSION, LogContents, version_in
from hermit.service.notifier import Notifier
from hermit.service.service import CatalogService
from hermit.service.update import VersionedUpdate


class Prepared(NamedTuple):
    """A version that this node worked out itself, so that it need not be decoded and applied again."""

    data: bytes
    update: VersionedUpdate
    catalog: Catalog


class Follower(CatalogService):
    """A service whose versions come from a log."""

    def __init__(self, clock: HybridClock, now_ms: Callable[[], int] = monotonic_ms) -> None:
        super().__init__(clock, now_ms)
        self._answers = Notifier()
        self._prepared: dict[int, Prepared] = {}
        self._safe_time = BEGINNING
        self._compacted = 0

    def adopt(self, contents: LogContents) -> None:
        """Take over all that is in a log: at the start, and whenever the single steps are not known."""
        latest = self._history.latest
        self._check_is_ours(contents, latest)
        if contents.earliest > latest.version or (contents.earliest and not latest.version):
            self._skip_to(contents.base())
        for version in range(self._history.latest.version + 1, contents.version + 1):
            self._apply(contents, version)
        self._compacted = contents.earliest
        self.forget()
        self._promise(contents.safe_time)
        self._announce_ready()

    def follow(self, commit: LogContents) -> None:
        """Apply what one commit wrote."""
        versions = sorted(filter(None, map(version_in, commit.rows)))
        for version in versions:
            if version > self._history.latest.version:
                self._apply(commit, version)
        if SNAPSHOT_VERSION in commit.rows:
            self._compacted = commit.earliest
            self.forget()
        if SAFE_TIME in commit.rows:
            self._promise(commit.safe_time)
        if versions:
            self._announce_ready()

    def _applied(self, update: VersionedUpdate, catalog: Catalog) -> None:
        """Called for every version, once, when it can be read."""

    def _promised(self) -> None:
        """Called when nothing can become active any more up to a later time than before."""

    def _apply(self, contents: LogContents, version: int) -> None:
        before = self._history.latest
        prepared = self._prepared.pop(version, None)
        if prepared is not None and prepared.data == contents.data(version):
            update, catalog = prepared.update, prepared.catalog
        else:
            update = contents.update(version)
            catalog = update.apply(before)
        self._history.append(catalog)
        self.clock.update(update.time)
        if self._listeners:
            for event in update.events(before):
                self._listeners.tell(event)
        self._applied(update, catalog)

    def _skip_to(self, catalog: Catalog) -> None:
        """Go on from a snapshot: the versions before it are not to be had any more."""
        skipped = self._history.latest.version > 0
        self._history = History(catalog)
        self.clock.update(catalog.time)
        if skipped:
            self._listeners.tell(CatalogEvent(EventType.VERSIONS_SKIPPED, catalog.version, catalog.time))

    def forget(self) -> None:
        """Let go of versions that were compacted, except for those that a reader here works with."""
        with self._pins.unchanged() as pinned:
            first = self._compacted if pinned is None else min(self._compacted, pinned)
            if first > self._history.earliest:
                self._history = self._history.from_version(min(first, self._history.latest.version))

    def _promise(self, safe_time: HybridTimestamp) -> None:
        if safe_time > self._safe_time:
            self._safe_time = safe_time
            self._past_until = max(self._past_until, safe_time)
            self.clock.update(safe_time)
            self._promised()

    def _announce_ready(self) -> None:
        for future, version in self._take_ready():
            self._answers.submit(partial(self._settle_ready, future, version))

    def _check_is_ours(self, contents: LogContents, latest: Catalog) -> None:
        """Refuse a log that is not a continuation of what was applied here."""
        if contents.version < latest.version:
            raise LogDamaged(
                f"the log ends at version {contents.version}, but this node has applied {latest.version}",
                hint="the catalog was restored to an earlier state; start this node anew",
                version=contents.version,
            )
        if not contents.earliest < latest.version:
            return
        try:
            time = contents.update(latest.version).time
        except WireError as error:
            raise LogDamaged(f"the log holds something else at version {latest.version}") from error
        if time != latest.time:
            raise LogDamaged(
                f"the log holds another version {latest.version} than this node has applied",
                hint="the catalog was restored to an earlier state; start this node anew",
                version=latest.version,
            )

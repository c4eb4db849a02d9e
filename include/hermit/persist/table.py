"""The log of a location as a chain of states: catch up, commit conditionally, keep opening cheap.

Invariants that everything above rests on:

- A commit is conditional on the exact version that was read: it is put at that version + 1, or nowhere.
- Nothing is acknowledged before data files, commit and folders are durable. What others committed is made
  durable before it is handed on.
- Catching up costs one call per new commit and one that finds the end; opening costs a checkpoint and the
  commits after it. Neither grows with history.
- Old log entries are deleted oldest first, never younger than `HISTORY_MIN_S`. "The next entry is
  absent" therefore means "nobody committed" as long as our own entry was seen less than that ago;
  after half that time we look whether it is still there.
- It means that also when somebody deleted the whole location. A directory that is held open tells of that at
  once; elsewhere we look for our own entry every `LOOK_AGAIN_S`.
"""

from __future__ import annotations

import logging
import math
import threading
import time
import uuid
from collections.abc import Sequence
from dataclasses import replace

from hermit.errors import HermitError
from hermit.persist.commit import ENCODING_VERSION, Commit, DataFile
from hermit.persist.errors import CommitConflict, LocationGone, UnknownEncoding, corrupt
from hermit.persist.metrics import Metrics
from hermit.persist.state import State, apply
from hermit.persist.storage.abc import Storage, commit_key

HISTORY_MIN_S = 24 * 3600.0
LOOK_AGAIN_S = 60.0
_RECENT_MAX = 200
_log = logging.getLogger(__name__)


class Table:
    """The states of one location. Safe to use from many threads."""

    def __init__(self, storage: Storage, metrics: Metrics | None = None) -> None:
        self.storage = storage
        self.metrics = metrics or Metrics()
        self._state = State()
        self._confirmed_s = -math.inf
        self._lock = threading.RLock()
        self._recent: dict[int, tuple[int, Sequence[DataFile]]] = {}

    @property
    def cached(self) -> State:
        """The last state that was seen, without a look at the store."""
        return self._state

    def is_current(self, version: int) -> bool:
        """Whether nobody committed after this version: one call to the store."""
        if self.storage.log.exists(version + 1):
            return False
        return version < 0 or self._is_fresh() or self._confirm(version)

    def refresh(self) -> State:
        """The latest state, durable."""
        with self._lock:
            before = self._state
            self.check_present()
            state = self._open() if before.version < 0 else self._catch_up(before)
            if not self._is_fresh() and state.version >= 0 and not self._confirm(state.version):
                state = self._open()
                if before.table_id not in ("", state.table_id):
                    raise self._gone()
            if state.version > before.version:
                self.storage.log.sync()
                self._state = state
            self._confirmed_s = _uptime_s()
            return state

    def commit(self, state: State, commit: Commit) -> State:
        """Put a commit right after this state, durably. Raises CommitConflict if somebody was quicker."""
        version = state.version + 1
        if version == 0:
            commit = replace(commit, table_id=str(uuid.uuid4()), encoding=ENCODING_VERSION)
        checksum = self.storage.log.append(version, commit)
        if checksum is None:
            self.metrics.add("commit_conflicts")
            self._confirmed_s = -math.inf  # perhaps not somebody else's commit but our own lateness
            raise CommitConflict(
                f"version {version} of {self.storage.location} was committed by somebody else",
                expected=state.version,
                current=version,
            )
        self.metrics.add("commits")
        if version == 0 and (stored := self.storage.log.read(0)) is not None:
            commit = stored.commit  # the store may have given the table an ID of its own
        after = apply(state, commit, checksum)
        with self._lock:
            self._remember(version, commit)
            if self._state.version < after.version:
                self._state = after
                self._confirmed_s = _uptime_s()
        return after

    def checkpoint(self, state: State) -> None:
        """Write the checkpoint of a state. Failing to costs time later, never contents: it is only logged."""
        from hermit.persist import checkpoint

        try:
            checkpoint.write(self.storage, state, self._removed_in)
            self.metrics.add("checkpoints")
        except (OSError, HermitError) as error:
            _log.warning("no checkpoint of %s at version %d: %s", self.storage.location, state.version, error)

    def _removed_in(self, version: int) -> tuple[int, Sequence[DataFile]]:
        """When a version was committed, and which files it removed."""
        known = self._recent.get(version)
        if known is None:
            stored = self.storage.log.read(version)
            return (0, ()) if stored is None else (stored.commit.timestamp_ms, stored.commit.removes)
        return known

    def _remember(self, version: int, commit: Commit) -> None:
        """Keep what the next checkpoint needs of the last commits."""
        self._recent[version] = (commit.timestamp_ms, commit.removes)
        self._recent.pop(version - _RECENT_MAX, None)

    def _open(self) -> State:
        """The latest state, from the last checkpoint on. What is missing in between is noticed."""
        from hermit.persist import checkpoint

        state = checkpoint.read(self.storage) or State()
        if state.version >= 0:
            check_encoding(self.storage.location, state)
        state = self._catch_up(state)
        while self.storage.log.exists(state.version + 2):
            after = self._catch_up(state)
            if after is state:
                key = commit_key(state.version + 1)
                raise corrupt(self.storage.location, key, "the file is missing, later ones exist")
            state = after
        if state.version >= 0 and not self.storage.log.exists(state.version):
            key = commit_key(state.version)
            raise corrupt(self.storage.location, key, "the file is missing, a checkpoint of it exists")
        if state.version < 0 and any(True for _ in self.storage.blob.list("_delta_log")):
            state = self._catch_up(state)  # somebody may have created the location just now
            if state.version < 0:
                why = "the file is missing, and so is a checkpoint"
                raise corrupt(self.storage.location, commit_key(0), why)
        return state

    def _catch_up(self, state: State) -> State:
        while (stored := self.storage.log.read(state.version + 1)) is not None:
            try:
                state = apply(state, stored.commit, stored.checksum)
            except ValueError as error:
                key = commit_key(state.version + 1)
                raise corrupt(self.storage.location, key, str(error)) from error
            self._remember(state.version, stored.commit)
            if state.version == 0:
                check_encoding(self.storage.location, state)
        return state

    def check_present(self) -> None:
        """Fail if the location is known to be deleted. No call to the store."""
        if self.storage.log.is_gone():
            raise self._gone()

    def _gone(self) -> LocationGone:
        location = self.storage.location
        return LocationGone(f"{location} was deleted under this client", location=location)

    def _is_fresh(self) -> bool:
        gone = self.storage.log.is_gone()
        if gone:
            raise self._gone()
        bound_s = LOOK_AGAIN_S if gone is None else HISTORY_MIN_S / 2
        return _uptime_s() - self._confirmed_s < bound_s

    def _confirm(self, version: int) -> bool:
        """Whether the entry of this version still exists, so that the next one cannot have been deleted."""
        there = self.storage.log.exists(version)
        if there:
            self._confirmed_s = _uptime_s()
        return there


def check_encoding(location: str, state: State) -> None:
    """Refuse a location that a release with another encoding wrote."""
    if state.encoding != ENCODING_VERSION:
        raise UnknownEncoding(
            f"{location} is written in encoding {state.encoding}, this release knows {ENCODING_VERSION}",
            found=state.encoding,
            known=ENCODING_VERSION,
        )


def _uptime_s() -> float:
    """A clock that nobody sets and that goes on while the machine sleeps."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))

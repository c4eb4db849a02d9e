"""What keeps a location quick: checkpoints, merged files, a vacuum, a little after every so many commits.

The writer that commits a version does what falls due at it. Checkpoints and merges of small files take
milliseconds and happen right away; they make no commit fail. A vacuum runs in a thread of its own,
because it makes no commits and nobody waits for it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from hermit.errors import HermitError
from hermit.persist.appender import Append, Appender
from hermit.persist.commit import DataFile
from hermit.persist.failpoints import fail_point
from hermit.persist.reader import Reader
from hermit.persist.state import State
from hermit.persist.table import Table

if TYPE_CHECKING:
    from hermit.persist.compaction import Compactor
    from hermit.persist.vacuum import Vacuumed

CHECKPOINT_INTERVAL = 50
VACUUM_INTERVAL = 1000
_log = logging.getLogger(__name__)


class Maintenance:
    """Maintains one location on behalf of a client."""

    def __init__(
        self,
        table: Table,
        reader: Reader,
        appender: Appender,
        now_ms: Callable[[], int],
        *,
        automatic: bool,
    ) -> None:
        self._table = table
        self._reader = reader
        self._appender = appender
        self._now_ms = now_ms
        self._automatic = automatic
        self._vacuuming = threading.Lock()

    def append(self, append: Append) -> State:
        """Commit, then do what is due; the state after both, if nobody else committed in between."""
        state = self._appender.append(append)
        fail_point("append.committed")
        return self.after_commit(state, {*append.updates, *(file.collection for file in append.files)})

    def after_commit(self, state: State, names: Iterable[str]) -> State:
        """Do what is due after a commit that touched these collections; the state after that.

        If somebody else committed in between, it is the state right after the commit that led here. Whoever
        takes a state for his own must find out what others did, not own it unseen.
        """
        if not self._automatic:
            return state
        self._checkpoint_if_due(state)
        try:
            merged = self._merge_small(state, names)
        except (OSError, HermitError) as error:
            # The commit that led here is durable and stays acknowledged. Damage will be reported to readers.
            _log.warning("no compaction of %s: %s", self._table.storage.location, error)
            return state
        if merged is None:
            return state
        fail_point("compaction.committed")
        self._table.metrics.add("compactions")
        self._checkpoint_if_due(merged)
        return merged if merged.version == state.version + 1 else state

    def compact(self, names: Sequence[str] | None) -> State:
        """Fold everything that can be folded in these collections, by default in all."""
        from hermit.persist import compaction

        state = self._table.refresh()
        merges = compaction.plan_all(state, sorted(state.frontiers) if names is None else names)
        merged = self._compactor().run(self._table.storage.location, merges)
        if merged is None:
            return self._table.refresh()
        self._table.checkpoint(merged)
        return merged

    def replace_files(self, removes: Sequence[DataFile], adds: Sequence[DataFile]) -> State | None:
        """Commit a compaction that was done elsewhere."""
        state = self._appender.replace_files(removes, adds)
        if state is not None:
            self._table.checkpoint(state)
        return state

    def vacuum(self, retention_s: float | None, *, dry_run: bool = False) -> Vacuumed:
        """Delete what nobody needs, after the given or the usual retention."""
        from hermit.persist import vacuum

        keep_s = vacuum.FILE_RETENTION_S if retention_s is None else retention_s
        return vacuum.vacuum(self._table, self._now_ms(), retention_s=keep_s, dry_run=dry_run)

    def _merge_small(self, state: State, names: Iterable[str]) -> State | None:
        from hermit.persist import compaction

        merges = compaction.plan(state, names)
        return self._compactor().run(self._table.storage.location, merges) if merges else None

    def _checkpoint_if_due(self, state: State) -> None:
        if state.version and state.version % CHECKPOINT_INTERVAL == 0:
            self._table.checkpoint(state)
        if state.version and state.version % VACUUM_INTERVAL == 0:
            # Not a daemon: the interpreter waits for it instead of ending in the middle of it.
            threading.Thread(target=self._vacuum_quietly, name="hermit-vacuum").start()

    def _vacuum_quietly(self) -> None:
        if not self._vacuuming.acquire(blocking=False):
            return
        try:
            self.vacuum(None)
        except (OSError, HermitError) as error:
            _log.warning("no vacuum of %s: %s", self._table.storage.location, error)
        finally:
            self._vacuuming.release()

    def _compactor(self) -> Compactor:
        from hermit.persist import compaction

        return compaction.Compactor(self._reader, self._appender, self._table.storage.blob)

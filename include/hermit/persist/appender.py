"""How records and files become a commit.

The records are written to data files once. The commit that names them is tried at the version after the one
where the expectations held; when somebody else took that version, they are checked again, and either still
hold at the newer version or the append has failed and its files are deleted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeAlias

from hermit.errors import HermitError, Unavailable
from hermit.persist import check
from hermit.persist.commit import Commit, DataFile
from hermit.persist.errors import CommitConflict, PersistError
from hermit.persist.failpoints import fail_point
from hermit.persist.pins import pin
from hermit.persist.state import State
from hermit.persist.storage.abc import Blob
from hermit.persist.table import HISTORY_MIN_S, Table

Record: TypeAlias = tuple[bytes, bytes, int, int]
_ATTEMPTS_MAX = 1000


@dataclass(frozen=True)
class Append:
    """What one commit is to change, and on which condition."""

    expected: Mapping[str, int]
    new_upper: Mapping[str, int]
    since: Mapping[str, int] = field(default_factory=dict)
    updates: Mapping[str, Sequence[Record]] = field(default_factory=dict)
    files: Sequence[DataFile] = ()
    removes: Sequence[DataFile] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    version: int | None = None

    def check(self, state: State) -> None:
        """Whether the condition holds at this state. Raises the error that says why not."""
        if self.version is not None:
            check.version(state, self.version)
        check.expected_uppers(state, self.expected)
        check.sinces(state, self.since, self.new_upper)

    def commit(self, state: State, written: Sequence[DataFile], timestamp_ms: int) -> Commit:
        """The commit that follows this state. Frontiers that stay where they are need no action."""
        return Commit(
            previous=state.checksum,
            timestamp_ms=timestamp_ms,
            adds=(*self.files, *written),
            removes=tuple(self.removes),
            upper={name: upper for name, upper in self.new_upper.items() if upper != state.upper(name)},
            since={name: since for name, since in self.since.items() if since != state.since(name)},
            metadata=self.metadata,
        )


class Appender:
    """Writes to one location."""

    def __init__(self, table: Table, blob: Blob, now_ms: Callable[[], int]) -> None:
        self._table = table
        self._blob = blob
        self._now_ms = now_ms

    def append(self, append: Append) -> State:
        """One durable commit, or an error and nothing."""
        state = self._first_state(append)
        encoded = _encode(append.updates)
        with pin(self._table.storage.location, encoded):
            return self._put_and_commit(state, append, encoded)

    def _put_and_commit(self, state: State, append: Append, encoded: Mapping[DataFile, bytes]) -> State:
        started_s = time.monotonic()
        written = list(encoded)
        if encoded:
            self._blob.put({file.path: data for file, data in encoded.items()})
        fail_point("append.files")
        try:
            for _ in range(_ATTEMPTS_MAX):
                if time.monotonic() - started_s > HISTORY_MIN_S / 2:
                    break  # a vacuum might take the files for forgotten ones
                try:
                    return self._table.commit(state, append.commit(state, written, self._now_ms()))
                except CommitConflict:
                    state = self._table.refresh()
                    append.check(state)
        except PersistError:
            self._discard(written)
            raise
        raise Unavailable(f"others kept committing to {self._table.storage.location}: no place found")

    def replace_files(self, removes: Sequence[DataFile], adds: Sequence[DataFile]) -> State | None:
        """Put files in the place of others that hold the same contents. None if some are gone already."""
        for _ in range(_ATTEMPTS_MAX):
            state = self._table.refresh()
            if any(file.path not in state.live for file in removes):
                self._discard(adds)
                return None
            commit = Commit(
                previous=state.checksum,
                timestamp_ms=self._now_ms(),
                operation="OPTIMIZE",
                adds=tuple(adds),
                removes=tuple(removes),
                data_change=False,
            )
            with suppress(CommitConflict):
                return self._table.commit(state, commit)
        return None

    def _first_state(self, append: Append) -> State:
        """The cached state if the condition holds there, as the commit checks it again; else the latest."""
        state = self._table.cached
        if state.version >= 0:
            self._table.check_present()
            with suppress(PersistError):
                append.check(state)
                return state
        state = self._table.refresh()
        append.check(state)
        return state

    def _discard(self, written: Sequence[DataFile]) -> None:
        """Delete files that no commit names. Left behind, they would only take space until a vacuum."""
        for file in written:
            with suppress(OSError, HermitError):
                self._blob.delete(file.path)


def _encode(updates: Mapping[str, Sequence[Record]]) -> dict[DataFile, bytes]:
    """The data files of these records, one for each collection that has any left after consolidation."""
    from hermit.persist import files

    batch = files.new_batch()
    consolidated = {name: files.consolidate_records(records) for name, records in updates.items()}
    return dict(files.encode(batch, name, records) for name, records in consolidated.items() if records)

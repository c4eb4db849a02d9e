"""What the shared catalog code needs from a backend, and the backend that commits to memory only.

A store holds one opener's place in the fence. Every call is linearized and compares that place with what
is stored: any difference raises `Fenced`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from hermit.durable.bootstrap import MemoryContents, Rows
from hermit.rows import Row, Update

RowChange = tuple[Row, int]

HISTORY_KEPT = 1_000
"""So many commits can be followed one by one; what is older may be merged."""

HISTORY_INTERVAL = 100
"""A writer lets go of old history once in so many commits."""


class Position(NamedTuple):
    """A state of the contents.

    `version` tells whether they changed: it is the number that the store keeps for that. `time` is the
    first time at which nothing had been written yet, so that later commits are those at or after it.
    `lineage` changes when other contents take the place of these as a whole.
    """

    version: int
    time: int
    lineage: str = ""


class Commit(NamedTuple):
    """What was committed at one time."""

    time: int
    updates: Sequence[Update]


class Store(Protocol):
    """One opener's hold on a backend."""

    @property
    def name(self) -> str: ...

    @property
    def epoch(self) -> int: ...

    @property
    def nonce(self) -> str: ...

    def check(self) -> Position:
        """Where the contents are now. The cheapest call that notices a fence."""
        ...

    def confirm(self) -> None:
        """As `check`, but reads the fence itself, whatever a cheaper sign says."""
        ...

    def read(self, collections: Sequence[str]) -> tuple[Position, Mapping[str, Rows]]:
        """The live rows of some collections in one consistent state, by key, and which that is."""
        ...

    def commits_since(self, position: Position) -> tuple[Position, list[Commit]] | None:
        """What was committed after a position, in order, and where that leads.

        None when the single steps are gone: merged, or replaced by other contents.
        """
        ...

    def updates(self) -> Iterable[Update]:
        """Every update of the contents that the store still holds."""
        ...

    def wait(self, timeout_s: float) -> None:
        """Return when something may have been committed, or the time is up."""
        ...

    def commit(self, position: Position, changes: Sequence[RowChange]) -> Position:
        """Append changes made on top of a position; `ConcurrentChange` when the contents moved since."""
        ...

    def close(self) -> None: ...


class SavepointStore:
    """Lays what would be written over a store that is only read. Nothing ever reaches the store."""

    def __init__(self, store: Store, contents: MemoryContents, position: Position) -> None:
        self._store = store
        self._contents = contents
        self._position = position
        self.name = store.name
        self.epoch = store.epoch
        self.nonce = store.nonce

    def check(self) -> Position:
        self._store.check()
        return self._position

    def confirm(self) -> None:
        self._store.confirm()

    def read(self, collections: Sequence[str]) -> tuple[Position, Mapping[str, Rows]]:
        return self.check(), {name: self._contents.table(name) for name in collections}

    def commits_since(self, position: Position) -> tuple[Position, list[Commit]] | None:
        return (self.check(), []) if position == self._position else None

    def updates(self) -> Iterable[Update]:
        yield from self._store.updates()
        for row, diff in self._contents.changes():
            yield Update(*row, self._position.time, diff)

    def wait(self, timeout_s: float) -> None:
        self._store.wait(timeout_s)

    def commit(self, position: Position, changes: Sequence[RowChange]) -> Position:
        self._store.check()
        self._contents.write(changes)
        self._position = Position(position.version + 1, position.time + 1, position.lineage)
        return self._position

    def close(self) -> None:
        self._store.close()

"""Following a catalog: what was committed, in commit order, one commit at a time.

A subscription is a reader: it fails with `Fenced` once somebody else opens the catalog, before it hands
out (let alone decodes) anything that the newer opener wrote, whatever its format.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from hermit.durable.store import Position
from hermit.durable.table import Object
from hermit.formats import codec
from hermit.rows import Update

_WAIT_MIN_S = 0.002
_WAIT_MAX_S = 0.25


class ObjectChange(NamedTuple):
    """One object that came (+1) or went (-1). A changed object goes with its old value and comes anew."""

    kind: str
    object: Object[Any, Any]
    diff: int


class ChangeBatch(NamedTuple):
    """What one commit changed. Times only grow, from one commit to the next."""

    time: int
    updates: tuple[Update, ...]

    def objects(self) -> list[ObjectChange]:
        """The changes, decoded."""
        return [
            ObjectChange(
                update.collection,
                Object(
                    codec.decode_key(update.collection, update.key),
                    codec.decode_value(update.collection, update.value),
                ),
                update.diff,
            )
            for update in self.updates
        ]


class Subscription:
    """Commits after a position. `poll` takes what is there; iterating waits for more, for ever."""

    def __init__(
        self,
        read: Callable[[Position], tuple[Position, list[ChangeBatch]]],
        wait: Callable[[float], None],
        position: Position,
    ) -> None:
        self._read = read
        self._wait = wait
        self._position = position
        self._pending: deque[ChangeBatch] = deque()
        self._closed = False

    def poll(self) -> list[ChangeBatch]:
        """Every commit that is there and was not handed out yet."""
        return list(iter(lambda: self.next(timeout_s=0), None))

    def next(self, timeout_s: float | None = None) -> ChangeBatch | None:
        """The next commit; None when none came in time, or the subscription was closed."""
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        wait_s = _WAIT_MIN_S
        while not self._closed:
            if not self._pending:
                self._position, batches = self._read(self._position)
                self._pending.extend(batches)
            if self._pending:
                return self._pending.popleft()
            left_s = _WAIT_MAX_S if deadline_s is None else deadline_s - time.monotonic()
            if left_s <= 0:
                return None
            # Waiting longer each time keeps an idle follower cheap and a busy one prompt.
            self._wait(min(wait_s, left_s))
            wait_s = min(wait_s * 2, _WAIT_MAX_S)
        return None

    def close(self) -> None:
        """End the iteration, also in another thread."""
        self._closed = True

    def __iter__(self) -> Iterator[ChangeBatch]:
        while (batch := self.next()) is not None:
            yield batch

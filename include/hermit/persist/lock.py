"""The write lock of a location: one runtime at a time may `write` and `seal`.

The lock is a record in a collection of its own, taken and given back by compare-and-append like anything
else. Whoever holds it makes every commit conditional on that collection's upper: once the lock was
broken or taken over, the old holder's next commit fails. A holder names itself by a reentrance ID; the
same ID takes the lock over again after a crash, another one is refused. Without an ID of its own a
runtime gets a random one, so that after a crash an operator has to break the lock.

Giving one reentrance ID to two live writers takes the lock from one of them: the older one stops with
`LockLost`. `compare_and_append` needs no lock and ignores it.
"""

from __future__ import annotations

import json
import os
import socket
from contextlib import suppress
from dataclasses import dataclass

from hermit.persist.appender import Append, Appender
from hermit.persist.errors import Locked, UpperMismatch
from hermit.persist.failpoints import fail_point
from hermit.persist.reader import Reader
from hermit.persist.table import Table

COLLECTION = "hermit.lock"
_KEY = b"holder"


@dataclass(frozen=True)
class Holder:
    """Who holds the lock."""

    reentrance_id: str
    host: str
    pid: int
    acquired_ms: int

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host} (reentrance ID {self.reentrance_id})"

    def encode(self) -> bytes:
        return json.dumps(self.__dict__, sort_keys=True).encode()

    @classmethod
    def decode(cls, data: bytes) -> Holder:
        return cls(**json.loads(data))


class WriteLock:
    """The lock of one location."""

    def __init__(self, table: Table, reader: Reader, appender: Appender) -> None:
        self._table = table
        self._reader = reader
        self._appender = appender

    def holder(self) -> tuple[Holder | None, int]:
        """Who holds the lock, and the upper of its collection at that moment."""
        upper = self._table.refresh().upper(COLLECTION)
        if upper == 0:
            return None, 0
        for _, table in self._reader.tables([COLLECTION], upper - 1):
            for value in table["value"].to_pylist():
                return Holder.decode(value), upper
        return None, upper

    def acquire(self, reentrance_id: str, now_ms: int) -> int:
        """Take the lock, or take it over under the same ID; the upper to make commits conditional on."""
        mine = Holder(reentrance_id, socket.gethostname(), os.getpid(), now_ms)
        while True:
            current, upper = self.holder()
            if current is not None and current.reentrance_id != reentrance_id:
                raise Locked(
                    f"{self._table.storage.location} is locked by {current}",
                    holder=str(current),
                    reentrance_id=current.reentrance_id,
                )
            with suppress(UpperMismatch):  # somebody else was quicker: look who
                return self._replace(current, mine, upper)

    def release(self, upper: int) -> None:
        """Give the lock back, if it is still held since that upper."""
        current, now = self.holder()
        if current is not None and now == upper:
            self._replace(current, None, upper)

    def force(self) -> Holder | None:
        """Break the lock, whoever holds it; who did."""
        while True:
            current, upper = self.holder()
            if current is None:
                return None
            with suppress(UpperMismatch):  # it changed hands just now: look again
                self._replace(current, None, upper)
                return current

    def _replace(self, old: Holder | None, new: Holder | None, upper: int) -> int:
        records = [(_KEY, holder.encode(), upper, diff) for holder, diff in ((old, -1), (new, 1)) if holder]
        append = Append(
            expected={COLLECTION: upper},
            new_upper={COLLECTION: upper + 1},
            since={COLLECTION: upper},
            updates={COLLECTION: records},
        )
        self._appender.append(append)
        fail_point("lock.taken")
        return upper + 1

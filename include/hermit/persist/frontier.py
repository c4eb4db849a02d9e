"""Times and frontiers: `[since, upper)` of a collection, and how they are stored.

A time is an unsigned 64-bit number; a frontier is a time or `END`, the one past the last time. Contents
are definite at every time t with `since <= t < upper`, and both bounds only move forward.

Delta knows signed longs only. A time is stored as the signed number with the same 64 bits, so that
every time below 2**63 looks the same to a plain Delta reader. Frontiers are stored in the same way; a
frontier of 0 is never stored (a collection that nobody moved is absent), so that a stored 0 is `END`.
"""

from __future__ import annotations

from typing import NamedTuple

from hermit.errors import InvalidInput

TIME_MAX = (1 << 64) - 1
END = 1 << 64
_SIGN = 1 << 63
DIFF_MIN, DIFF_MAX = -_SIGN, _SIGN - 1


class Frontier(NamedTuple):
    """The times at which a collection can be read: `since <= t < upper`."""

    since: int = 0
    upper: int = 0

    def __str__(self) -> str:
        return f"[{self.since}, {'end' if self.upper == END else self.upper})"


ZERO = Frontier()


def time_to_long(time: int) -> int:
    """The signed number that stands for a time in a Delta table."""
    if not 0 <= time <= TIME_MAX:
        raise InvalidInput(f"a time must lie between 0 and 2**64 - 1, not {time}", time=time)
    return time - END if time >= _SIGN else time


def time_from_long(stored: int) -> int:
    """The time that a stored number stands for."""
    return stored + END if stored < 0 else stored


def frontier_to_long(frontier: int) -> int:
    """The version of the Delta `txn` action that stands for a frontier above 0."""
    if not 1 <= frontier <= END:
        raise InvalidInput(f"a frontier must lie between 1 and 2**64, not {frontier}", frontier=frontier)
    return 0 if frontier == END else time_to_long(frontier)


def frontier_from_long(stored: int) -> int:
    """The frontier that the version of a `txn` action stands for."""
    return END if stored == 0 else time_from_long(stored)

"""A hybrid logical clock: physical milliseconds, and a counter for what happens within one.

A timestamp is one 64-bit number, `physical_ms << 16 | logical`, so that comparing and bisecting are those
of integers. The clock keeps two promises, whatever the machine's clock does: `now()` is greater than
everything it returned before, and greater than everything it was shown by `update()`. So a node that has
applied a version never gives out a timestamp at which that version was not active.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import NewType

from hermit.durable import now_ms

HybridTimestamp = NewType("HybridTimestamp", int)

LOGICAL_BITS = 16
BEGINNING = HybridTimestamp(0)
"""Before everything: the activation time of version 0."""


def hybrid(physical_ms: int, logical: int = 0) -> HybridTimestamp:
    """The timestamp of a physical time."""
    return HybridTimestamp(physical_ms << LOGICAL_BITS | logical)


def physical_ms(timestamp: HybridTimestamp) -> int:
    """The physical part, in ms."""
    return timestamp >> LOGICAL_BITS


def after_ms(timestamp: HybridTimestamp, ms: int) -> HybridTimestamp:
    """The timestamp some time later."""
    return HybridTimestamp(timestamp + (ms << LOGICAL_BITS))


def monotonic_ms() -> int:
    """Time that only goes forward, for waiting; it says nothing about the date."""
    return time.monotonic_ns() // 1_000_000


class HybridClock:
    """The clock of one node. `physical` gives ms; tests pass their own."""

    def __init__(self, physical: Callable[[], int] = now_ms) -> None:
        self._physical = physical
        self._last = 0
        self._lock = threading.Lock()

    def now(self) -> HybridTimestamp:
        """A timestamp greater than any before."""
        with self._lock:
            self._last = max(self._physical() << LOGICAL_BITS, self._last + 1)
            return HybridTimestamp(self._last)

    def update(self, seen: HybridTimestamp) -> None:
        """Take note of another node's timestamp: the next one here is greater."""
        with self._lock:
            self._last = max(self._last, seen)

    def physical_ms(self) -> int:
        """The machine's time, which does not count as a timestamp given out."""
        return self._physical()

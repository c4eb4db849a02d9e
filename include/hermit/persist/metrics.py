"""Counters that say what a client did to its store, for status pages and tests."""

from __future__ import annotations

import threading
from collections import Counter


class Metrics:
    """Named counters, safe to raise from many threads."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def add(self, name: str, amount: int = 1) -> None:
        with self._lock:
            self._counts[name] += amount

    def __getitem__(self, name: str) -> int:
        return self._counts[name]

    def snapshot(self) -> dict[str, int]:
        """All counters at this moment."""
        with self._lock:
            return dict(self._counts)

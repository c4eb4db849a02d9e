"""Tells futures and listeners, in order, and away from the thread that follows the log.

What a listener or a callback does, and how long it takes, is not the log's concern. Without a thread of its
own (a node that is stepped by hand) everything is told at once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

Call = Callable[[], object]


class Notifier:
    """Runs calls one after the other."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[Call | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def submit(self, call: Call) -> None:
        """Run this after everything submitted before it."""
        if self._thread is None:
            call()
        else:
            self._calls.put(call)

    def start(self, name: str) -> None:
        """Run calls in a thread from now on."""
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Run what was submitted, and end the thread."""
        if self._thread is not None:
            self._calls.put(None)
            if self._thread is not threading.current_thread():
                self._thread.join()
            self._thread = None

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            call()

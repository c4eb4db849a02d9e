"""How long a runtime lives: from the first write handle to the last clone of the client.

Clones share one runtime. It stops when any of them is stopped, or when the last one is gone; both let
pending calls finish. After a stop, no clone takes new work, reading included, so that nobody goes on
with a client that another part of the program has put away.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable

from hermit.persist.errors import Stopped
from hermit.persist.runtime import Runtime


class RuntimeSlot:
    """The place of the runtime that clones share. It must not refer to them, or they would never be gone."""

    def __init__(self, location: str, start: Callable[[], Runtime]) -> None:
        self._location = location
        self._start = start
        self._runtime: Runtime | None = None
        self._clones = 0
        self._lock = threading.RLock()  # a finalizer may run in a thread that holds it
        self.is_stopped = False

    def register(self, clone: object) -> None:
        """Count a clone until it is garbage."""
        with self._lock:
            self._clones += 1
        weakref.finalize(clone, self._dropped)

    def get(self) -> Runtime:
        """The runtime, started if need be, which takes the write lock."""
        with self._lock:
            self.check()
            if self._runtime is None:
                self._runtime = self._start()
            return self._runtime

    def check(self) -> None:
        """Refuse new work after a stop."""
        if self.is_stopped:
            raise Stopped(f"the client of {self._location} was stopped")

    def stop(self, *, wait: bool = True) -> None:
        """Finish pending calls, give the lock back, refuse everything from now on."""
        with self._lock:
            self.is_stopped = True
            runtime = self._runtime
        if runtime is not None:
            runtime.stop(wait=wait)

    def _dropped(self) -> None:
        # Called by the garbage collector, in any thread: it must not wait for anything but a moment.
        with self._lock:
            self._clones -= 1
            last = self._clones == 0
        if last:
            self.stop(wait=False)

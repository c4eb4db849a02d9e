"""Runs calls in order, away from the thread that follows the log.

What a listener or a callback does, and how long it takes, is not the log's concern. Without a thread of its
own (a node that is stepped by hand) everything is run at once.

A call that takes long holds up those behind it, and if it waits for one of them, for ever: a callback that
executes a command and waits for its result. So whoever submits calls looks in from time to time: with
`relieve` another thread goes on with the queue, and the one that was held up ends with its call.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable

Call = Callable[[], object]

_logger = logging.getLogger(__name__)


class Notifier:
    """Runs calls one after the other."""

    def __init__(self) -> None:
        self._calls: deque[Call | None] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._worker: threading.Thread | None = None
        self._name = ""
        self._busy_since_s: float | None = None

    def submit(self, call: Call) -> None:
        """Run this after everything submitted before it."""
        if self._thread is None:
            call()
            return
        with self._changed:
            self._calls.append(call)
            self._changed.notify()

    def start(self, name: str) -> None:
        """Run calls in a thread from now on."""
        self._name = name
        self._thread = self._worker = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def relieve(self, patience_s: float) -> None:
        """Go on in another thread if a call takes longer than this while others wait."""
        with self._changed:
            since = self._busy_since_s
            if self._thread is None or not self._calls or since is None:
                return
            if time.monotonic() - since > patience_s:
                self._busy_since_s = None
                self.start(self._name)

    def stop(self, patience_s: float | None = None) -> None:
        """Run what was submitted, and end the thread; one that is held up for longer is left behind."""
        thread = self._thread
        if thread is None:
            return
        with self._changed:
            self._calls.append(None)
            self._changed.notify()
        if thread is not threading.current_thread():
            thread.join(patience_s)
        self._thread = None

    def _run(self) -> None:
        me = threading.current_thread()
        while True:
            with self._changed:
                if self._worker is not me:
                    return
                self._busy_since_s = None
                self._changed.wait_for(lambda: self._calls)
                call = self._calls.popleft()
                self._busy_since_s = time.monotonic()
            if call is None:
                return
            try:
                call()
            except BaseException:
                # Not even a listener that wants to end the process ends this thread: others wait for it.
                _logger.exception("a call of the catalog service's node failed")

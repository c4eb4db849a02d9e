"""Whether somebody holds a catalog open for writing right now.

Fencing needs no such thing: a newer opener simply wins. But whoever is about to fence a running server by
accident, with an edit at night, should be told first. A writer therefore holds a shared lock, named
after its epoch, that vanishes with its process: in PostgreSQL an advisory lock of its session, on a local
shard a file lock. It guards nothing and may be absent (object stores have none): it is a courtesy.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import weakref
from collections.abc import Callable
from pathlib import Path

_FOLDER = "_hermit/holders"


class ShardPresence:
    """A lock on a file that is named after an epoch, beside a local shard."""

    def __init__(self, location: str, epoch: int) -> None:
        self._path = None if "://" in location else Path(location) / _FOLDER / str(epoch)
        self._release: Callable[[], object] | None = None

    def hold(self) -> None:
        """Take the lock, and clear away those of earlier epochs."""
        if self._path is None:
            return
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            for other in self._path.parent.iterdir():
                if other.name.isdigit() and int(other.name) < int(self._path.name):
                    other.unlink(missing_ok=True)
            file = os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o666)
            self._release = weakref.finalize(self, os.close, file)
            fcntl.flock(file, fcntl.LOCK_SH)

    def is_held(self) -> bool:
        """Whether anybody has the lock."""
        if self._path is None:
            return False
        try:
            with self._path.open() as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def release(self) -> None:
        """Let go; a handle that is merely forgotten lets go too."""
        if self._release is not None:
            self._release()

"""Waiting for a new name in a folder: through inotify where there is one, by looking again otherwise.

The kernel tells a waiting reader about a commit as soon as a writer on the same host links it. Nobody else
has to do anything: the writer does not know its readers, and the reader writes nothing. Changes made on
another host (a network file system) are not announced, so that a wait also looks again at intervals.
"""

from __future__ import annotations

import ctypes
import os
import select
import time
from collections.abc import Callable
from functools import cache

from hermit.persist.storage.abc import poll

LOOK_AGAIN_S = 0.25
_CREATED = 0x00000100
_MOVED_TO = 0x00000080
_FLAGS = os.O_CLOEXEC | os.O_NONBLOCK


def wait_in_folder(
    folder: str, condition: Callable[[], bool], timeout_s: float, look_again_s: float = LOOK_AGAIN_S
) -> bool:
    """Wait until the condition holds, which depends on the names in a folder."""
    if condition():
        return True
    watch = _watch(folder)
    if watch is None:
        return poll(condition, timeout_s)
    try:
        deadline_s = time.monotonic() + timeout_s
        while not condition():
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                return False
            if select.select([watch], [], [], min(left_s, look_again_s))[0]:
                os.read(watch, 65536)
        return True
    finally:
        os.close(watch)


def _watch(folder: str) -> int | None:
    """A file descriptor that becomes readable when a name appears in the folder."""
    libc = _libc()
    if libc is None:
        return None
    descriptor = libc.inotify_init1(_FLAGS)
    if descriptor < 0:
        return None
    if libc.inotify_add_watch(descriptor, os.fsencode(folder), _CREATED | _MOVED_TO) < 0:
        os.close(descriptor)
        return None
    return int(descriptor)


@cache
def _libc() -> ctypes.CDLL | None:
    library = ctypes.CDLL(None, use_errno=True)
    return library if hasattr(library, "inotify_init1") else None

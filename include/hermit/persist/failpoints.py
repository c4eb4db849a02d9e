"""Points at which a test can kill the process, to see that a crash there loses and tears nothing.

`HERMIT_PERSIST_FAIL_POINT=name` or `name:3` kills the process with SIGKILL at the first, or third, pass of
that point. Without it a point costs one comparison.
"""

from __future__ import annotations

import os
import signal

from hermit.errors import invariant

VARIABLE = "HERMIT_PERSIST_FAIL_POINT"
POINTS = (
    "blob.written",
    "blob.synced",
    "blob.named",
    "log.written",
    "log.linked",
    "log.synced",
    "append.files",
    "append.committed",
    "checkpoint.file",
    "checkpoint.pointer",
    "compaction.files",
    "compaction.committed",
    "vacuum.file",
    "vacuum.log",
    "lock.taken",
)
_armed: dict[str, int] = {}  # passes that are left


def arm(name: str, passes: int = 1) -> None:
    """Have the process killed at this point."""
    invariant(name in POINTS, f"unknown fail point {name!r}")
    _armed[name] = passes


def fail_point(name: str) -> None:
    """Die here if a test wants it."""
    if not _armed:
        return
    invariant(name in POINTS, f"unknown fail point {name!r}")
    if name in _armed:
        _armed[name] -= 1
        if _armed[name] == 0:
            os.kill(os.getpid(), signal.SIGKILL)


if VARIABLE in os.environ:
    _name, _, _passes = os.environ[VARIABLE].partition(":")
    arm(_name, int(_passes or 1))

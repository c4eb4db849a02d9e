"""Points at which a test can kill the process, to see that a crash there loses and tears nothing.

Each room names its points and gets an environment variable. `name` or `name:3` kills the process with SIGKILL
at the first, or third, pass of that point; `name@path` does so only if no process did before, and leaves the
file as a mark that it did. Without the variable a point costs one comparison.
"""

from __future__ import annotations

import os
import signal

from hermit.errors import invariant


class FailPoints:
    """The points of one room."""

    def __init__(self, variable: str, points: tuple[str, ...]) -> None:
        self.variable = variable
        self.points = points
        self._armed: dict[str, int] = {}  # passes that are left
        self._mark: str | None = None
        if variable in os.environ:
            point, _, mark = os.environ[variable].partition("@")
            name, _, passes = point.partition(":")
            self.arm(name, int(passes or 1), mark or None)

    def arm(self, name: str, passes: int = 1, mark: str | None = None) -> None:
        """Have the process killed at this point."""
        invariant(name in self.points, f"unknown fail point {name!r}")
        self._armed[name] = passes
        self._mark = mark

    def __call__(self, name: str) -> None:
        """Die here if a test wants it."""
        if not self._armed:
            return
        invariant(name in self.points, f"unknown fail point {name!r}")
        if name in self._armed:
            self._armed[name] -= 1
            if self._armed[name] == 0 and self._may_die():
                os.kill(os.getpid(), signal.SIGKILL)

    def _may_die(self) -> bool:
        """Whether this process is the first that got here, where only one is to die."""
        if self._mark is None:
            return True
        try:
            os.close(os.open(self._mark, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError:
            return False
        return True

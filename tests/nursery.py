"""Starts processes for tests that kill or race them.

`Nursery` runs this module as a program that has the heavy imports done and forks a child for each request, so
that hundreds of them are affordable. Nothing but imports happens in it, so that a child inherits no threads
and no connections.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any


class Nursery:
    """Starts children and waits for them. `modules` are imported once, before the first child."""

    def __init__(self, *modules: str) -> None:
        self._server = subprocess.Popen(
            [sys.executable, "-m", "tests.nursery", *modules],
            cwd=Path(__file__).parents[1],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(
        self, target: Callable[..., None], *args: Any, environment: dict[str, str] | None = None
    ) -> int:
        """Run a function of a module in a child; its process ID. Arguments travel as JSON."""
        name = [target.__module__, target.__name__]
        return self._ask(start=name, args=args, environment=environment or {})

    def wait(self, pid: int) -> int:
        """The exit code of a child, negative if a signal ended it."""
        return self._ask(wait=pid)

    def run(self, target: Callable[..., None], *args: Any) -> int:
        """Start and wait."""
        return self.wait(self.start(target, *args))

    def stop(self) -> None:
        for pipe in (self._server.stdin, self._server.stdout):
            if pipe is not None:
                pipe.close()
        self._server.wait()

    def _ask(self, **request: Any) -> int:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        return int(self._server.stdout.readline())


def serve(modules: list[str]) -> None:
    """Fork a child for each request on standard input."""
    # What pyarrow imports when it gets its first values, which would be in every child.
    for module in ("pandas", *modules):
        importlib.import_module(module)
    for line in sys.stdin:
        request = json.loads(line)
        if "wait" in request:
            answer = os.waitstatus_to_exitcode(os.waitpid(request["wait"], 0)[1])
        else:
            answer = os.fork()
            if answer == 0:
                _child(request)
        print(answer, flush=True)


def _child(request: dict[str, Any]) -> None:
    code = 1
    try:
        os.environ.update(request["environment"])
        module, function = request["start"]
        # Standard output carries the answers.
        os.dup2(2, 1)
        getattr(importlib.import_module(module), function)(*request["args"])
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


if __name__ == "__main__":
    serve(sys.argv[1:])

"""Nodes of the service in processes of their own: started, ordered about, paused and killed."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermit.service.log import LogContents
from hermit.service.manager import CatalogManager
from tests.service.worker import SETTINGS, worker_home

NODES = 4
_ROOT = Path(__file__).resolve().parents[2]
_WAIT_S = 240
Record = dict[str, Any]


def poll(condition: Callable[[], object], what: str) -> None:
    """Wait until something holds."""
    end = time.monotonic() + _WAIT_S
    while not condition():
        if time.monotonic() > end:
            pytest.fail(f"waited too long: {what}")
        time.sleep(0.02)


class Node:
    """A process with a node in it."""

    def __init__(self, home: dict[str, str], output: Path, name: str, seed: int) -> None:
        self.output = output
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.service.worker", json.dumps(home), str(output), name, str(seed)],
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def order(self, *line: object) -> str:
        """Tell the process to do something; what it answers."""
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join(map(str, line)) + "\n")
        self._process.stdin.flush()
        return self.answer()

    def answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def send(self, signal_: signal.Signals) -> None:
        self._process.send_signal(signal_)

    def end(self) -> None:
        """Let it write down what it knows."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(_WAIT_S) == 0
        self.kill()

    def kill(self) -> None:
        """End it, whatever it does at the moment, unless it has ended."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait(_WAIT_S)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None and not stream.closed:
                stream.close()

    def records(self) -> list[Record]:
        lines = self.output.read_text().splitlines() if self.output.exists() else []
        found = []
        for line in lines:
            try:
                found.append(json.loads(line))
            except ValueError:
                assert line is lines[-1], "only a last line may be torn"
        return found


class Processes:
    """Four nodes, each replaced when it is killed."""

    def __init__(self, home: dict[str, str], folder: Path, seed: int) -> None:
        self._home = home
        self._folder = folder
        self._count = 0
        self._updates: dict[str, bytes] = {}
        self.rng = random.Random(seed)
        self.everyone: list[Node] = []
        self.alive = [self._start() for _ in range(NODES)]
        for node in self.alive:
            assert node.answer() == "ready"

    def _start(self) -> Node:
        self._count += 1
        name = f"n{self._count}"
        node = Node(self._home, self._folder / f"{name}.jsonl", name, self.rng.randrange(10**6))
        self.everyone.append(node)
        return node

    def kill_one(self) -> None:
        """Kill a node at random and start another in its place."""
        victim = self.rng.randrange(NODES)
        self.alive[victim].kill()
        self.alive[victim] = self._start()
        assert self.alive[victim].answer() == "ready"

    def wait_for_acknowledged(self, count: int) -> None:
        """Wait until so many changes were acknowledged by all nodes together."""
        poll(lambda: self._acknowledged() >= count, f"{count} changes to be acknowledged")

    def _acknowledged(self) -> int:
        return sum(each.output.read_text().count('"ok"') for each in self.everyone if each.output.exists())

    def keep_updates(self) -> int:
        """Remember what the log holds before somebody compacts it, and up to which version that is."""
        with self.late_joiner() as late:
            contents: LogContents = late.ask(lambda log: log.read()).result(_WAIT_S)
        self._updates = {**contents.rows, **self._updates}
        return contents.version

    def late_joiner(self) -> CatalogManager:
        """One more node, in this process, not started yet."""
        return CatalogManager(worker_home(self._home), settings=SETTINGS)

    def finish(self, late: CatalogManager) -> LogContents:
        """Let all clients end, a late joiner read the whole log, and all nodes reach its end.

        The contents are those of the log as if nobody had compacted it.
        """
        for node in self.alive:
            assert node.order("finish") == "finished"
        contents: LogContents = late.ask(lambda log: log.read()).result(_WAIT_S)
        for node in self.alive:
            assert node.order("reach", contents.version) == str(contents.version)
            node.end()
        late.catalog_ready(contents.version).result(_WAIT_S)
        updates = {key: row for key, row in self._updates.items() if key.startswith("catalog.update.")}
        rows = {**contents.rows, **updates}
        rows.pop("catalog.snapshot.version", None)
        return LogContents(rows, contents.marshaller)

    def close(self) -> None:
        for node in self.everyone:
            node.kill()

"""What runs on the log between two steps of a node: handed in by any thread, run by the node's own."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from hermit.errors import Fenced, HermitError, Unavailable
from hermit.service.errors import VersionConflict
from hermit.service.futures import fail, succeed
from hermit.service.log import UpdateLog
from hermit.service.notifier import Notifier

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Asked(Generic[T]):
    """Something to run on the log."""

    task: Callable[[UpdateLog], T]
    future: Future[T]
    deadline_ms: int


class Tasks:
    """Tasks in the order in which they were asked for."""

    def __init__(self, answers: Notifier) -> None:
        self._answers = answers
        self._waiting: deque[_Asked[Any]] = deque()

    def ask(self, task: Callable[[UpdateLog], T], deadline_ms: int) -> Future[T]:
        """Run a task when its turn comes."""
        asked = _Asked(task, Future(), deadline_ms)
        self._waiting.append(asked)
        return asked.future

    def run(self, log: UpdateLog) -> bool:
        """Run each once; whether some are left, because somebody else wrote first."""
        for _ in range(len(self._waiting)):
            asked = self._waiting.popleft()
            try:
                result = asked.task(log)
            except VersionConflict:
                self._waiting.append(asked)
            except (Fenced, Unavailable):
                self._waiting.append(asked)
                raise
            except Exception as error:
                self._answers.submit(partial(fail, asked.future, error))
            else:
                self._answers.submit(partial(succeed, asked.future, result))
        return bool(self._waiting)

    def expire(self, now_ms: int, late: HermitError) -> None:
        """Fail those whose time is up."""
        for _ in range(len(self._waiting)):
            asked = self._waiting.popleft()
            if asked.deadline_ms <= now_ms:
                self._answers.submit(partial(fail, asked.future, late))
            else:
                self._waiting.append(asked)

    def fail_all(self, error: HermitError) -> None:
        """Fail every task: nothing will run any more."""
        while self._waiting:
            self._answers.submit(partial(fail, self._waiting.popleft().future, error))

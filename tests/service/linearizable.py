"""Whether what all clients saw can have happened one after the other: linearizability, decided exactly.

The log gives the order of all changes: the change that made version N is the N-th. What is left is to find a
place between two changes for every operation that changed nothing, such that its answer is right there and
that whatever was over before something else began stands before it. Going through the operations in the
order in which they began, and giving each the first place that is possible, finds such places if there are
any: an earlier place never makes another operation's place impossible.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Operation:
    """What one client asked for, when, and what it was told.

    A change has the version that it made. Everything else has a rule that says at which versions the answer
    that was given is right. An operation whose client never heard of it ends never.
    """

    id: str
    begun: float
    ended: float = math.inf
    version: int | None = None
    is_right_at: Callable[[int], bool] | None = None


def violations(operations: Iterable[Operation], latest: int) -> list[str]:
    """Every operation that no order of all operations explains; none if the history is linearizable."""
    found: list[str] = []
    running: list[tuple[float, int]] = []
    floor = 0
    for operation in sorted(operations, key=lambda each: (each.begun, each.ended)):
        while running and running[0][0] < operation.begun:
            floor = max(floor, heapq.heappop(running)[1])
        place = _place(operation, floor, latest)
        if place is None:
            what = "cannot have come" if operation.version else "was told what was not true"
            found.append(f"{operation.id} {what} after version {floor // 2}: {operation}")
        else:
            heapq.heappush(running, (operation.ended, place))
    return found


def _place(operation: Operation, floor: int, latest: int) -> int | None:
    """The change to version N is at 2 N, and what sees version N at 2 N + 1."""
    if operation.version is not None:
        place = 2 * operation.version
        return place if place > floor else None
    is_right_at = operation.is_right_at or (lambda version: True)
    return next((2 * each + 1 for each in range(floor // 2, latest + 1) if is_right_at(each)), None)

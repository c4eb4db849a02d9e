"""Running the partitions of a plan: the ones that are left, watched, wherever the caller runs them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from hermit.migration.failpoints import fail_point
from hermit.migration.parts import Part, Plan, merge
from hermit.migration.progress import Monitor
from hermit.migration.throttle import Limits

# Below this, starting a second worker costs more than it saves.
SMALL_BYTES = 8 << 20
# As much as the stash holds, threads of the driver copy before a cluster would have begun.
HERE_BYTES = 64 << 20
_THREADS_MAX = 8
# What is lost when a task dies, and what the next attempt does again at most.
_PARTITION_BYTES = 256 << 20
_PARTITIONS_MAX = 10_000

Task: TypeAlias = tuple[str, Any]
"""A partition: its name, and what it is."""
Run: TypeAlias = "Callable[[Callable[[Task], Part], Sequence[Task]], list[Part]]"
"""Calls a function on every item, wherever it likes: under Spark, or one after the other."""


@dataclass(frozen=True)
class Workers:
    """Who does the work: how, how many at once, and within which limits."""

    run: Run
    parallelism: Callable[[], int] = lambda: 2
    limits: Limits = field(default_factory=Limits)
    say: Callable[[str], None] | None = None

    def partitions(self, rows: int, size: int, *, here: bool = False) -> int:
        """Into how many partitions to cut so much, for executors or for threads of the driver."""
        if self.limits.rows_per_partition is not None:
            wanted = -(-rows // self.limits.rows_per_partition)
        elif size < SMALL_BYTES:
            wanted = 1
        elif here:
            wanted = cores_here()
        else:
            # Several per core even out what a slow one costs, where a task is not mostly its own start.
            each = 1 if size < _PARTITION_BYTES else 2
            cores = self.parallelism()
            wanted = max(each * cores, -(-size // _PARTITION_BYTES))
            # No core is idle while the last ones are done.
            wanted = -(-wanted // cores) * cores
        return max(1, min(wanted, _PARTITIONS_MAX))

    def stays_here(self, size: int) -> bool:
        """Whether so much is done by threads of the driver. Whoever names the size of a task wants tasks."""
        return self.limits.rows_per_partition is None and size < HERE_BYTES


def cores_here() -> int:
    """How many threads of this process get something done at once."""
    return min(os.cpu_count() or 1, _THREADS_MAX)


def do(
    workers: Workers,
    location: str,
    batch: str,
    plan: Plan,
    finished: Mapping[str, Part],
    function: Callable[[Task], Part],
    *,
    here: bool,
) -> Part:
    """Run the partitions that are not finished, and give all of them together.

    `here`: in threads of this process, which do not wait for each other while Arrow copies.
    """
    fail_point("snapshot.begun")
    left = [(name, item) for name, item in plan.partitions.items() if name not in finished]
    if workers.say is not None and finished:
        workers.say(f"{len(finished)} of {len(plan.partitions)} partitions were staged by an earlier attempt")
    here = here or len(plan.partitions) == 1
    with Monitor(
        location,
        batch,
        plan.direction,
        list(plan.partitions),
        plan.rows_total,
        finished={name: (part.rows, part.bytes) for name, part in finished.items()},
        limits=workers.limits,
        parallelism=min(cores_here(), len(plan.partitions)) if here else workers.parallelism(),
        say=workers.say,
    ):
        done = _threads(function, left) if here or not left else workers.run(function, left)
    fail_point("snapshot.staged")
    return merge([*(replace(part, reused=part.rows) for part in finished.values()), *done])


def _threads(function: Callable[[Task], Part], tasks: Sequence[Task]) -> list[Part]:
    with ThreadPoolExecutor(cores_here()) as pool:
        return list(pool.map(function, tasks))

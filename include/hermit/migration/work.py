"""Running the partitions of a plan: the ones that are left, watched, wherever the caller runs them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from hermit.migration.failpoints import fail_point
from hermit.migration.parts import Part, Plan, merge
from hermit.migration.progress import Monitor
from hermit.migration.throttle import Limits

# Below this, starting a second worker costs more than it saves.
SMALL_BYTES = 8 << 20
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

    def partitions(self, rows: int, size: int) -> int:
        """Into how many partitions to cut so much."""
        if self.limits.rows_per_partition is not None:
            wanted = -(-rows // self.limits.rows_per_partition)
        elif size < SMALL_BYTES:
            wanted = 1
        else:
            # Several per core even out what a slow one costs, where a task is not mostly its own start.
            each = 1 if size < _PARTITION_BYTES else 2
            cores = self.parallelism()
            wanted = max(each * cores, -(-size // _PARTITION_BYTES))
            # No core is idle while the last ones are done.
            wanted = -(-wanted // cores) * cores
        return max(1, min(wanted, _PARTITIONS_MAX))


def do(
    workers: Workers,
    location: str,
    batch: str,
    plan: Plan,
    finished: Mapping[str, Part],
    function: Callable[[Task], Part],
) -> Part:
    """Run the partitions that are not finished, and give all of them together."""
    fail_point("snapshot.begun")
    left = [(name, item) for name, item in plan.partitions.items() if name not in finished]
    if workers.say is not None and finished:
        workers.say(f"{len(finished)} of {len(plan.partitions)} partitions were staged by an earlier attempt")
    alone = len(plan.partitions) == 1
    with Monitor(
        location,
        batch,
        plan.direction,
        list(plan.partitions),
        plan.rows_total,
        finished={name: (part.rows, part.bytes) for name, part in finished.items()},
        limits=workers.limits,
        parallelism=1 if alone else workers.parallelism(),
        say=workers.say,
    ):
        # One small partition is done before a cluster would have begun.
        done = [function(task) for task in left] if alone or not left else workers.run(function, left)
    fail_point("snapshot.staged")
    return merge([*(replace(part, reused=part.rows) for part in finished.values()), *done])

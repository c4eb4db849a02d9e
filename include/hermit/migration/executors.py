"""Partitions of jobs beside a move, run by Spark: what `verify` and `generate` share.

These jobs leave no notes beside a shard. How far they are is asked of Spark, by partitions. Of the limits,
`rows_per_partition` and `max_parallelism` hold; a rate is refused, because nobody would keep to it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from hermit.errors import InvalidInput
from hermit.migration.move import Limits
from hermit.migration.parts import Part, merge
from hermit.migration.work import Task, Workers

_EVERY_S = 5.0


def on_spark(
    context: Callable[[], Any],
    request: Mapping[str, Any],
    say: Callable[[str], None],
    *,
    every_s: float = _EVERY_S,
) -> Workers:
    """Spark's executors. `context` gives the Spark context; it is asked when it is first needed."""
    limits = Limits.parse(request)
    if limits.max_rows_per_second is not None:
        raise InvalidInput("this job has no max_rows_per_second", hint="give max_parallelism")

    def run(function: Callable[[Task], Part], items: Sequence[Task]) -> list[Part]:
        tasks = min(len(items), limits.max_parallelism or len(items))
        with _watched(context(), say, every_s):
            found: list[Part] = context().parallelize(items, tasks).map(function).collect()
        return found

    return Workers(run, lambda: int(context().defaultParallelism), limits, say)


def each(workers: Workers, function: Callable[[Task], Part], tasks: Sequence[Task], alone: int = 1) -> Part:
    """What all tasks give together. As few as `alone` are done before a cluster would have begun."""
    few = len(tasks) <= alone
    return merge([function(task) for task in tasks] if few else workers.run(function, tasks))


@contextmanager
def _watched(context: Any, say: Callable[[str], None], every_s: float) -> Iterator[None]:
    """Say now and then how many tasks of the stages under way are done."""
    tracker, stop = context.statusTracker(), threading.Event()

    def watch() -> None:
        while not stop.wait(every_s):
            # The tasks matter, not what is told of them: whatever is wrong with Spark, they will say it.
            with suppress(Exception):
                for stage in map(tracker.getStageInfo, tracker.getActiveStageIds()):
                    if stage is not None:
                        say(f"progress: {stage.numCompletedTasks} of {stage.numTasks} tasks")

    thread = threading.Thread(target=watch, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()

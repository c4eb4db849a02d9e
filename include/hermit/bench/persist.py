"""Persist: what a commit, an opening, a check and a snapshot cost, beside what they are measured against.

Rivals and limits take turns with Hermit in one run, so that whatever else the machine does falls on both.
Hermit syncs everything to disk before it answers; the rival, a bare `write_deltalake`, syncs nothing.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake

from hermit.bench import Bar
from hermit.persist import PersistClient
from hermit.persist.batch import BatchWriter
from hermit.persist.maintenance import CHECKPOINT_INTERVAL
from hermit.persist.storage.disk import OsDisk
from hermit.persist.storage.local import local_storage

_ROWS = 10
_VALUE = b"v" * 100
_BLOCK = 64  # commits: two merges and about one checkpoint


def run(quick: bool, workdir: Path) -> list[Bar]:
    """Every speed bar of persist."""
    return [
        _commits(workdir, rounds=60 if quick else 200),
        _group_commit(workdir, rounds=3 if quick else 9),
        _leadership(workdir),
        *_history(workdir, commits=3_000 if quick else 10_000, blocks=4 if quick else 8),
        _snapshot(workdir, rounds=5 if quick else 11),
    ]


class _Appender:
    """Appends ten rows at a time to one collection of a location."""

    def __init__(self, location: Path) -> None:
        self.client = PersistClient.open(location)
        self.location = location
        self.upper = self.client.state().upper("items")

    def append(self) -> None:
        """Replace the ten rows, and let their history be folded."""
        records = [(b"key-%d" % row, _VALUE, self.upper, 1) for row in range(_ROWS)]
        self.client.compare_and_append(
            {"items": records},
            expected={"items": self.upper},
            new_upper={"items": self.upper + 1},
            since={"items": self.upper},
        )
        self.upper += 1

    def reopen(self) -> None:
        """As another process would."""
        PersistClient.open(self.location, mode="ro").state()

    def append_block(self) -> None:
        """So many that merges and checkpoints have their share in it."""
        for _ in range(_BLOCK):
            self.append()


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _in_turns(first: Callable[[], object], second: Callable[[], object], rounds: int) -> list[list[float]]:
    taken: list[list[float]] = [[], []]
    for _ in range(rounds):
        taken[0].append(_seconds(first))
        taken[1].append(_seconds(second))
    return taken


def _commits(workdir: Path, rounds: int) -> Bar:
    ours = _Appender(workdir / "commits")
    rows = pa.table(
        {
            "collection": ["items"] * _ROWS,
            "key": pa.array([b"key-%d" % row for row in range(_ROWS)], pa.binary()),
            "value": pa.array([_VALUE] * _ROWS, pa.binary()),
            "time": [1] * _ROWS,
            "diff": [1] * _ROWS,
        }
    )
    write_deltalake(str(workdir / "rival"), rows, partition_by=["collection"])
    rival = DeltaTable(str(workdir / "rival"))
    ours.append()
    mine, theirs = _in_turns(ours.append, lambda: write_deltalake(rival, rows, mode="append"), rounds)
    ratio = statistics.median(mine) / statistics.median(theirs)
    return Bar("compare_and_append of 10 rows / bare write_deltalake", ratio, 1.5)


def _group_commit(workdir: Path, rounds: int) -> Bar:
    with PersistClient.open(workdir / "group") as client:
        write, _ = client.create_or_load("items")
        record = [((b"key", _VALUE), 0, 1)]

        def one_by_one() -> None:
            for _ in range(64):
                write.write(record).result()

        def pending() -> None:
            for future in [write.write(record) for _ in range(64)]:
                future.result()

        pending()
        alone, together = _in_turns(one_by_one, pending, rounds)
        ratio = statistics.median(alone) / statistics.median(together)
    return Bar("throughput with 64 writes pending / one commit per write", ratio, 5.0, at_most=False)


class _CountingDisk(OsDisk):
    """Counts every call to the file system."""

    calls = 0

    def exists(self, path: str) -> bool:
        _CountingDisk.calls += 1
        return super().exists(path)

    def read(self, path: str) -> bytes | None:
        _CountingDisk.calls += 1
        return super().read(path)


def _leadership(workdir: Path) -> Bar:
    client = PersistClient.open("", storage=local_storage(workdir / "leader", _CountingDisk()))
    state = client.compare_and_append({}, expected={"items": 0}, new_upper={"items": 1})
    before = _CountingDisk.calls
    checks = 100
    for _ in range(checks):
        client.is_current(state.version)
    return Bar("file-system calls of a leadership check", (_CountingDisk.calls - before) / checks, 1.0)


def _history(workdir: Path, commits: int, blocks: int) -> list[Bar]:
    """Commits and openings on a location with a short history, and on one with a long history."""
    young, old = _Appender(workdir / "young"), _Appender(workdir / "old")
    for _ in range(100):
        young.append()
    for _ in range(commits):
        old.append()

    after_few, after_many = _in_turns(young.append_block, old.append_block, blocks)
    for appender in (young, old):
        # The same number of files, and the same distance from the last checkpoint, for both.
        while appender.client.state().version % CHECKPOINT_INTERVAL:
            appender.append()
        appender.client.compact()
        for _ in range(CHECKPOINT_INTERVAL // 2):
            appender.append()
    few, many = _in_turns(young.reopen, old.reopen, 20 * blocks)
    name = f"after {commits} commits / after 100"
    return [
        Bar(f"a commit {name}", _best(after_many) / _best(after_few), 1.3),
        Bar(f"opening {name}", _best(many) / _best(few), 1.3),
    ]


def _best(seconds: Sequence[float]) -> float:
    """The median of the better half: what the work costs when nobody else is in the way."""
    return statistics.median(sorted(seconds)[: max(len(seconds) // 2, 1)])


def _snapshot(workdir: Path, rounds: int) -> Bar:
    """A million records, of which a hundred were changed since they were written."""
    location = workdir / "snapshot"
    rows = 1_000_000
    writer = BatchWriter(location, "million")
    step = 65536
    for start in range(0, rows, step):
        keys = [b"key-%012d" % number for number in range(start, min(start + step, rows))]
        values = [os.urandom(32) + _VALUE[:68] for _ in keys]
        writer.write("items", pa.record_batch({"key": keys, "value": values}))
    client = PersistClient.open(location, cache_bytes=0)
    client.replace_with_batch(writer.finish(), collections=["items"], version=-1, new_upper={"items": 1})
    for number in range(10):
        records = [(b"new-%d-%d" % (number, row), _VALUE, number + 1, 1) for row in range(_ROWS)]
        client.compare_and_append(
            {"items": records}, expected={"items": number + 1}, new_upper={"items": number + 2}
        )
    paths = [location / file.path for file in client.files(["items"])]

    def ours() -> None:
        found = sum(batch.num_rows for batch in client.snapshot_arrow(["items"]))
        assert found == rows + 10 * _ROWS, found

    mine, theirs = _in_turns(ours, lambda: [pq.read_table(path) for path in paths], rounds)
    ratio = _best(mine) / _best(theirs)
    return Bar("snapshot of 1 million records / pyarrow reading the same bytes", ratio, 1.5)

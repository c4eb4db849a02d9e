"""Power cuts: whatever was not synced is dropped or torn; what was acknowledged is there."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress

import pyarrow as pa
import pytest

from hermit.errors import CorruptData
from hermit.persist import PersistClient
from hermit.persist.batch import BatchWriter
from hermit.persist.storage.local import local_storage
from hermit.persist.verify import verify
from tests.persist.power_cut_disk import PowerCut, PowerCutDisk

ROOT = "/disk/shards/one"


def open_on(disk: PowerCutDisk) -> PersistClient:
    return PersistClient.open(ROOT, storage=local_storage(ROOT, disk), maintain=False)


def append(client: PersistClient, time: int) -> None:
    """Two collections in one commit: both or none must be there."""
    rows = [(b"%d" % time, b"v", time, 1)]
    client.compare_and_append(
        {"a": rows, "b": rows},
        expected={"a": time, "b": time},
        new_upper={"a": time + 1, "b": time + 1},
        since={"a": max(time - 1, 0)},
    )


def replace(client: PersistClient, disk: PowerCutDisk, time: int) -> None:
    writer = BatchWriter(ROOT, "batch", storage=local_storage(ROOT, disk))
    writer.write("a", pa.record_batch({"key": [b"new"], "value": [b"v"]}))
    client.replace_with_batch(
        writer.finish(),
        collections=["a"],
        version=client.state().version,
        new_upper={"a": time + 1, "b": time + 1},
    )


def work(disk: PowerCutDisk, acknowledge: Callable[[int], None]) -> None:
    """Commits, a compaction with its checkpoint, a vacuum, a replacing batch, commits."""
    client = open_on(disk)
    for time in range(3):
        append(client, time)
        acknowledge(time + 1)
    client.compact()
    append(client, 3)
    acknowledge(4)
    client.vacuum(retention_s=0)
    replace(client, disk, 4)
    acknowledge(5)
    client.compact()
    append(client, 5)
    acknowledge(6)


EXPECTED_A = [
    [],
    [b"0"],
    [b"0", b"1"],
    [b"0", b"1", b"2"],
    [b"0", b"1", b"2", b"3"],
    [b"new"],
    [b"5", b"new"],
]


def check(disk: PowerCutDisk, acknowledged: int) -> None:
    """The location opens, holds all that was acknowledged and nothing half, and can be written to."""
    client = open_on(disk)
    state = client.state()
    upper = state.upper("a")
    assert acknowledged <= upper <= acknowledged + 1
    assert upper == state.upper("b")
    if upper:
        assert sorted(key for _, key, _, _ in client.snapshot(["a"])) == EXPECTED_A[upper]
        in_b = [b"%d" % time for time in range(upper) if time != 4]
        assert sorted(key for _, key, _, _ in client.snapshot(["b"])) == in_b
    report = verify(local_storage(ROOT, disk))
    assert report.damage == []
    append(client, upper)
    assert (b"%d" % upper) in {key for _, key, _, _ in open_on(disk).snapshot(["b"])}


def run_until_cut(cut_at: int | None) -> tuple[PowerCutDisk, int]:
    disk = PowerCutDisk(cut_at)
    done = 0

    def acknowledge(count: int) -> None:
        nonlocal done
        done = count

    with suppress(PowerCut):
        work(disk, acknowledge)
    return disk, done


STEPS = run_until_cut(None)[0].steps


@pytest.mark.row("P-56")
@pytest.mark.slow
def test_a_power_cut_at_every_step_that_drops_all_unsynced_loses_nothing_acknowledged() -> None:
    for cut_at in range(STEPS):
        disk, acknowledged = run_until_cut(cut_at)
        check(disk.crash(None), acknowledged)


@pytest.mark.row("P-56")
@pytest.mark.slow
def test_a_power_cut_at_every_step_that_tears_and_reorders_loses_nothing_acknowledged() -> None:
    for cut_at in range(STEPS):
        for seed in range(4):
            disk, acknowledged = run_until_cut(cut_at)
            check(disk.crash(random.Random(f"{cut_at}-{seed}")), acknowledged)


def test_what_was_acknowledged_last_is_durable_even_if_the_power_goes_right_after() -> None:
    disk, acknowledged = run_until_cut(None)
    assert acknowledged == 6
    check(disk.crash(None), 6)


@pytest.mark.parametrize("skipped", ["sync", "sync_folder"])
def test_the_disk_notices_a_missing_sync(skipped: str) -> None:
    """The test's own test: without syncs, a power cut loses acknowledged commits."""

    class Careless(PowerCutDisk):
        pass

    setattr(Careless, skipped, lambda self, path: None)
    disk = Careless()
    append(open_on(disk), 0)
    after = disk.crash(None)
    with pytest.raises((AssertionError, CorruptData)):
        check(after, 1)

"""Crashes: SIGKILL at every fail point and at random moments; acknowledged is there, nothing is half."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermit.persist import PersistClient
from hermit.persist.failpoints import POINTS
from hermit.persist.storage.open import open_storage
from hermit.persist.verify import verify
from tests.nursery import Nursery
from tests.persist import processes
from tests.persist.waiting import wait_until


def run_until_killed(
    nursery: Nursery, target: Callable[..., None], location: str, *args: Any, after_s: float | None = None
) -> int:
    """Run a process on the location until it is killed; the last number that it acknowledged."""
    reports = f"{location}-reports"
    before = len(processes.read_reports(reports))
    pid = nursery.start(target, location, reports, *args)
    if after_s is not None:
        wait_until(lambda: len(processes.read_reports(reports)) > before)
        timer = threading.Timer(after_s, os.kill, (pid, signal.SIGKILL))
        timer.start()
    assert nursery.wait(pid) == -signal.SIGKILL
    return max(processes.read_reports(reports), default=0)


def check(location: str, acknowledged: int, in_flight_max: int) -> None:
    """All that was acknowledged is there, in both collections alike, and nothing beyond what was tried."""
    client = PersistClient.open(location, mode="ro")
    state = client.state()
    upper = state.upper("a")
    assert acknowledged <= upper <= acknowledged + in_flight_max
    assert upper == state.upper("b")
    expected = {b"%d" % number for number in range(upper)}
    for name in processes.PAIR if upper else ():
        found = [key for _, key, _, _ in client.snapshot([name])]
        assert len(found) == len(expected)
        assert set(found) == expected


@pytest.mark.row("P-33")
@pytest.mark.row("P-56")
@pytest.mark.slow
def test_a_crash_at_every_fail_point_loses_nothing_acknowledged(tmp_path: Path, nursery: Nursery) -> None:
    for point in POINTS:
        location = str(tmp_path / point)
        for passes in (1, 3):
            if point == "lock.taken" and passes > 1:
                break  # taken once in a process
            acknowledged = run_until_killed(nursery, processes.write_and_die, location, point, passes)
            check(location, acknowledged, in_flight_max=4)
        assert verify(open_storage(location)).damage == []


@pytest.mark.row("P-14")
@pytest.mark.row("P-56")
@pytest.mark.slow
def test_crashes_at_two_hundred_random_moments_lose_nothing_acknowledged(
    tmp_path: Path, nursery: Nursery
) -> None:
    location = str(tmp_path / "location")
    rng = random.Random(20240607)
    for number in range(200):
        target, in_flight_max = [(processes.append_for_ever, 1), (processes.write_for_ever, 4)][number % 2]
        after_s = rng.uniform(0, 0.06)
        acknowledged = run_until_killed(nursery, target, location, after_s=after_s)
        check(location, acknowledged, in_flight_max)
    assert verify(open_storage(location)).damage == []

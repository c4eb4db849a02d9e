"""The hybrid logical clock."""

from __future__ import annotations

import threading

from hypothesis import given
from hypothesis import strategies as st

from hermit.service.clock import HybridClock, after_ms, hybrid, physical_ms


@given(st.lists(st.integers(0, 2**40), min_size=1))
def test_timestamps_only_grow_whatever_the_machines_clock_does(readings: list[int]) -> None:
    remaining = iter(readings)
    clock = HybridClock(lambda: next(remaining))
    given_out = [clock.now() for _ in readings]
    assert given_out == sorted(set(given_out))


def test_a_timestamp_seen_from_another_node_is_followed_by_a_greater_one() -> None:
    clock = HybridClock(lambda: 1000)
    clock.update(hybrid(5000, 3))
    assert clock.now() > hybrid(5000, 3)
    clock.update(hybrid(10))
    assert clock.now() > hybrid(5000, 4)


def test_the_physical_part_is_the_machines_time_when_nothing_runs_ahead() -> None:
    clock = HybridClock(lambda: 1_700_000_000_000)
    assert physical_ms(clock.now()) == 1_700_000_000_000
    assert after_ms(hybrid(5, 1), 10) == hybrid(15, 1)


def test_threads_never_get_the_same_timestamp() -> None:
    clock = HybridClock(lambda: 1)
    found: list[int] = []

    def take() -> None:
        found.extend([clock.now() for _ in range(500)])

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 2000

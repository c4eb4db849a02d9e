"""Waiting for a condition with a bound, instead of sleeping."""

from __future__ import annotations

from collections.abc import Callable

from hermit.persist.storage.abc import poll


def wait_until(condition: Callable[[], bool], timeout_s: float = 60.0) -> None:
    assert poll(condition, timeout_s), "the condition did not come true in time"

"""A move watched in the browser: started from the page, killed half-way, resumed, rolled back. No reload."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import psutil
import pytest
from playwright.sync_api import FrameLocator, Page, expect

from hermit.migration.protocol import Tombstones
from tests.page.machine import Machine, wait_until
from tests.page.test_browser import framed, picture, pictures

__all__ = ["pictures"]
pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.timeout(2400)]


def _start(frame: FrameLocator, action: str, rows_per_second: int | None = None) -> None:
    """Press a button of the page and agree."""
    button = frame.locator(f"[data-action={action}]:not([aria-disabled])")
    button.click()
    if action == "migrate":
        frame.get_by_label("Protocol").select_option("double")
    if rows_per_second is not None:
        frame.get_by_label("At most").fill(str(rows_per_second))
    frame.locator("dialog button[value=go]").click()


def _expect_lit(frame: FrameLocator, state: str) -> None:
    lit = frame.locator(f"g.node.lit[data-state={state}]")
    expect(lit).to_have_count(1)


def _watch(machine: Machine, frame: FrameLocator, wanted: Tombstones, state: str) -> None:
    """Wait for the durable change, then for the page, and tell how much later it was (`pytest -rP`)."""
    stores = machine.stores()
    wait_until(lambda: stores.state().tombstones == wanted, f"tombstones {wanted}")
    changed = time.monotonic()
    _expect_lit(frame, state)
    print(f"{state} was lit {time.monotonic() - changed:.2f} s after it was durable")


def test_a_move_is_watched_killed_resumed_and_rolled_back(
    page: Page, machine: Machine, pictures: Path
) -> None:
    page.goto(f"{machine.url}/plugin/catalogs/hermit/?organization={machine.organization_id}")
    frame = framed(page)
    _expect_lit(frame, "absent")
    page.evaluate("window.neverReloaded = true")

    _start(frame, "migrate")
    _watch(machine, frame, Tombstones(True, None), "true-absent")
    expect(frame.locator("[data-truth]")).to_have_text("stash")
    for process in wait_until(machine.spark_processes, "the staging job"):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    path = f"/hermit/api/catalogs/{machine.organization_id}"
    run = next(run for run in machine.call("admin", "GET", path).json["active"] if run["direction"])
    machine.fail_run(run["dag_id"], run["run_id"])

    # Killed: the state is still the right one, and the page says what resuming would do.
    banner = frame.locator(".banner.half")
    expect(banner).to_contain_text("A first migration was begun and has not completed")
    expect(banner.locator("[data-next=snapshot]")).to_have_count(1)
    _expect_lit(frame, "true-absent")
    picture(page, pictures / "killed-light.png")

    # Throttled, so that there is something to watch: how far it is, how fast, and how long it will take.
    _start(frame, "migrate", rows_per_second=100)
    expect(frame.locator(".gauge + p")).to_contain_text("rows/s")
    picture(page, pictures / "running-light.png")
    _watch(machine, frame, Tombstones(True, False), "true-false")
    expect(frame.locator("[data-truth]")).to_have_text("persist")

    _start(frame, "rollback")
    _watch(machine, frame, Tombstones(False, False), "false-false")
    _watch(machine, frame, Tombstones(False, True), "false-true")
    expect(frame.locator("[data-truth]")).to_have_text("stash")
    assert page.evaluate("window.neverReloaded") is True

    # The run's own tab shows its report.
    moves = [move for move in machine.call("admin", "GET", path).json["moves"] if move["direction"]]
    assert [(move["direction"], move["by"]) for move in moves] == [
        ("rollback", "op"),
        ("migrate", "op"),
        ("migrate", "op"),
    ]
    rollback = moves[0]
    page.goto(f"{machine.url}/dags/{rollback['dag_id']}/runs/{rollback['run_id']}/plugin/catalogs-run")
    expect(framed(page).get_by_role("heading", name="Report: moved")).to_be_visible()
    picture(page, pictures / "report-light.png")

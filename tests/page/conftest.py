"""What the tests of the page share: one Airflow, catalogs in every state, one browser."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, StorageState, expect, sync_playwright

from hermit.embedded.chromium import chromium
from tests.page.machine import Machine
from tests.page.states import Made, make_all

# Time is no test here: a busy machine takes a minute to load what an idle one loads in a second.
_PATIENCE_MS = 300_000
expect.set_options(timeout=_PATIENCE_MS)


@pytest.fixture(scope="package")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A machine that never saw Hermit, after `./hermit up`."""
    home = tmp_path_factory.mktemp("page") / "home"
    home.mkdir()
    # Spark's jars were fetched before the tests; their home is the run's.
    (home / "jars").symlink_to(Path(os.environ["HERMIT_HOME"]) / "jars")
    machine = Machine(home)
    try:
        machine.up()
        yield machine
    finally:
        machine.hermit("down")


@pytest.fixture(scope="package")
def made(machine: Machine) -> dict[str, Made]:
    """A catalog in every state of both protocols."""
    return {one.name: one for one in make_all(machine.stash_url, machine.shards)}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's Chromium. Its driver keeps an event loop running, which tests of other modules cannot bear."""
    with sync_playwright() as playwright:
        # Chromium's own sandbox does not work for root, nor in most containers.
        browser = playwright.chromium.launch(executable_path=str(chromium()), args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def login(browser: Browser, machine: Machine) -> StorageState:
    """The cookies of somebody who may operate, logged in through Airflow's form."""
    context = browser.new_context()
    context.set_default_timeout(_PATIENCE_MS)
    page = context.new_page()
    page.goto(f"{machine.url}/auth/login")
    page.fill("input[name=username]", "op")
    page.fill("input[name=password]", machine.password("op"))
    page.click("button[type=submit]")
    page.wait_for_url(lambda url: "/auth/login" not in url)
    state = context.storage_state()
    context.close()
    return state


@pytest.fixture
def page(browser: Browser, login: StorageState) -> Iterator[Page]:
    """A fresh window of the browser, logged in."""
    context = browser.new_context(
        viewport={"width": 1280, "height": 1100}, color_scheme="light", storage_state=login
    )
    context.set_default_timeout(_PATIENCE_MS)
    yield context.new_page()
    context.close()

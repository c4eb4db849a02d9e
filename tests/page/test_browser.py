"""The page in a real browser, inside a real Airflow: every state in both themes, and the keyboard.

Pictures go to a scratch directory; with HERMIT_SCREENSHOTS set, as by `./hermit test --screenshots`, to
`docs/images/page`, where one of every state in both themes must be in any case.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from playwright.sync_api import FrameLocator, Page, expect

from tests.page.machine import ROOT, Machine
from tests.page.states import FORGED, STATES, Made

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.timeout(1800)]

THEMES = ("light", "dark")
_IMAGES = ROOT / "docs" / "images" / "page"


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not os.environ.get("HERMIT_SCREENSHOTS"):
        return tmp_path_factory.mktemp("pictures")
    _IMAGES.mkdir(parents=True, exist_ok=True)
    return _IMAGES


def framed(page: Page) -> FrameLocator:
    """Our page, inside Airflow's."""
    return page.frame_locator("iframe[title]")


def choose_theme(page: Page, theme: str) -> None:
    """As Airflow's own switch does, in a window that is open already."""
    page.evaluate(
        """theme => {
            localStorage.setItem("theme", theme);
            const other = theme === "dark" ? "light" : "dark";
            document.documentElement.classList.replace(other, theme);
            document.documentElement.style.colorScheme = theme;
        }""",
        theme,
    )


_ANONYMOUS = """() => {
    for (const head of document.querySelectorAll(".stores tbody th")) {
        if (head.textContent !== "opened by") continue;
        for (const cell of head.parentElement.querySelectorAll("td")) {
            if (cell.textContent !== "–") cell.textContent = "airflow on worker-1, pid 4711";
        }
    }
}"""


def picture(page: Page, path: Path) -> None:
    """The whole catalog, however long it is, in the frame of Airflow; who opened it is nobody's business."""
    framed(page).locator("html").evaluate(_ANONYMOUS)
    height = framed(page).locator("main").evaluate("main => main.offsetTop + main.scrollHeight")
    page.set_viewport_size({"width": 1280, "height": max(int(height) + 24, 700)})
    page.screenshot(path=str(path), animations="disabled")


def test_the_page_is_in_the_navigation_and_lists_every_catalog(
    page: Page, machine: Machine, made: dict[str, Made], pictures: Path
) -> None:
    page.goto(machine.url)
    page.get_by_role("link", name="Catalogs").click()
    frame = framed(page)
    expect(frame.get_by_role("heading", name="Catalogs")).to_be_visible()
    expect(frame.locator("tbody tr")).to_have_count(len(made) + 1)
    for theme in THEMES:
        choose_theme(page, theme)
        expect(frame.locator(f"html[data-theme={theme}]")).to_have_count(1)
        picture(page, pictures / f"list-{theme}.png")
    frame.get_by_label("Filter catalogs").fill("unreachable")
    expect(frame.locator("tbody tr")).to_have_count(len(FORGED))
    frame.get_by_label("Filter catalogs").fill(made["single-true"].organization_id)
    expect(frame.locator("tbody tr")).to_have_count(1)
    frame.get_by_role("link", name=made["single-true"].organization_id).click()
    expect(frame.locator("[data-truth=persist]")).to_be_visible()


def test_every_state_is_lit_in_both_themes(
    page: Page, machine: Machine, made: dict[str, Made], pictures: Path
) -> None:
    page.goto(f"{machine.url}/plugin/catalogs")
    frame = framed(page)
    for one in made.values():
        frame.locator(f"a[href='?organization={one.organization_id}']").click()
        _check_state(frame, one)
        for theme in THEMES:
            choose_theme(page, theme)
            expect(frame.locator(f"html[data-theme={theme}]")).to_have_count(1)
            picture(page, pictures / f"{one.name}-{theme}.png")
        frame.locator("a[data-key=all]").click()


def _check_state(frame: FrameLocator, one: Made) -> None:
    lit = frame.locator("g.node.lit")
    expect(lit).to_have_count(1)
    expect(lit).to_have_attribute("data-state", one.state)
    expect(frame.locator("[data-truth]")).to_have_text(one.stores.state().truth.store.value)
    # Rows and digests come a moment later, and only then is the picture complete.
    expect(frame.locator("tr", has_text="digest").locator("td code")).to_have_count(2)


def test_pictures_of_all_states_in_both_themes_are_kept_in_the_docs() -> None:
    kept = {path.name for path in _IMAGES.glob("*.png")}
    assert {f"{name}-{theme}.png" for name in (*STATES, "list") for theme in THEMES} <= kept


def test_everything_can_be_reached_by_keyboard(page: Page, machine: Machine, made: dict[str, Made]) -> None:
    page.goto(f"{machine.url}/plugin/catalogs/hermit/?organization={made['single-true'].organization_id}")
    frame = framed(page)
    expect(frame.locator("button")).to_have_count(4)
    frame.locator("a[data-key=all]").focus()
    reached = []
    for _ in range(4):
        page.keyboard.press("Tab")
        reached.append(frame.locator(":focus").get_attribute("data-key"))
    assert reached == ["migrate", "rollback", "dry_run", "verify"]
    # A button that may not be used can be reached, says why, and does nothing.
    frame.locator("[data-key=migrate]").focus()
    expect(frame.locator("#why-migrate")).to_contain_text("the truth is persist already")
    page.keyboard.press("Enter")
    expect(frame.locator("dialog")).to_have_count(0)
    frame.locator("[data-key=rollback]").focus()
    page.keyboard.press("Enter")
    expect(frame.locator("dialog[open]")).to_have_count(1)
    page.keyboard.press("Escape")
    expect(frame.locator("dialog")).to_have_count(0)
    expect(frame.locator(":focus")).to_have_attribute("data-key", "rollback")

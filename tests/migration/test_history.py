"""Reports: what a run did, kept beside the shard for programs and for people."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from hermit.formats.generate import rows
from hermit.migration import report
from hermit.migration.history import History
from hermit.migration.load import load_rows
from hermit.migration.move import Move
from tests.migration.driver import move, stores_for

_TIMES = {
    "open": {"started": "2026-03-01T10:00:00+00:00", "ended": "2026-03-01T10:00:00.250000+00:00"},
    "snapshot": None,
    "set_tombstone": {"started": "2026-03-01T10:00:09+00:00", "ended": "2026-03-01T10:00:10+00:00"},
}


@pytest.fixture
def made(database_url: str, tmp_path: Path, organization_id: UUID) -> dict[str, Any]:
    """The report of a run that moved a catalog."""
    stores = stores_for(database_url, str(tmp_path / "shards"), organization_id)
    load_rows(stores, rows(20, 7))
    asked = Move.parse(
        direction="migrate",
        organization_id=str(organization_id),
        protocol=None,
        dry_run=False,
        run_id="manual__2026-03-01T10:00:00+00:00",
    )
    decision = move(stores, asked.direction).decision.to_json()
    return report.build(stores, asked, report.Ran({}, _TIMES, decision), None)


def test_a_report_tells_how_long_each_step_took_and_which_were_jumped_over(made: dict[str, Any]) -> None:
    seconds = {step["step"]: step["seconds"] for step in made["steps"]}
    assert seconds == {"open": 0.25, "snapshot": None, "set_tombstone": 1.0}
    assert (made["started"], made["ended"]) == (_TIMES["open"]["started"], _TIMES["set_tombstone"]["ended"])  # type: ignore[index]
    text = report.to_markdown(made)
    assert "| open | 0.25 |" in text
    assert "| snapshot | jumped over |" in text


def test_reports_are_kept_newest_first_and_found_by_run(made: dict[str, Any], tmp_path: Path) -> None:
    history = History(str(tmp_path))
    second = {**made, "run_id": "scheduled/2", "ended": "2026-03-02T00:00:00+00:00"}
    for one in (second, made, made):
        history.write(one)
    assert history.list() == [second, made]
    assert history.list(1) == [second]
    assert history.read(made["run_id"]) == made
    assert history.read("scheduled/2") == second
    assert history.read("other") is None
    assert (history.markdown(made["run_id"]) or "").startswith("# Migrate of ")


@pytest.mark.parametrize(
    ("approved", "outcome", "word"), [(True, "moved", "Approved by Ann"), (False, "rejected", "Rejected")]
)
def test_a_report_tells_what_a_human_said(
    made: dict[str, Any], approved: bool, outcome: str, word: str
) -> None:
    approval = {"approved": approved, "by": "Ann", "at": "2026-03-01T10:00:05+00:00"}
    asked = Move.parse(
        direction="migrate",
        organization_id=made["organization_id"],
        protocol=None,
        dry_run=False,
        run_id="r",
    )
    ran = report.Ran({}, _TIMES, {**made["decision"]}, approval)
    assert report._outcome(asked, ran) == outcome
    assert word in report.to_markdown({**made, "approval": approval})


def test_a_torn_report_hides_no_other(made: dict[str, Any], tmp_path: Path) -> None:
    history = History(str(tmp_path))
    history.write({**made, "run_id": "torn"})
    (path,) = (tmp_path / "_hermit" / "reports").glob("*.json")
    path.write_text(path.read_text()[:100])
    history.write(made)
    assert history.read("torn") is None
    assert history.list() == [made]

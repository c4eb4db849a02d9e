"""What a Spark job is told, and what it says when that is nonsense."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hermit.errors import InvalidInput
from hermit.migration.job import STASH_URL_VARIABLE, read_request, take_stash_url

JOBS = Path(__file__).parents[2] / "spark_jobs"


def test_the_url_is_taken_out_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(STASH_URL_VARIABLE, "postgresql://host/db")
    assert take_stash_url() == "postgresql://host/db"
    assert STASH_URL_VARIABLE not in os.environ
    with pytest.raises(InvalidInput, match=f"{STASH_URL_VARIABLE} is not set"):
        take_stash_url()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "0 arguments were given, not one"),
        (["{}", "{}"], "2 arguments were given, not one"),
        (["{"], "the request is not JSON"),
        (["[1]"], "the request is not a JSON object"),
        (['{"location": "x"}'], "the request has no organization_id, batch"),
    ],
)
def test_nonsense_instead_of_a_request_is_refused(arguments: list[str], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        read_request(arguments, "organization_id", "location", "batch")


@pytest.mark.parametrize(("name", "code"), [("stage_snapshot", 1), ("generate", 1), ("verify", 3)])
def test_a_job_says_in_one_line_what_its_request_lacks(name: str, code: int) -> None:
    command = [sys.executable, str(JOBS / f"{name}.py"), "{}"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == code
    (line,) = result.stderr.splitlines()
    assert line.startswith("hermit: the request has no organization_id")

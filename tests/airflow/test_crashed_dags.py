"""A rotating sample of the crash matrix, through the real DAG. `hermit crash-matrix` plays all of it."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import pytest

from tests.airflow.machine import Machine

pytestmark = [pytest.mark.slow, pytest.mark.airflow, pytest.mark.timeout(900)]


def test_today_s_cells_of_the_crash_matrix_pass(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "home")
    today = datetime.datetime.now(datetime.UTC).date().toordinal()
    result = machine.hermit("crash-matrix", "--sample", "2", "--seed", str(today), "--jobs", "1", "--json")
    machine.hermit("down")
    assert result.returncode == 0, result.stdout + result.stderr
    assert json.loads(result.stdout) == {"cells": 2, "failed": {}}

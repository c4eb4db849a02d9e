"""A disk that runs full under a move through Airflow; `tests/migration` has the same without Airflow."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.airflow.machine import HERMIT, Machine

# A row takes about ninety bytes in the shard, so that half of them find room.
_OBJECTS = int(os.environ.get("HERMIT_TEST_FAULT_OBJECTS", "4000"))
pytestmark = [pytest.mark.slow, pytest.mark.airflow, pytest.mark.timeout(1800)]


def test_a_full_disk_stops_a_move_clearly_and_room_lets_it_go_on(tmp_path: Path) -> None:
    """In a namespace of its own, where anybody may mount a small disk."""
    machine = Machine(tmp_path / "home", HERMIT_PERSIST_LOCATION=str(tmp_path / "disk"))
    (tmp_path / "disk").mkdir()
    script = f"""
        set -e
        mount -t tmpfs -o size={_OBJECTS // 25}k tmpfs {tmp_path}/disk
        {HERMIT} generate --objects {_OBJECTS}
        if {HERMIT} migrate 2> {tmp_path}/error; then exit 3; fi
        {HERMIT} status --json > {tmp_path}/full.json
        mount -t tmpfs -o remount,size=2g tmpfs {tmp_path}/disk
        {HERMIT} migrate
        {HERMIT} status --json > {tmp_path}/moved.json
        {HERMIT} down
    """
    assert shutil.which("unshare")
    result = subprocess.run(
        ["unshare", "--map-root-user", "--mount", "bash", "-c", script],
        env=machine.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    machine.hermit("down")
    assert result.returncode == 0, result.stderr
    assert "no space left" in (tmp_path / "error").read_text().lower()
    full, moved = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("full", "moved"))
    assert (full["source_of_truth"], moved["source_of_truth"]) == ("stash", "persist")
    assert full["stash"]["digest"] == moved["persist"]["digest"]

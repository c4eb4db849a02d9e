"""A disk that runs full under a move: the truth stays, and room lets the next run go on."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from uuid import UUID

import pytest


@pytest.mark.slow
def test_a_full_disk_stops_a_move_and_room_lets_it_go_on(
    database_url: str, tmp_path: Path, organization_id: UUID
) -> None:
    """In a namespace of its own, where anybody may mount a small disk."""
    program = [sys.executable, "-m", "tests.migration.full_disk"]
    result = subprocess.run(
        ["unshare", "--map-root-user", "--mount", *program, database_url, tmp_path, str(organization_id)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert "no space left" in found.pop("error").lower()
    assert found == {"full": "stash", "moved": "persist", "same": True}

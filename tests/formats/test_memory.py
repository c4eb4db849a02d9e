"""An upgrade streams: ten times the rows take hardly more memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

MIB = 1 << 20


def _peak(path: Path, items: int) -> dict[str, int]:
    run = subprocess.run(
        [sys.executable, "-m", "hermit.bench._upgrade_memory", str(path), str(items), "15"],
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, int] = json.loads(run.stdout)
    assert found["items"] == items
    return found


@pytest.mark.slow
def test_memory_does_not_grow_with_the_catalog(tmp_path: Path) -> None:
    """The spool of changes is full in both; eight bytes per row remain. A million: `hermit bench formats`."""
    small, large = _peak(tmp_path / "small", 30_000), _peak(tmp_path / "large", 90_000)
    assert large["bytes"] > small["bytes"] + 15 * MIB
    assert large["peak_after"] < small["peak_after"] + 12 * MIB
    assert large["peak_after"] < 200 * MIB

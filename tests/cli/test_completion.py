"""Shell completion and the version, through the launcher as a shell calls it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import hermit

_ROOT = Path(__file__).resolve().parents[2]


def _hermit(*arguments: str, **environment: str) -> str:
    result = subprocess.run(
        [_ROOT / "hermit", *arguments],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **environment},
    )
    return result.stdout


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("hermit mig", {"migrate"}),
        ("hermit persist v", {"verify", "vacuum"}),
        ("hermit migrate --dr", {"--dry-run"}),
    ],
)
def test_the_shell_completes_commands_and_options(line: str, expected: set[str]) -> None:
    place = str(len(line.split()) - 1)
    found = _hermit(_HERMIT_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=place)
    assert set(found.split()) == expected


def test_the_version_is_that_of_the_package() -> None:
    assert _hermit("--version") == f"hermit {hermit.__version__}\n"

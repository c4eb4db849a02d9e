"""Fixtures of the formats room."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from hermit.formats.layout import Layout

ROOT = Path(__file__).resolve().parents[2]
SOURCES = (
    "include/hermit",
    "plugins",
    "spark_jobs",
    "tests/formats",
    "pyproject.toml",
    "setup.py",
    "README.md",
)


@pytest.fixture
def scratch(tmp_path: Path) -> Layout:
    """A copy of the checkout to make mistakes in."""
    for name in SOURCES:
        source, target = ROOT / name, tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copyfile(source, target)
    return Layout.of_checkout(tmp_path)

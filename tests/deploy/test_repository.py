"""The repository as people expect it: what must lie in its root, and that it fits together."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import hermit

_ROOT = Path(__file__).resolve().parents[2]


def _load(name: str) -> Any:
    return yaml.safe_load((_ROOT / name).read_text())


@pytest.mark.parametrize(
    "name", ["LICENSE", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "include/hermit/py.typed"]
)
def test_what_people_look_for_is_there(name: str) -> None:
    assert (_ROOT / name).is_file()


def test_the_version_stands_in_one_place() -> None:
    others = (
        "pyproject.toml",
        "setup.py",
        "hermit",
        "Dockerfile",
        "docker-compose.yaml",
        "mkdocs.yml",
        "README.md",
    )
    pattern = re.compile(rf"(?<![\w.]){re.escape(hermit.__version__)}(?![\w.])")
    assert [name for name in others if pattern.search((_ROOT / name).read_text())] == []


def test_the_workflow_runs_what_is_there() -> None:
    jobs = _load(".github/workflows/ci.yaml")["jobs"]
    commands = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    assert ".ci/run" in commands
    for command in commands:
        program = shlex.split(command)[0]
        assert program == "docker" or (_ROOT / program).is_file(), command
    assert all("timeout-minutes" in job for job in jobs.values())
    used = [step["uses"] for job in jobs.values() for step in job["steps"] if "uses" in step]
    assert all(re.fullmatch(r"[\w-]+/[\w-]+@v\d+", action) for action in used)


def test_the_hooks_before_a_commit_use_the_pinned_tools() -> None:
    tools = Path(sys.executable).parent
    hooks = [hook for repository in _load(".pre-commit-config.yaml")["repos"] for hook in repository["hooks"]]
    assert {hook["id"] for hook in hooks} == {"ruff", "format", "layers", "formats"}
    for hook in hooks:
        program = Path(shlex.split(hook["entry"])[0])
        assert (tools / program.name).exists() or (_ROOT / program).is_file(), hook["entry"]


def test_the_image_is_built_from_files_that_it_may_see() -> None:
    allowed = {
        line.removeprefix("!")
        for line in (_ROOT / ".dockerignore").read_text().splitlines()
        if line[0] == "!"
    }
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", (_ROOT / "Dockerfile").read_text(), re.MULTILINE)
    sources = [source for line in copied for source in line.split()]
    assert {"include", "plugins", "spark_jobs", "dags", "requirements.txt"} <= set(sources)
    for source in sources:
        assert (_ROOT / source).exists(), source
        assert source in allowed, source

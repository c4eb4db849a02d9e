"""The built wheel, installed into a clean environment, brings everything that an existing Airflow needs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from typing import Any

import pytest

import hermit

_ROOT = Path(__file__).resolve().parents[2]
_DAG = """
from hermit_airflow.dag_factory import build, Direction
migrate, rollback = build(Direction.MIGRATE), build(Direction.ROLLBACK)
"""
_LOOK = """
import json, os, pathlib, sys
from importlib import import_module
from airflow.__main__ import main
from airflow.dag_processing.dagbag import DagBag
from airflow.plugins_manager import get_plugin_info
from airflow.providers_manager import ProvidersManager
import hermit, hermit_airflow
manager = ProvidersManager()
info = manager.providers["hermit-catalog"]
bag = DagBag(dag_folder=os.environ["AIRFLOW__CORE__DAGS_FOLDER"])
rooms = ("hooks", "operators", "sensors", "triggers")
named = [name for room in rooms for name in info.data[room][0]["python-modules"]]
print("RESULT" + json.dumps({
    "where": [str(pathlib.Path(m.__file__).parent.parent) for m in (hermit, hermit_airflow)],
    "version": info.version,
    "hooks": [name for name in manager.hooks if name.startswith("hermit")],
    "modules": [import_module(name).__name__ for name in named],
    "plugins": [plugin["name"] for plugin in get_plugin_info()],
    "errors": {str(name): str(error) for name, error in bag.import_errors.items()},
    "applications": [
        task.application for dag in bag.dags.values() for task in dag.tasks if task.task_id == "snapshot"
    ],
}))
sys.argv = ["airflow", "providers", "get", "hermit-catalog", "--output", "json"]
main()
"""

# One worker builds and installs it once.
pytestmark = pytest.mark.slow


def _run(*command: str | Path, **options: Any) -> str:
    result = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy: building leaves traces beside its sources."""
    source = tmp_path_factory.mktemp("source") / "hermit"
    listed = _run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=_ROOT)
    for name in filter(None, listed.split("\0")):
        if not name.startswith(("tests/", "docs/")) and (_ROOT / name).exists():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((_ROOT / name).read_bytes())
    target = tmp_path_factory.mktemp("wheel")
    build = [
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--wheel-dir",
        str(target),
        ".",
    ]
    _run(sys.executable, *build, cwd=source)
    return next(target.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment with the wheel in it. It borrows the dependencies, but not the project, of this one.

    A path in a `.pth` file adds the packages and runs none of the `.pth` files beside them, and the
    editable project is nothing but such a file.
    """
    home = tmp_path_factory.mktemp("venv")
    venv.create(home, with_pip=False)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(home), "platbase": str(home)}))
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    pip = [sys.executable, "-m", "pip", "--python", str(home / "bin" / "python"), "install", "--quiet"]
    _run(*pip, "--no-deps", "--no-index", "--ignore-installed", str(wheel))
    return home


def _environment(installed: Path, home: Path) -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("HERMIT_", "AIRFLOW", "PYTHON"))
    }
    dags = home / "dags"
    dags.mkdir(exist_ok=True)
    (dags / "catalogs.py").write_text(_DAG)
    return {
        **kept,
        "PATH": os.pathsep.join([str(installed / "bin"), os.environ["PATH"]]),
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "HOME": str(home),
    }


def _rooms() -> list[str]:
    """Every module of the provider that a DAG's author may use."""
    plugins = _ROOT / "plugins"
    found = [
        path
        for room in ("hooks", "operators", "sensors", "triggers")
        for path in (plugins / "hermit_airflow" / room).glob("*.py")
    ]
    public = [path for path in found if path.stem not in ("__init__", "base")]
    return sorted(".".join(path.relative_to(plugins).with_suffix("").parts) for path in public)


def test_an_airflow_that_exists_finds_connections_operators_sensors_and_the_dags(
    installed: Path, tmp_path: Path
) -> None:
    output = _run(
        installed / "bin" / "python", "-c", _LOOK, env=_environment(installed, tmp_path), cwd=tmp_path
    )
    lines = output.splitlines()
    seen = json.loads(next(line for line in lines if line.startswith("RESULT"))[6:])
    assert json.loads(lines[-1])[0]["Provider"] == "hermit-catalog"
    assert all(Path(place).is_relative_to(installed) for place in seen["where"])
    assert seen["version"] == hermit.__version__
    assert sorted(seen["hooks"]) == ["hermit_persist", "hermit_stash"]
    assert sorted(seen["modules"]) == _rooms()
    assert "hermit" in seen["plugins"]
    assert seen["errors"] == {}
    assert len(seen["applications"]) == 2
    for application in seen["applications"]:
        assert Path(application).is_relative_to(installed)
        assert Path(application).is_file()


def test_the_command_of_the_wheel_knows_its_version_and_its_formats(installed: Path, tmp_path: Path) -> None:
    environment = _environment(installed, tmp_path)
    assert (
        _run(installed / "bin" / "hermit", "--version", env=environment) == f"hermit {hermit.__version__}\n"
    )
    _run(installed / "bin" / "python", "-c", "from hermit.formats import codec, upgrade", env=environment)


def test_a_command_that_needs_a_checkout_says_so(installed: Path, tmp_path: Path) -> None:
    environment = {
        **_environment(installed, tmp_path),
        "HERMIT_STASH_URL": "postgresql://nobody@127.0.0.1:1/nothing",
        "HERMIT_HOME": str(tmp_path / "home"),
    }
    result = subprocess.run(
        [installed / "bin" / "hermit", "up"], capture_output=True, text=True, check=False, env=environment
    )
    assert (result.returncode, "run this in a checkout" in result.stderr) == (2, True), result.stderr

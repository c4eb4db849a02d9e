"""docker-compose.yaml, as far as it can be checked without an engine."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from typer.testing import CliRunner

from hermit.cli.app import app
from hermit.embedded import compose
from hermit.embedded.postgres import binaries
from hermit.errors import InvalidInput
from tests.deploy import compose_file

_ROOT = compose_file.ROOT
_AIRFLOW = ("init", "api-server", "scheduler", "dag-processor", "triggerer", "worker")
_SPARK = ("spark-master", "spark-worker-1", "spark-worker-2")
_STORES = ("airflow-db", "broker", "stash")
# What the images of others bring along; everything else must be in our pinned packages, or in Debian.
_FOREIGN = {"docker-entrypoint.sh", "redis-server", "redis-cli", "install"}
_DEBIAN = {"bash", "curl", "hostname", "printf", "umask", "unset", "exec"}

_LOOK = """
import json, sys
import celery
from airflow.cli.cli_parser import get_parser
from airflow.configuration import conf
from airflow.providers.celery.executors.celery_executor import app
from airflow.providers_manager import ProvidersManager
ProvidersManager().initialize_providers_configuration()
asked = json.load(sys.stdin)
parser = get_parser()
for command in asked["commands"]:
    parser.parse_args(command)
known = {f"AIRFLOW__{section}__{option}".upper()
         for section, options in conf.configuration_description.items() for option in options["options"]}
unknown = sorted(set(asked["settings"]) - known)
print("RESULT" + json.dumps({"unknown": unknown, "app": isinstance(app, celery.Celery)}))
"""


@pytest.fixture(scope="module")
def values() -> dict[str, str]:
    return {name: make() for name, make in compose.VALUES.items()}


@pytest.fixture(scope="module")
def services(values: dict[str, str]) -> dict[str, dict[str, Any]]:
    return dict(compose_file.load(values)["services"])


def test_every_part_of_the_topology_is_a_service(services: dict[str, dict[str, Any]]) -> None:
    assert set(services) == {*_AIRFLOW, *_SPARK, *_STORES}


def test_every_value_is_asked_for_and_none_has_a_default(values: dict[str, str]) -> None:
    asked = compose_file.variables()
    assert set(asked) == set(values)
    assert {rest for rests in asked.values() for rest in rests} == {":?run ./hermit compose-env"}
    example = (_ROOT / ".env.example").read_text().splitlines()
    assert {line for line in example if line and not line.startswith("#")} == {f"{name}=" for name in values}
    assert not re.search(r"(?i)passw(or)?d[\"']?\s*[:=]\s*[\"']?\w", compose_file.text())


def test_every_service_is_limited_and_says_whether_it_is_well(services: dict[str, dict[str, Any]]) -> None:
    for name, service in services.items():
        limits = service["deploy"]["resources"]["limits"]
        assert set(limits) == {"cpus", "memory", "pids"}, name
        assert "no-new-privileges:true" in service["security_opt"], name
        if name == "init":
            assert service["restart"] == "no"
        else:
            assert {"test", "interval", "timeout", "retries"} <= set(service["healthcheck"]), name
            assert service["restart"] == "unless-stopped", name


def test_nothing_is_reachable_from_other_machines(services: dict[str, dict[str, Any]]) -> None:
    ports = {name: service["ports"] for name, service in services.items() if "ports" in service}
    assert ports == {"api-server": ["127.0.0.1:8080:8080"]}


def test_images_are_pinned_to_whole_versions(services: dict[str, dict[str, Any]]) -> None:
    foreign = {service["image"] for service in services.values() if "build" not in service}
    bases = re.findall(r"^FROM (\S+)", (_ROOT / "Dockerfile").read_text(), re.MULTILINE)
    for image in {*foreign, *bases}:
        assert re.fullmatch(r"[a-z]+:\d+\.\d+(\.\d+)?(-slim)?-bookworm", image), image
    assert {service["image"] for service in services.values() if "build" in service} == {"hermit:local"}


def test_the_stash_is_the_postgresql_that_the_tests_ran_on(services: dict[str, dict[str, Any]]) -> None:
    version = subprocess.run(
        [binaries() / "postgres", "--version"], capture_output=True, text=True, check=True
    )
    assert version.stdout.split()[-1] == services["stash"]["image"].split(":")[1].removesuffix("-bookworm")


def test_whoever_needs_a_service_waits_for_it(services: dict[str, dict[str, Any]]) -> None:
    for name, service in services.items():
        for needed, how in service.get("depends_on", {}).items():
            wanted = "service_completed_successfully" if needed == "init" else "service_healthy"
            assert how == {"condition": wanted}, f"{name} needs {needed}"
            assert wanted != "service_healthy" or "healthcheck" in services[needed]


def test_every_volume_and_secret_is_declared_and_made(values: dict[str, str]) -> None:
    document = compose_file.load(values)
    volumes = {
        volume.split(":")[0]
        for service in document["services"].values()
        for volume in service.get("volumes", [])
    }
    assert {volume for volume in volumes if not volume.startswith("./")} == set(document["volumes"])
    assert all((_ROOT / volume).exists() for volume in volumes if volume.startswith("./"))
    secrets = {name for service in document["services"].values() for name in service.get("secrets", [])}
    assert secrets == set(document["secrets"])


def _commands(services: dict[str, dict[str, Any]]) -> list[list[str]]:
    asked = [
        command
        for service in services.values()
        for command in (
            service.get("entrypoint"),
            service.get("command"),
            service.get("healthcheck", {}).get("test"),
        )
        if command is not None
    ]
    found = [words for command in asked for words in compose_file.shell_words(command)]
    return [words[1:] if words[0] == "exec" else words for words in found]


def test_every_program_is_one_that_the_images_hold(services: dict[str, dict[str, Any]]) -> None:
    tools = Path(sys.executable).parent
    for words in _commands(services):
        program = words[0].split("=")[0] if "=" not in words[0] else words[1]
        here = (tools / program, binaries() / program)
        assert program in _FOREIGN | _DEBIAN or any(path.exists() for path in here), words


@pytest.mark.slow
def test_airflow_understands_every_command_and_every_setting(
    services: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    commands = [words[1:] for words in _commands(services) if words[0] == "airflow"]
    assert len(commands) == 8
    settings = [name for name in services["worker"]["environment"] if name.startswith("AIRFLOW__")]
    celery = next(words for words in _commands(services) if words[0] == "celery")
    assert celery[2] == "airflow.providers.celery.executors.celery_executor.app"
    result = subprocess.run(
        [sys.executable, "-c", _LOOK],
        input=json.dumps({"commands": commands, "settings": settings}),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "AIRFLOW_HOME": str(tmp_path), "AIRFLOW__CORE__EXECUTOR": "CeleryExecutor"},
    )
    assert result.returncode == 0, result.stderr[-2000:]
    line = next(line for line in result.stdout.splitlines() if line.startswith("RESULT"))
    assert json.loads(line.removeprefix("RESULT")) == {"unknown": [], "app": True}


def test_spark_has_every_class_that_is_started(services: dict[str, dict[str, Any]]) -> None:
    import pyspark

    jar = next((Path(pyspark.__file__).parent / "jars").glob("spark-core_*.jar"))
    held = set(zipfile.ZipFile(jar).namelist())
    started = {words[1] for words in _commands(services) if words[0] == "spark-class"}
    assert len(started) == 2
    assert {f"{name.replace('.', '/')}.class" for name in started} <= held


def test_the_image_holds_the_packages_that_were_tested() -> None:
    tested, deployed = (_pins(_ROOT / name) for name in ("requirements.txt", "deploy/requirements.txt"))
    assert deployed.items() <= tested.items()
    assert not {"pytest", "mypy", "mkdocs", "playwright"} & set(deployed)
    assert {"celery", "apache-airflow", "pyspark", "deltalake"} <= set(deployed)


def _pins(path: Path) -> dict[str, str]:
    lines = [line.rstrip(" \\") for line in path.read_text().splitlines() if re.match(r"[a-zA-Z0-9]", line)]
    return {Requirement(line).name: str(Requirement(line).specifier) for line in lines}


def test_the_image_runs_a_python_that_the_project_supports() -> None:
    import tomllib

    wanted = SpecifierSet(tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]["requires-python"])
    versions = re.findall(r"^FROM python:([\d.]+)", (_ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert len(set(versions)) == 1
    assert versions[0] in wanted


def test_secrets_are_made_once_and_for_their_owner_alone(tmp_path: Path) -> None:
    (tmp_path / "docker-compose.yaml").write_text("")
    run = CliRunner().invoke
    assert run(app, ["compose-env", "--directory", str(tmp_path)]).exit_code == 0
    first = (tmp_path / ".env").read_text()
    given = dict(line.split("=", 1) for line in first.splitlines())
    assert set(given) == set(compose.VALUES)
    assert all(len(value) >= 36 for value in given.values())
    assert len(set(given.values())) == len(given)
    private = [tmp_path / ".env", tmp_path / "deploy" / "secrets" / "stash.key"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in private} == {0o600}

    again = run(app, ["compose-env", "--directory", str(tmp_path)])
    assert isinstance(again.exception, InvalidInput)
    assert (tmp_path / ".env").read_text() == first

    key = private[1].read_text()
    assert run(app, ["compose-env", "--directory", str(tmp_path), "--renew-certificates"]).exit_code == 0
    assert ((tmp_path / ".env").read_text(), private[1].read_text() != key) == (first, True)


def test_a_place_without_a_compose_file_gets_no_secrets(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput):
        compose.write(tmp_path)
    assert list(tmp_path.iterdir()) == []

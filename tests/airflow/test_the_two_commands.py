"""The commands of the README, through a real Airflow, Spark, PostgreSQL and Delta table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hermit.migration.failpoints import VARIABLE
from tests.airflow.machine import Machine

pytestmark = [pytest.mark.slow, pytest.mark.airflow, pytest.mark.timeout(900)]


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path / "home")
    yield machine
    machine.hermit("down")


def test_a_catalog_goes_there_and_back_and_there_again(machine: Machine) -> None:
    machine.must("migrate")
    first = machine.status()
    assert first["source_of_truth"] == "persist"
    assert first["stash"]["tombstone"] is True
    assert first["stash"]["digest"] == first["persist"]["digest"]
    assert first["stash"]["rows"] > 1000

    assert "nothing to do" in machine.must("migrate")
    machine.must("rollback")
    back = machine.status()
    assert (back["source_of_truth"], back["stash"]["tombstone"]) == ("stash", False)
    assert back["stash"]["digest"] == first["persist"]["digest"]

    assert "nothing to do" in machine.must("rollback")
    before = machine.status()
    assert "dry run passed" in machine.must("migrate", "--dry-run")
    assert machine.status() == before
    machine.must("migrate", "--protocol", "double")
    again = machine.status()
    assert (again["source_of_truth"], again["protocol"]) == ("persist", "double")
    assert again["persist"]["digest"] == first["persist"]["digest"]
    assert not [path for path in (machine.home / "shards").iterdir() if path.name.startswith(".")]


def test_a_migration_that_is_killed_leaves_the_stash_the_truth_and_can_be_run_again(machine: Machine) -> None:
    machine.environment[VARIABLE] = "replace.begun"
    killed = machine.hermit("migrate")
    assert killed.returncode == 1
    assert "code -9" in killed.stderr
    del machine.environment[VARIABLE]
    before = machine.status()
    assert (before["source_of_truth"], before["stash"]["tombstone"]) == ("stash", None)
    assert "already" not in machine.must("migrate")
    moved = machine.status()
    assert moved["source_of_truth"] == "persist"
    assert moved["persist"]["digest"] == before["stash"]["digest"]

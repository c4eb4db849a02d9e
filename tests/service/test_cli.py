"""`hermit catalog`: the versions of the service, seen from the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hermit.cli.catalog import app
from hermit.service.commands import CreateSchema, DropTable
from hermit.service.homes import Home
from tests.service.conftest import Cluster
from tests.service.world import table


@pytest.fixture
def used(persist_home: Callable[[], Home], tmp_path: Path) -> list[str]:
    """A catalog with three versions, and the options that name it."""
    cluster = Cluster(persist_home)
    node = cluster.node()
    cluster.result(node.execute([CreateSchema(name="shop"), table("orders")]))
    cluster.result(node.execute(DropTable(schema="shop", name="orders")))
    cluster.close()
    return ["--store", "persist", "--location", str(tmp_path / "shard")]


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_versions_are_listed_with_their_changes(used: list[str]) -> None:
    found = json.loads(run("versions", "--json", *used))
    assert [each["version"] for each in found] == [1, 2, 3]
    assert found[1]["changes"] == ["new_schema", "object_id_gen_update", "new_table", "object_id_gen_update"]
    assert found[2]["changes"] == ["drop"]
    assert run("versions", *used).splitlines()[0].split() == ["version", "active", "since", "changes"]


def test_objects_are_listed_as_of_a_version(used: list[str]) -> None:
    assert "shop.orders" in run("show", "2", *used)
    assert "shop.orders" not in run("show", *used)
    names = [each["name"] for each in json.loads(run("show", "2", "--json", *used))]
    assert names == ["default", "public", "shop", "shop.orders"]


@pytest.mark.row("I-33", "I-38")
def test_serializers_are_listed_with_version_and_release() -> None:
    found = json.loads(run("serializers", "--json"))
    assert {"type": "TABLE", "type_id": 12, "version": 2, "since": "0.1.0"} in found
    assert "VERSIONED_UPDATE" in run("serializers")


def test_releasing_again_changes_nothing() -> None:
    from hermit.service.wire import guard

    before = guard.RELEASED.read_bytes()
    assert run("release") == ""
    assert guard.RELEASED.read_bytes() == before

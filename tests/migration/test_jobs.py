"""The jobs beside a move under a real Spark: a catalog is generated, moved, and verified."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from hermit.digest import digest_rows
from hermit.errors import InvalidInput
from hermit.formats.generate import Recipe, rows
from hermit.migration import generating
from hermit.migration.executors import on_spark
from hermit.migration.job import STASH_URL_VARIABLE
from hermit.migration.protocol import Direction
from hermit.migration.stores import Stores
from hermit.stash import bulk
from tests.migration.driver import move, stores_for

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.usefixtures("spark")]

JOBS = Path(__file__).parents[2] / "spark_jobs"
Job = Callable[..., Any]


@pytest.fixture
def stores(database_url: str, tmp_path: Path, organization_id: UUID) -> Stores:
    return stores_for(database_url, str(tmp_path / "shards"), organization_id)


@pytest.fixture
def job(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> Job:
    """Runs a job in the shared session, over partitions of sixty rows."""

    def run(name: str, **request: object) -> Any:
        spec = importlib.util.spec_from_file_location(f"{name}_job", JOBS / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        monkeypatch.setenv(STASH_URL_VARIABLE, stores.stash_url)
        given = {"organization_id": str(stores.organization_id), "rows_per_partition": 60}
        return module.main({**given, **request})

    return run


def test_a_catalog_is_generated_by_partitions_and_verified_after_its_move(
    stores: Stores, job: Job, capsys: pytest.CaptureFixture[str]
) -> None:
    job("generate", objects=300, seed=7, max_parallelism=3)
    assert "wrote 301 rows" in capsys.readouterr().out
    with stores.stash_client.open_read_only() as stash:
        assert bulk.digests(stash) == digest_rows(rows(300, 7))
    with pytest.raises(InvalidInput, match="holds a catalog already"):
        job("generate", objects=300)
    move(stores, Direction.MIGRATE)
    assert job("verify", location=stores.location) == 0
    assert json.loads(capsys.readouterr().out)["equal"]
    with stores.persist.open() as catalog:
        catalog.set_setting("changed", "1")
    assert job("verify", location=stores.location) == 1
    report = json.loads(capsys.readouterr().out)["collections"]
    assert [name for name, entry in report.items() if not entry["equal"]] == ["settings"]


def test_how_many_partitions_are_done_is_said_while_they_run(stores: Stores, spark: Any) -> None:
    said: list[str] = []
    request = {"rows_per_partition": 100}
    workers = on_spark(lambda: spark.sparkContext, request, said.append, every_s=0.01)
    generating.generate(stores.stash_client, Recipe(300, 1), workers)
    assert {line.rpartition(" of ")[2] for line in said} == {"4 tasks"}

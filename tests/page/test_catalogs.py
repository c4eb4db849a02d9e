"""What the page reads from the stores: the same as `hermit status`, and quickly for a hundred catalogs."""

from __future__ import annotations

import uuid
from pathlib import Path
from uuid import UUID

import psycopg
import pytest

from hermit.formats.generate import rows
from hermit.migration.load import load_rows
from hermit.migration.protocol import Direction
from hermit.migration.status import status
from hermit.migration.stores import Stores, connect
from hermit.stash.schema import CATALOG, control, create_heap, create_schema, first_heap, schema_name
from hermit.stash.survey import survey
from hermit_airflow.page.catalogs import Catalogs, NoSuchCatalog, facts
from hermit_airflow.page.place import Place
from tests.migration.driver import move


def _catalogs(database_url: str, shards: Path) -> Catalogs:
    return Catalogs(lambda: [Place("default", database_url, str(shards))])


@pytest.fixture
def moved(database_url: str, tmp_path: Path, organization_id: UUID) -> Stores:
    stores = connect(database_url, str(tmp_path), organization_id)
    load_rows(stores, rows(40, 7))
    move(stores, Direction.MIGRATE)
    return stores


def test_both_sides_say_what_the_status_command_says(moved: Stores, tmp_path: Path) -> None:
    catalogs = _catalogs(moved.stash_url, tmp_path)
    expected = status(moved)
    sighting = catalogs.find(str(moved.organization_id))
    shown = facts(sighting)
    for store in ("stash", "persist"):
        for field in ("initialized", "epoch", "tombstone", "deploy_generation", "format_version"):
            assert shown[store][field] == expected[store][field]
    for field in ("upper", "since", "delta_version", "shard_id"):
        assert shown["persist"][field] == expected["persist"][field]
    assert shown["source_of_truth"] == expected["source_of_truth"]


def test_rows_and_digests_are_those_of_the_status_command(moved: Stores, tmp_path: Path) -> None:
    catalogs = _catalogs(moved.stash_url, tmp_path)
    expected = status(moved)
    sighting = catalogs.find(str(moved.organization_id))
    catalogs.sizes(sighting, ask=True)
    catalogs.contents.wait()
    sizes = catalogs.sizes(sighting, ask=True)
    for store in ("stash", "persist"):
        assert sizes[store]["rows"] == expected[store]["rows"]
        assert sizes[store]["digest"] == expected[store]["digest"]
        shown = {name: size["rows"] for name, size in sizes[store]["collections"].items()}
        assert shown == {name: size["rows"] for name, size in expected[store]["collections"].items()}


def test_looking_raises_no_epoch_and_writes_nothing(moved: Stores, tmp_path: Path) -> None:
    before = (moved.stash.epoch(), moved.persist.epoch(), moved.persist.frontiers())
    catalogs = _catalogs(moved.stash_url, tmp_path)
    catalogs.list()
    catalogs.sizes(catalogs.find(str(moved.organization_id)), ask=True)
    catalogs.contents.wait()
    assert (moved.stash.epoch(), moved.persist.epoch(), moved.persist.frontiers()) == before


def test_a_stash_that_does_not_answer_is_named_without_its_address(tmp_path: Path) -> None:
    url = "postgresql://someone:s3cret@127.0.0.1:1/nowhere"
    found, silent = _catalogs(url, tmp_path).list()
    assert found == []
    assert silent == [{"place": "default", "error": "hermit_stash_default does not answer"}]


def test_an_organization_that_no_stash_holds_is_not_found(database_url: str, tmp_path: Path) -> None:
    with pytest.raises(NoSuchCatalog):
        _catalogs(database_url, tmp_path).find(str(uuid.uuid4()))


def test_the_number_of_queries_does_not_grow_with_the_number_of_catalogs(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = []
    executed = 0
    execute = psycopg.Connection.execute

    def counted(self: psycopg.Connection, *arguments: object, **options: object) -> object:
        nonlocal executed
        executed += 1
        return execute(self, *arguments, **options)  # type: ignore[arg-type]

    for total in (1, 100):
        _initialize(database_url, total - len(survey(database_url)))
        monkeypatch.setattr(psycopg.Connection, "execute", counted)
        executed = 0
        found, _ = _catalogs(database_url, tmp_path).list()
        counts.append(executed)
        monkeypatch.undo()
        assert len(found) == total
    assert counts[0] == counts[1]


def _initialize(database_url: str, count: int) -> None:
    """Catalogs that hold nothing but their fence."""
    with psycopg.connect(database_url) as connection, connection.pipeline():
        for _ in range(count):
            schema = schema_name(uuid.uuid4())
            for statement in (*create_schema(schema), create_heap(schema, first_heap(CATALOG))):
                connection.execute(statement)
            connection.execute(control(schema, CATALOG).create_fence, [first_heap(CATALOG)])

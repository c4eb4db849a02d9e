"""What the page reads from the stores: the same as `hermit status`, and quickly for a hundred catalogs."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
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
from hermit_airflow.page.catalogs import Catalogs, NoSuchCatalog, facts
from hermit_airflow.page.place import Place
from tests.migration.driver import move


@contextlib.contextmanager
def _looking(database_url: str, shards: Path) -> Iterator[Catalogs]:
    catalogs = Catalogs(lambda: [Place("default", database_url, str(shards))])
    try:
        yield catalogs
    finally:
        catalogs.close()


@pytest.fixture
def moved(database_url: str, tmp_path: Path, organization_id: UUID) -> Stores:
    stores = connect(database_url, str(tmp_path), organization_id)
    load_rows(stores, rows(40, 7))
    move(stores, Direction.MIGRATE)
    return stores


@pytest.fixture
def looking(database_url: str, tmp_path: Path) -> Iterator[Catalogs]:
    with _looking(database_url, tmp_path) as catalogs:
        yield catalogs


def test_both_sides_say_what_the_status_command_says(moved: Stores, looking: Catalogs) -> None:
    expected = status(moved)
    shown = facts(looking.find(str(moved.organization_id)))
    for store in ("stash", "persist"):
        for field in ("initialized", "epoch", "tombstone", "deploy_generation", "format_version"):
            assert shown[store][field] == expected[store][field]
    for field in ("upper", "since", "delta_version", "shard_id"):
        assert shown["persist"][field] == expected["persist"][field]
    assert shown["source_of_truth"] == expected["source_of_truth"]


def test_rows_and_digests_are_those_of_the_status_command(moved: Stores, looking: Catalogs) -> None:
    expected = status(moved)
    sighting = looking.find(str(moved.organization_id))
    looking.sizes(sighting, ask=True)
    looking.contents.wait()
    sizes = looking.sizes(sighting, ask=True)
    for store in ("stash", "persist"):
        assert sizes[store]["rows"] == expected[store]["rows"]
        assert sizes[store]["digest"] == expected[store]["digest"]
        shown = {name: size["rows"] for name, size in sizes[store]["collections"].items()}
        assert shown == {name: size["rows"] for name, size in expected[store]["collections"].items()}


def test_looking_raises_no_epoch_and_writes_nothing(moved: Stores, looking: Catalogs) -> None:
    before = (moved.stash.epoch(), moved.persist.epoch(), moved.persist.frontiers())
    looking.list()
    looking.sizes(looking.find(str(moved.organization_id)), ask=True)
    looking.contents.wait()
    assert (moved.stash.epoch(), moved.persist.epoch(), moved.persist.frontiers()) == before


def test_a_stash_that_does_not_answer_is_named_without_its_address(tmp_path: Path) -> None:
    with _looking("postgresql://someone:s3cret@127.0.0.1:1/nowhere", tmp_path) as catalogs:
        found, silent = catalogs.list()
    assert found == []
    assert silent == [{"place": "default", "error": "hermit_stash_default does not answer"}]


def test_an_organization_that_no_stash_holds_is_not_found(looking: Catalogs) -> None:
    with pytest.raises(NoSuchCatalog):
        looking.find(str(uuid.uuid4()))


def test_a_connection_that_the_server_closed_is_made_anew(moved: Stores, looking: Catalogs) -> None:
    assert len(looking.list()[0]) == 1
    with psycopg.connect(moved.stash_url) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    assert str(looking.find(str(moved.organization_id)).organization_id) == str(moved.organization_id)


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

    for more in (1, 99):
        _initialize(database_url, more)
        with _looking(database_url, tmp_path) as catalogs, monkeypatch.context() as patch:
            patch.setattr(psycopg.Connection, "execute", counted)
            executed = 0
            found, _ = catalogs.list()
        counts.append((len(found), executed))
    assert [total for total, _ in counts] == [1, 100]
    assert counts[0][1] == counts[1][1]


def _initialize(database_url: str, count: int) -> None:
    """Catalogs that hold nothing but their fence."""
    with psycopg.connect(database_url) as connection, connection.pipeline():
        for _ in range(count):
            schema = schema_name(uuid.uuid4())
            for statement in (*create_schema(schema), create_heap(schema, first_heap(CATALOG))):
                connection.execute(statement)
            connection.execute(control(schema, CATALOG).create_fence, [first_heap(CATALOG)])

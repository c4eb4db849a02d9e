"""Comparing both stores in partitions: equal, different, or changed meanwhile; without touching them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from hermit.durable.contents import MOVED
from hermit.errors import NotInitialized
from hermit.formats.generate import rows
from hermit.migration import verifying
from hermit.migration.job import STASH_URL_VARIABLE
from hermit.migration.load import load_rows
from hermit.migration.parts import Part
from hermit.migration.protocol import Direction
from hermit.migration.stores import Stores
from hermit.migration.throttle import Limits
from hermit.migration.verifying import Verification
from hermit.migration.work import Workers
from tests.migration.driver import move, stores_for

VERIFY = Path(__file__).parents[2] / "spark_jobs" / "verify.py"
LIMITS = Limits(rows_per_partition=60)


@pytest.fixture
def stores(database_url: str, tmp_path: Path, organization_id: UUID) -> Stores:
    """A catalog that was moved."""
    stores = stores_for(database_url, str(tmp_path / "shards"), organization_id)
    load_rows(stores, rows(300, 7))
    move(stores, Direction.MIGRATE)
    return stores


def verify(stores: Stores, meanwhile: Callable[[], object] = lambda: None) -> Verification:
    def run(function: Any, items: Any) -> list[Part]:
        assert len(items) > 4
        meanwhile()
        return [function(item) for item in items]

    return verifying.verify(stores, Workers(run, limits=LIMITS))


def change(stores: Stores, store: str, value: str, name: str = "changed") -> None:
    with getattr(stores, store).open() as catalog:
        catalog.set_setting(name, value)


def test_both_sides_are_equal_after_a_move_and_as_the_move_found_them(stores: Stores) -> None:
    found = verify(stores)
    assert (found.different, found.moved, found.exit_code) == ([], [], verifying.EQUAL)
    with stores.stash.inspect() as stash, stores.persist.inspect() as persist:
        for side, digests in ((stash, found.stash), (persist, found.persist)):
            wanted = {name: digest for name, digest in side.digests().items() if digest.rows}
            assert dict(digests) == wanted
            assert side.content_version() == found.versions["stash" if side is stash else "persist"]
    report = found.to_json()
    assert tuple(report["collections"]) == MOVED
    assert all(entry["equal"] for entry in report["collections"].values())


@pytest.mark.parametrize("store", ["stash", "persist"])
def test_one_row_more_on_one_side_names_its_collection(stores: Stores, store: str) -> None:
    change(stores, store, "1")
    found = verify(stores)
    assert (found.different, found.exit_code) == (["settings"], verifying.DIFFERENT)
    report = found.to_json()
    assert [name for name, entry in report["collections"].items() if not entry["equal"]] == ["settings"]
    assert not report["equal"]


def test_another_value_of_as_many_rows_is_a_difference(stores: Stores) -> None:
    change(stores, "stash", "1")
    change(stores, "persist", "2")
    found = verify(stores)
    assert found.stash["settings"].rows == found.persist["settings"].rows
    assert found.different == ["settings"]


def test_a_row_that_is_stored_twice_counts_twice(stores: Stores) -> None:
    schema = stores.stash_client.schema
    with psycopg.connect(stores.stash_url) as connection:
        ((heap,),) = connection.execute(f"SELECT heap FROM {schema}.fence")
        items = f"SELECT collection_id FROM {schema}.collections WHERE name = 'items'"
        one = f"SELECT * FROM {schema}.{heap} WHERE collection_id = ({items}) LIMIT 1"
        connection.execute(f"INSERT INTO {schema}.{heap} {one}")
    assert verify(stores).different == ["items"]


def stored_updates(stores: Stores) -> int:
    with stores.stash.inspect() as stash:
        return sum(1 for _ in stash.snapshot_unconsolidated())


def test_history_counts_by_its_sum_whichever_way_each_side_came_there(stores: Stores) -> None:
    for store, values in (("stash", ["1", "2", "9"]), ("persist", ["9", "4", "9"])):
        for value in values:
            change(stores, store, value)
    before = stored_updates(stores)
    assert verify(stores).exit_code == verifying.EQUAL
    # Retractions are there still: they were counted, not merged away first.
    assert stored_updates(stores) == before > verify(stores).stash["settings"].rows


def marks(stores: Stores) -> list[object]:
    """What would change if anybody wrote, opened or merged anything."""
    files = sorted(path for path in Path(stores.location).rglob("*") if path.is_file())
    with psycopg.connect(stores.stash_url) as connection:
        schema = stores.stash_client.schema
        fence = connection.execute(f"SELECT * FROM {schema}.fence").fetchall()
        sinces = connection.execute(f"SELECT * FROM {schema}.sinces ORDER BY 1").fetchall()
    return [files, fence, sinces, stored_updates(stores)]


def test_it_fences_nobody_and_writes_nothing(stores: Stores) -> None:
    with stores.stash.open() as stash, stores.persist.open() as persist:
        stash.set_setting("changed", "1")
        stash.set_setting("changed", "2")
        before = marks(stores)
        verify(stores)
        assert marks(stores) == before
        stash.confirm_leadership()
        persist.confirm_leadership()


@pytest.mark.parametrize("store", ["stash", "persist"])
def test_a_side_that_changes_meanwhile_is_named(stores: Stores, store: str) -> None:
    found = verify(stores, lambda: change(stores, store, "1"))
    assert (found.moved, found.exit_code) == ([store], verifying.MOVING)
    # What was read is the state before, on both sides, whatever came later.
    assert found.different == []


def test_an_opening_alone_is_no_change(stores: Stores) -> None:
    def open_both() -> None:
        stores.stash.open().close()
        stores.persist.open().close()

    assert verify(stores, open_both).exit_code == verifying.EQUAL


def test_a_side_without_a_catalog_is_refused(
    database_url: str, tmp_path: Path, organization_id: UUID
) -> None:
    stores = stores_for(database_url, str(tmp_path / "shards"), organization_id)
    with pytest.raises(NotInitialized, match="the stash of"):
        verify(stores)
    load_rows(stores, rows(20, 1))
    with pytest.raises(NotInitialized, match="the persist of"):
        verify(stores)


def script(stores: Stores, **request: object) -> subprocess.CompletedProcess[str]:
    """The job over a small catalog, which needs no Spark, as a process."""
    given = {"organization_id": str(stores.organization_id), "location": stores.location, **request}
    return subprocess.run(
        [sys.executable, str(VERIFY), json.dumps(given)],
        env={**os.environ, STASH_URL_VARIABLE: stores.stash_url},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_the_exit_code_tells_equal_from_different_from_failed(stores: Stores) -> None:
    equal = script(stores)
    assert equal.returncode == verifying.EQUAL, equal.stderr
    change(stores, "stash", "1")
    different = script(stores)
    assert different.returncode == verifying.DIFFERENT, different.stderr
    assert not json.loads(different.stdout)["collections"]["settings"]["equal"]
    other = uuid4()
    failed = script(stores, organization_id=str(other))
    assert (failed.returncode, failed.stdout) == (verifying.FAILED, "")
    assert failed.stderr.splitlines() == [f"hermit: the stash of {other} holds no catalog to compare"]
    assert script(stores, location=None).returncode == verifying.FAILED

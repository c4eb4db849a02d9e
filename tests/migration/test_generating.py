"""A generated catalog, made in partitions: the same as in one go, and nothing twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest

from hermit.digest import Digest, digest_rows
from hermit.errors import Fenced, InvalidInput, Unavailable
from hermit.formats.generate import Recipe, rows
from hermit.formats.generate_facts import BLOCK_ROWS
from hermit.formats.versions import MIN_STASH_VERSION
from hermit.migration import generating
from hermit.migration.executors import on_spark
from hermit.migration.load import load_rows
from hermit.migration.parts import Part
from hermit.migration.stores import Stores
from hermit.migration.throttle import Limits
from hermit.migration.work import Workers
from hermit.rows import Row
from hermit.stash import StashClient, bulk
from tests.migration.driver import stores_for

RECIPE = Recipe(300, 7)


@pytest.fixture
def stores(database_url: str, tmp_path: Path, organization_id: UUID) -> Stores:
    """A stash that does not exist yet."""
    return stores_for(database_url, str(tmp_path / "shards"), organization_id)


def workers(times: int = 1, before: Callable[[int], None] = lambda number: None) -> Workers:
    """Runs every partition so many times, and something before each."""

    def run(function: Any, items: Any) -> list[Part]:
        parts = []
        for number, item in enumerate(items):
            before(number)
            parts.append([function(item) for _ in range(times)][-1])
        return parts

    return Workers(run, limits=Limits(rows_per_partition=60))


def contents(stores: Stores) -> dict[str, Digest]:
    """Of every stored row: one that is there twice counts twice."""
    with stores.stash_client.open_read_only() as stash:
        return bulk.digests(stash)


@pytest.mark.parametrize(
    "recipe",
    [RECIPE, Recipe(300, 8, MIN_STASH_VERSION), Recipe(None, 1, like={"items": {"rows": 90, "bytes": 9000}})],
)
def test_the_catalog_is_the_one_that_is_made_in_one_go(stores: Stores, recipe: Recipe) -> None:
    wanted = digest_rows(rows(recipe.objects, recipe.seed, recipe.version, recipe.like))
    assert len(list(generating.cut(recipe, workers()))) > 1
    count = generating.generate(stores.stash_client, recipe, workers())
    assert count == sum(digest.rows for digest in wanted.values())
    assert contents(stores) == wanted
    assert stores.sides() == set()


def test_it_can_be_opened_and_is_what_loading_it_gives(
    stores: Stores, database_url: str, tmp_path: Path
) -> None:
    generating.generate(stores.stash_client, RECIPE, workers())
    loaded = stores_for(database_url, str(tmp_path / "shards"), UUID(int=1))
    load_rows(loaded, rows(RECIPE.objects, RECIPE.seed))
    with stores.stash.open() as one, loaded.stash.open() as other:
        assert list(one.snapshot()) == list(other.snapshot())


def test_a_partition_that_is_run_twice_leaves_no_double_rows(stores: Stores) -> None:
    count = generating.generate(stores.stash_client, RECIPE, workers(times=2))
    assert count == 301
    assert contents(stores) == digest_rows(rows(300, 7))


class Killed(Exception):
    """The job dies here."""


def test_a_run_that_died_leaves_no_catalog_and_the_next_one_nothing_of_it(stores: Stores) -> None:
    def die(number: int) -> None:
        if number == 2:
            raise Killed

    with pytest.raises(Killed):
        generating.generate(stores.stash_client, Recipe(300, 1), workers(before=die))
    assert not stores.stash.is_initialized()
    assert len(stores.sides()) == 1
    generating.generate(stores.stash_client, RECIPE, workers())
    assert contents(stores) == digest_rows(rows(300, 7))
    assert stores.sides() == set()


def test_a_stash_that_holds_a_catalog_is_refused_and_not_fenced(stores: Stores) -> None:
    load_rows(stores, rows(20, 1))
    with stores.stash.open() as catalog:
        before = contents(stores)
        with pytest.raises(InvalidInput, match="holds a catalog already"):
            generating.generate(stores.stash_client, RECIPE, workers())
        catalog.confirm_leadership()
    assert contents(stores) == before
    assert stores.sides() == set()


class Early(StashClient):
    """Asked whether there is something just before there was."""

    def is_initialized(self) -> bool:
        return False


def test_a_catalog_made_between_looking_and_opening_is_refused_and_not_fenced(stores: Stores) -> None:
    load_rows(stores, rows(20, 1))
    before = stores.stash_client.fence()
    with pytest.raises(InvalidInput, match="holds a catalog already"):
        generating.generate(Early(stores.stash_url, stores.organization_id), RECIPE, workers())
    assert stores.stash_client.fence() == before


def test_a_catalog_that_somebody_makes_meanwhile_is_not_replaced(stores: Stores) -> None:
    def make(number: int) -> None:
        if number == 1:
            stores.stash.open().close()

    with pytest.raises(Fenced):
        generating.generate(stores.stash_client, RECIPE, workers(before=make))
    with stores.stash.open() as catalog:
        assert catalog.get_items() == []


def test_what_cannot_be_generated_touches_no_stash(stores: Stores) -> None:
    for recipe, message in ((Recipe(1, 1, 13), "no format 13"), (Recipe(None, 1), "how many")):
        with pytest.raises(InvalidInput, match=message):
            generating.generate(stores.stash_client, recipe, workers())
    with pytest.raises(InvalidInput, match="no max_rows_per_second"):
        on_spark(lambda: None, {"max_rows_per_second": 1}, print)
    assert stores.stash_client.fence() is None
    assert bulk.sides(stores.stash_client) == []


def test_blocks_of_a_large_collection_are_made_one_by_one_and_are_the_same() -> None:
    recipe = Recipe(None, 3, like={"id_allocators": {"rows": 2 * BLOCK_ROWS + 5, "bytes": 0}})
    pieces = [piece for piece in recipe.pieces() if piece.collection == "id_allocators"]
    assert [piece.rows for piece in pieces] == [BLOCK_ROWS, BLOCK_ROWS, 5]
    apart = [list(recipe.rows(piece)) for piece in reversed(pieces)]
    assert [len(part) for part in apart] == [5, BLOCK_ROWS, BLOCK_ROWS]
    together = [row for row in rows(None, 3, like=recipe.like) if row.collection == "id_allocators"]
    assert [row for part in reversed(apart) for row in part] == together
    assert len({row.key for row in together}) == len(together)
    values = [[row.value for row in part] for part in apart]
    assert values[1] != values[2]


def test_rows_that_can_be_read_once_are_loaded_whole_or_not_at_all(stores: Stores) -> None:
    """A connection that breaks has the opening tried again, when some rows were read already."""

    def breaking() -> Iterator[Row]:
        for number, row in enumerate(rows(300, 7)):
            if number == 100:
                with psycopg.connect(stores.stash_url, autocommit=True) as other:
                    other.execute(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                    )
            yield row

    with pytest.raises(Unavailable, match="holds none"):
        load_rows(stores, breaking())
    assert not stores.stash.is_initialized()
    assert load_rows(stores, rows(300, 7)) == sum(1 for _ in rows(300, 7))

"""Stash and shard run the same steps: opening either at any version gives the same catalog."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from hermit.durable import init_persist_catalog_state, init_stash_catalog_state
from hermit.durable.abc import UnopenedCatalogState
from hermit.errors import CorruptData
from hermit.formats import config
from hermit.formats.collections import COLLECTIONS
from hermit.formats.errors import DuplicateKey, FormatFromTheFuture, FormatTooOld
from hermit.formats.generate import rows
from hermit.formats.versions import MIN_STASH_VERSION, STASH_VERSION
from hermit.persist import PersistClient
from hermit.rows import Row
from hermit.stash import StashClient
from tests.formats import frozen
from tests.formats.oracle import expected

VERSIONS = range(MIN_STASH_VERSION, STASH_VERSION + 1)


class Backend:
    """A store that raw rows can be put into and read from, without opening the catalog."""

    def __init__(
        self,
        load: Callable[[list[Row]], None],
        read: Callable[[], set[Row]],
        unopened: Callable[[], UnopenedCatalogState],
    ) -> None:
        self.load, self.read, self.unopened = load, read, unopened


@pytest.fixture
def stash(database_url: str, organization_id: uuid.UUID) -> Backend:
    client = StashClient(database_url, organization_id)

    def load(contents: list[Row]) -> None:
        handle, _ = client.open(lambda transaction: transaction.append([(row, 1) for row in contents]))
        handle.close()

    def read() -> set[Row]:
        with client.open_read_only() as handle:
            return handle.read(
                lambda transaction: {
                    Row(name, key, value) for name in COLLECTIONS for key, value in transaction.rows(name)
                }
            )

    return Backend(load, read, lambda: init_stash_catalog_state(database_url, organization_id))


@pytest.fixture
def persist(tmp_path: Path) -> Backend:
    location = tmp_path / "shard"

    def read() -> set[Row]:
        client = PersistClient.open(location, mode="ro")
        as_of = client.state().frontiers["config"].upper - 1
        found = list(client.snapshot(COLLECTIONS, as_of))
        assert all(diff == 1 for *_, diff in found)
        return {Row(*row) for *row, _ in found}

    def load(contents: list[Row]) -> None:
        init_persist_catalog_state(location).open().close()
        client = PersistClient.open(location)
        uppers = {name: frontier.upper for name, frontier in client.state().frontiers.items()}
        updates: dict[str, list[tuple[bytes, bytes, int, int]]] = {name: [] for name in uppers}
        for changed, diff in ((read(), -1), (contents, 1)):
            for row in changed:
                updates[row.collection].append((row.key, row.value, uppers[row.collection], diff))
        moved = {name: upper + 1 for name, upper in uppers.items()}
        client.compare_and_append(updates, expected=uppers, new_upper=moved)

    return Backend(load, read, lambda: init_persist_catalog_state(location))


@pytest.fixture(params=["stash", "persist"])
def backend(request: pytest.FixtureRequest) -> Backend:
    found: Backend = request.getfixturevalue(request.param)
    return found


@pytest.mark.row("M-19")
@pytest.mark.row("D-11")
@pytest.mark.parametrize("version", VERSIONS)
def test_opening_a_catalog_of_any_version_gives_what_the_oracle_says(backend: Backend, version: int) -> None:
    contents = list(rows(400, seed=version, version=version))
    backend.load(contents)
    with backend.unopened().open() as catalog:
        opened = set(catalog.snapshot())
    assert frozen.canonical(STASH_VERSION, opened) == expected(version, contents)
    assert backend.read() == opened


def _damaged() -> list[Row]:
    contents = list(rows(200, seed=1, version=17))
    index = next(index for index, row in enumerate(contents) if row.collection == "items")
    value = contents[index].value
    contents[index] = contents[index]._replace(value=bytes([value[0] ^ 1]) + value[1:])
    return contents


def _duplicate() -> list[Row]:
    contents = list(rows(200, seed=1, version=18))
    types = frozen.module(18)
    item = next(row for row in contents if row.collection == "items")
    key, _ = frozen.parse(18, item)
    padded = types.ItemKey(id=f"{key.id[0]}000{key.id[1:]}")
    return [*contents, item._replace(key=frozen.seal(padded))]


def _claims(version: int) -> Callable[[], list[Row]]:
    own = Row("config", config.encode_key(config.USER_VERSION), config.encode_value(version))
    return lambda: [own, *(row for row in rows(200, seed=1) if row.collection != "config")]


@pytest.mark.parametrize(
    ("contents", "error"),
    [
        (_damaged, CorruptData),
        (_duplicate, DuplicateKey),
        (_claims(0), FormatTooOld),
        (_claims(13), FormatTooOld),
        (_claims(STASH_VERSION + 1), FormatFromTheFuture),
        (_claims(2**63), FormatFromTheFuture),
    ],
    ids=["damaged", "duplicate", "v0", "v13", "next", "2**63"],
)
def test_what_cannot_be_upgraded_is_named_and_stays_as_it_was(
    backend: Backend, contents: Callable[[], Iterable[Row]], error: type[Exception]
) -> None:
    backend.load(list(contents()))
    before = backend.read()
    with pytest.raises(error):
        backend.unopened().open()
    assert backend.read() == before

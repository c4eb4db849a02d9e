"""Catalogs to test, on real storage: the stash on the run's PostgreSQL, persist on a local disk, and
a shadow over both.

A `Lab` stands for one catalog. Each call makes a new state, as another process would, and whatever it
opened is closed when the test ends.
"""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest
from psycopg import sql

from hermit.cli import app as cli
from hermit.durable import (
    init_persist_catalog_state,
    init_shadow_catalog_state,
    init_stash_catalog_state,
)
from hermit.durable.abc import DurableCatalogState, UnopenedCatalogState
from hermit.durable.fence import Fence
from hermit.durable.shard import Shard, fence_records, upper_of
from hermit.durable.token import FenceToken
from hermit.embedded.postgres import EmbeddedPostgres
from hermit.rows import Row

NOW_MS = 1_700_000_000_000


class Lab:
    """One catalog, and everything that a test opens of it."""

    def __init__(self, make: Callable[[], UnopenedCatalogState]) -> None:
        self.unopened = make
        self._opened = ExitStack()

    def open(self, **options: Any) -> DurableCatalogState:
        return self._opened.enter_context(self.unopened().open(**options))

    def read_only(self, **options: Any) -> DurableCatalogState:
        return self._opened.enter_context(self.unopened().open_read_only(**options))

    def savepoint(self, **options: Any) -> DurableCatalogState:
        return self._opened.enter_context(self.unopened().open_savepoint(**options))

    def resume(self, token: FenceToken, **options: Any) -> DurableCatalogState:
        return self._opened.enter_context(self.unopened().resume(token, **options))

    def close(self) -> None:
        self._opened.close()


def fill(lab: Lab, rows: Iterable[Row]) -> None:
    """Put rows of any format into a store that nobody opened, as the build that wrote them would have."""
    _fill(lab.unopened(), [(row, 1) for row in rows])


def refill(lab: Lab, changes: list[tuple[Row, int]]) -> None:
    """Change what is stored, as the same build would have later."""
    _fill(lab.unopened(), changes)


def _fill(unopened: Any, changes: list[tuple[Row, int]]) -> None:
    if unopened.store == "shadow":
        _fill(unopened.primary, changes)
        _fill(unopened.secondary, changes)
    elif unopened.store == "stash":
        unopened.client.open(lambda transaction: transaction.append(changes))[0].close()
    else:
        shard = Shard(unopened.location)
        state = shard.state()
        first = fence_records(0, None, Fence.next(None, 1, None))
        shard.append(state, changes, {} if upper_of(state) else first)


@pytest.fixture
def database_url(postgres: EmbeddedPostgres, organization_id: uuid.UUID) -> Iterator[str]:
    """Where the stash is: one database for all, because catalogs of different organizations do not meet."""
    yield postgres.url()
    schema = sql.Identifier(f"hermit_{organization_id.hex}")
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(schema))


@pytest.fixture
def stash(database_url: str, organization_id: uuid.UUID) -> Iterator[Lab]:
    """A catalog in the stash."""
    lab = Lab(lambda: init_stash_catalog_state(database_url, organization_id, now=lambda: NOW_MS))
    yield lab
    lab.close()


@pytest.fixture
def persist(tmp_path: Path) -> Iterator[Lab]:
    """A catalog on persist."""
    lab = Lab(lambda: init_persist_catalog_state(tmp_path / "shard", now=lambda: NOW_MS))
    yield lab
    lab.close()


@pytest.fixture
def shadow(stash: Lab, persist: Lab) -> Iterator[Lab]:
    """The same catalog on both, compared at every call."""
    lab = Lab(lambda: init_shadow_catalog_state(stash.unopened(), persist.unopened()))
    yield lab
    lab.close()


@pytest.fixture(params=["stash", "persist", "shadow"])
def lab(request: pytest.FixtureRequest) -> Lab:
    """A catalog, on each implementation in turn."""
    found: Lab = request.getfixturevalue(request.param)
    return found


class Result(NamedTuple):
    code: int
    out: str
    err: str

    def json(self) -> Any:
        assert self.code == 0, self.err
        return json.loads(self.out)


Run = Callable[..., Result]


@pytest.fixture
def hermit(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    database_url: str,
    organization_id: uuid.UUID,
    tmp_path: Path,
) -> Run:
    """Runs a command on the test's catalog."""

    def run(*arguments: str, main: Callable[[], None] = cli.run) -> Result:
        where = ["--stash-url", database_url, "--location", str(tmp_path / "shard")]
        where += ["--organization-id", str(organization_id)]
        monkeypatch.setattr(sys, "argv", ["hermit", *arguments, *where])
        with pytest.raises(SystemExit) as exited:
            main()
        captured = capsys.readouterr()
        return Result(int(exited.value.code or 0), captured.out, captured.err)

    return run

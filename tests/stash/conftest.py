"""What the stash's tests share: a client on an empty database, and a stash with one opener."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, TypeVar
from uuid import UUID

import psycopg
import pytest
from psycopg import sql

from hermit.stash import Stash, StashClient, StashTransaction, Token

T = TypeVar("T")

# Whoever waits for somebody else's transaction.
WAITING = "select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"


def raw(client: StashClient, statement: str) -> list[tuple[Any, ...]]:
    """What somebody at psql sees or does; `{schema}` is the organization's."""
    with psycopg.connect(client.url, autocommit=True) as connection:
        cursor = connection.execute(sql.SQL(statement).format(schema=sql.Identifier(client.schema)))
        return cursor.fetchall() if cursor.description else []


def nothing(transaction: StashTransaction) -> None:
    """A bootstrap that has nothing to do."""


class ClosingClient(StashClient):
    """A client whose handles are closed when the test ends."""

    def __init__(self, url: str, organization_id: UUID, **options: Any) -> None:
        super().__init__(url, organization_id, **options)
        self.handles = ExitStack()

    def open(self, bootstrap: Callable[[StashTransaction], T], *, epoch_min: int = 1) -> tuple[Stash, T]:
        stash, result = super().open(bootstrap, epoch_min=epoch_min)
        return self.handles.enter_context(stash), result

    def open_read_only(self) -> Stash:
        return self.handles.enter_context(super().open_read_only())

    def open_savepoint(self, bootstrap: Callable[[StashTransaction], T]) -> tuple[Stash, T]:
        stash, result = super().open_savepoint(bootstrap)
        return self.handles.enter_context(stash), result

    def resume(self, token: Token) -> Stash:
        return self.handles.enter_context(super().resume(token))


@pytest.fixture
def connect(database_url: str, organization_id: UUID) -> Iterator[Callable[..., ClosingClient]]:
    """Makes clients, of this test's organization and database unless told otherwise."""
    with ExitStack() as stack:

        def make(
            url: str = database_url, organization: UUID = organization_id, **options: Any
        ) -> ClosingClient:
            made = ClosingClient(url, organization, **options)
            stack.enter_context(made.handles)
            return made

        yield make


@pytest.fixture
def client(connect: Callable[..., ClosingClient]) -> ClosingClient:
    return connect()


@pytest.fixture
def stash(client: ClosingClient) -> Stash:
    return client.open(nothing)[0]

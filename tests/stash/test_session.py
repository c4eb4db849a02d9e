"""A session's connection stays usable, whatever the last transaction on it met."""

from __future__ import annotations

import psycopg
import pytest

from hermit.stash.connection import Target
from hermit.stash.retry import RetryPolicy
from hermit.stash.session import Session


def test_a_statement_that_was_to_be_prepared_in_a_failed_batch_works_afterwards(database_url: str) -> None:
    """psycopg prepares what is used often, and may believe to have done so where the server gave up first."""
    session = Session(Target(database_url), "a test", RetryPolicy())

    def batch(divisor: int) -> object:
        connection = session.connection()
        connection.execute(b"BEGIN")
        with connection.pipeline():
            connection.execute(f"SELECT 1 / {divisor}".encode())
            return connection.execute(b"SELECT 2").fetchone()

    batch(1)
    session.rollback()
    for _ in range(12):
        with pytest.raises(psycopg.errors.DivisionByZero):
            batch(0)
        session.rollback()
    assert batch(1) == (2,)
    session.close()


def test_a_transaction_that_was_left_open_is_gone_after_a_rollback(database_url: str) -> None:
    session = Session(Target(database_url), "a test", RetryPolicy())
    for statement in (b"SELECT 1", b"CREATE TEMPORARY TABLE t ()"):
        session.connection().execute(b"BEGIN; " + statement)
        session.rollback()
        assert session.connection().info.transaction_status == psycopg.pq.TransactionStatus.IDLE
    found = session.connection().execute(b"SELECT to_regclass('pg_temp.t')").fetchone()
    assert found == (None,)
    session.close()
    session.rollback()

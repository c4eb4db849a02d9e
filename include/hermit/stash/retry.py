"""Which errors heal by trying again, and how long we try.

Four kinds: a *conflict* (serialization failure, deadlock) heals on the same connection; a *broken*
connection heals on a new one, if the server comes back; a *forgotten* prepared statement heals on a
new one that prepares nothing; everything else cannot heal and is never tried again. Attempts and total
time are both bounded; the delay doubles, with jitter, so that two openers that collide do not collide
for ever.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
from psycopg import errors as pg

_CONFLICTS = (
    pg.SerializationFailure,
    pg.DeadlockDetected,
    pg.LockNotAvailable,
)
_BROKEN = (
    pg.AdminShutdown,
    pg.CrashShutdown,
    pg.CannotConnectNow,
    pg.TooManyConnections,
    pg.IdleInTransactionSessionTimeout,
    pg.TransactionTimeout,
)
# What a prepared statement meets when a pooler moved us to another of its connections.
_FORGOTTEN = (pg.InvalidSqlStatementName, pg.DuplicatePreparedStatement)
# "Statement completion unknown", in PostgreSQL's and in CockroachDB's words.
_UNKNOWN = (pg.StatementCompletionUnknown, pg.TransactionResolutionUnknown)
# libpq gives no SQLSTATE when connecting fails. These are answers that will not change by asking again;
# what is not listed (also: in another language) is tried again, which is bounded too.
_REFUSALS = (
    "authentication failed",
    "no password supplied",
    "does not exist",
    "pg_hba.conf",
    "definition of service",
    "service file",
    "certificate",
    "does not support SSL",
    "Name or service not known",
    "is not permitted to log in",
    "permission denied for database",
)


@dataclass(frozen=True)
class RetryPolicy:
    """How often and how long to try again, and how long to keep others waiting."""

    attempts_max: int = 30
    delay_s_first: float = 0.005
    delay_s_max: float = 1.0
    total_s_max: float = 30.0
    commit_s_max: float = 30.0
    """How long the server lets a commit take that has begun: whoever waits for the fence waits no longer."""

    def delays(self) -> Iterator[None]:
        """Yield after each wait; ends when the bound is reached."""
        end = time.monotonic() + self.total_s_max
        delay = self.delay_s_first
        for _ in range(self.attempts_max - 1):
            wait = delay * random.uniform(0.5, 1.0)
            if time.monotonic() + wait > end:
                return
            time.sleep(wait)
            yield
            delay = min(delay * 2, self.delay_s_max)


def is_conflict(error: psycopg.Error) -> bool:
    """Whether the transaction lost against another and may simply run again."""
    return isinstance(error, _CONFLICTS)


def is_broken(error: psycopg.Error, connection: psycopg.Connection | None) -> bool:
    """Whether the connection is gone, as opposed to a statement that failed."""
    if isinstance(error, _BROKEN):
        return True
    if not isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)):
        return False
    if connection is not None:
        return connection.broken or connection.closed
    return error.sqlstate is None or error.sqlstate.startswith("08")


def is_forgotten(error: psycopg.Error) -> bool:
    """Whether the server does not have the prepared statements that psycopg believes it to have."""
    return isinstance(error, _FORGOTTEN)


def was_reported(error: psycopg.Error) -> bool:
    """Whether the server itself said that the statement failed, and went on living.

    Without this, nothing may be concluded about a COMMIT: psycopg also raises errors of its own, as when a
    signal's exception interrupts a pipeline on a healthy connection.
    """
    if error.sqlstate is None or error.sqlstate.startswith("08"):
        return False
    return not isinstance(error, (*_BROKEN, *_UNKNOWN))


def interruption(error: psycopg.Error, outer: BaseException | None) -> BaseException | None:
    """What a signal handler raised while psycopg waited, if that is where the error came from.

    psycopg may replace such an exception by its own. `outer` is what was being handled before.
    """
    cause: BaseException | None = error
    while cause is not None and cause is not outer:
        if not isinstance(cause, psycopg.Error):
            return cause
        cause = cause.__context__
    return None


def is_refusal(error: psycopg.Error) -> bool:
    """Whether connecting failed in a way that trying again cannot mend."""
    text = str(error)
    return any(phrase in text for phrase in _REFUSALS)

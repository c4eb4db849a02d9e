"""Errors of the stash, and how a PostgreSQL error becomes one of them.

No message here holds a password: what libpq says about a connection string is dropped (it quotes the
string), and every other text passes through the target's `redact`. Errors are raised `from None` where
the cause would show the string in a traceback.
"""

from __future__ import annotations

from collections.abc import Callable

import psycopg
from psycopg import errors as pg

from hermit.errors import Fenced, HermitError, InvalidInput, ReadOnly, Unavailable


class InvalidUrl(InvalidInput):
    """The connection string cannot be parsed, so that nothing was tried."""

    hint = "a libpq URI looks like postgresql://user@host:5432/database; service=NAME works as well"


class ConnectionFailed(Unavailable):
    """No connection came about: the server is away, or refused us."""


class ConnectionLost(Unavailable):
    """The connection broke, again and again; what was asked for did not happen."""


class OutcomeUnknown(Unavailable):
    """The answer to COMMIT got lost and the store could not be asked: it happened once or not at all."""

    hint = "open the catalog again and look; the next open settles it either way"


class Contended(Unavailable):
    """Serialization failures outlasted every retry; nothing was written."""

    hint = "other writers are busy on the same rows; try again"


class DiskFull(Unavailable):
    """The server has no room left; nothing was written."""

    hint = "free space where postgresql keeps its data, then try again"


class StatementTimeout(Unavailable):
    """The server cancelled a statement; nothing was written."""

    hint = "raise statement_timeout for this role, or find what held the statement up"


class PermissionDenied(HermitError):
    """The role may not do this in this database."""

    hint = "grant the role what it needs, or connect as another"


class ReadOnlyRole(PermissionDenied, ReadOnly):
    """A write was asked of a role or server that only reads."""

    hint = "connect with a role that may write, to the primary server"


class SchemaReplaced(Fenced):
    """The stash was dropped, or dropped and created again, under this handle."""

    hint = "whoever restored or re-created the database owns the catalog now; open it again"


class TransactionOpen(InvalidInput):
    """A second transaction was begun on a handle inside the first."""

    hint = "use the transaction that the body was given"


class Closed(InvalidInput):
    """The handle was closed."""


class ValueTooLarge(InvalidInput):
    """One row is larger than a statement may be; nothing was written."""

    collection: str
    size_bytes: int
    limit_bytes: int


class FrontierError(InvalidInput):
    """An operation does not fit a collection's frontiers."""

    collection: str
    since: int | None
    upper: int


class LowerMismatch(FrontierError):
    """An append expected another upper than the collection has."""

    lower: int


class SealBackwards(FrontierError):
    """A seal below the upper: what was closed stays closed."""


class CompactOutOfRange(FrontierError):
    """A compaction below since, or to a time that is not complete yet."""


class ReadOutOfRange(FrontierError):
    """A read at a time outside [since, upper)."""


class SideMissing(InvalidInput):
    """No side table has this name."""

    hint = "create it first; `sides` lists what there is"


class SideSealed(InvalidInput):
    """A side table takes no more rows: it was verified, or is about to become the contents."""


class SideIncomplete(Unavailable):
    """Rows for a side table could not be written; this call added none."""


class ExportGone(Unavailable):
    """A part of an export cannot be read: the exporting transaction ended, or the connection broke."""

    hint = "export again; nothing was changed"


_NOT_RETRIED: list[tuple[type[psycopg.Error], type[HermitError], str]] = [
    (pg.DiskFull, DiskFull, "the server's disk is full"),
    (pg.QueryCanceled, StatementTimeout, "the server cancelled a statement"),
    (pg.ReadOnlySqlTransaction, ReadOnlyRole, "the server or role only reads"),
]


def translate(
    error: psycopg.Error, where: str, redact: Callable[[str], str], *, writing: bool
) -> HermitError:
    """The error of ours that says what PostgreSQL said."""
    detail = redact(" ".join(str(error).split()))
    for cause, result, what in _NOT_RETRIED:
        if isinstance(error, cause):
            return result(f"{what}: {where}: {detail}")
    # A standby refuses the isolation level of a write before it could refuse the write.
    if isinstance(error, pg.FeatureNotSupported) and "hot standby" in detail:
        return ReadOnlyRole(f"the server is a standby: {where}: {detail}")
    if isinstance(error, pg.InsufficientPrivilege):
        denied = ReadOnlyRole if writing else PermissionDenied
        return denied(f"permission denied: {where}: {detail}")
    if isinstance(error, (pg.SerializationFailure, pg.DeadlockDetected, pg.LockNotAvailable)):
        return Contended(f"gave up after many conflicts with other transactions: {where}: {detail}")
    if _is_loss(error):
        return ConnectionLost(f"lost the connection: {where}: {detail}")
    if error.sqlstate is None:
        # psycopg itself refused to send something.
        return InvalidInput(f"cannot be stored: {where}: {detail}")
    return Unavailable(f"postgresql refused: {where}: {detail}", hint=f"sqlstate {error.sqlstate}")


def _is_loss(error: psycopg.Error) -> bool:
    """Whether the connection went: noticed by libpq, or announced by a server that ends sessions."""
    if error.sqlstate is None:
        return isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError))
    ended = (pg.IdleInTransactionSessionTimeout, pg.TransactionTimeout)
    return error.sqlstate[:2] in ("08", "57") or isinstance(error, ended)

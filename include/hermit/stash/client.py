"""How a stash is reached and opened.

Opening for writing is one transaction: it makes the schema if there is none, takes the fence's row for
update, runs the bootstrap (initialize, upgrade or nothing), and raises the epoch to
`GREATEST(epoch + 1, epoch_min)` with a new nonce. If the bootstrap raises, nothing has changed, and
nobody was fenced. The answer to its COMMIT, if lost, is settled by the nonce, which only this attempt
knows: if it stands in the row, the open happened; if not, it is tried again, which is safe because a
bootstrap that already happened finds nothing left to do.

Opening to read, and for a dry run, writes nothing: such a handle keeps the epoch that it read, compares
it on every use, and fails once it has moved.
"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Callable
from typing import TypeVar
from uuid import UUID

import psycopg
from psycopg import errors as pg

from hermit.errors import HermitError, NotInitialized, invariant, violated
from hermit.stash.connection import Target
from hermit.stash.errors import OutcomeUnknown
from hermit.stash.fence import Fence, FenceRow, Token
from hermit.stash.handle import Stash, fence_row
from hermit.stash.retry import RetryPolicy, was_reported
from hermit.stash.savepoint import SavepointStash
from hermit.stash.schema import (
    BEGIN_OPEN,
    CATALOG,
    COMMIT,
    check_component,
    control,
    create_heap,
    create_heap_indexes,
    create_schema,
    first_heap,
    schema_name,
    stored_heap,
)
from hermit.stash.session import NotApplied, Session
from hermit.stash.transaction import StashTransaction

T = TypeVar("T")

# Two first openers race for the schema's name: the loser finds it made and goes on.
_RACED = (pg.UniqueViolation, pg.DuplicateSchema, pg.DuplicateTable)
# Lost commits of handles this many epochs back can still be settled.
_EPOCHS_KEPT = 100


def _fence(transaction: StashTransaction | None) -> Fence | None:
    return None if transaction is None else transaction.fence


class StashClient:
    """One component's stash in one database. Making a client connects to nothing and writes nothing."""

    def __init__(
        self,
        url: str,
        organization_id: UUID,
        *,
        component: str = CATALOG,
        retry: RetryPolicy | None = None,
        opened_by: str | None = None,
    ) -> None:
        self.organization_id = organization_id
        self.component = check_component(component)
        self.schema = schema_name(organization_id)
        self._target = Target(url)
        self._retry = retry or RetryPolicy()
        self._control = control(self.schema, self.component)
        self._opened_by = opened_by or f"{socket.gethostname()} pid {os.getpid()}"

    @property
    def url(self) -> str:
        """The connection string, secrets included: for the modules of the stash, not for people."""
        return self._target.url

    def __repr__(self) -> str:
        return f"<StashClient {self._where}>"

    # Looking, without opening

    def is_initialized(self) -> bool:
        """Whether something was ever written."""

        def look(transaction: StashTransaction | None) -> bool:
            return transaction is not None and any(p.upper > 0 for p in transaction.places().values())

        return self.look(look)

    def fence(self) -> Fence | None:
        """The fence, or None where there is no stash."""
        return self.look(_fence)

    def config(self) -> dict[str, int]:
        """The entries of the collection `config`; empty where there is no stash."""
        return self.fence_and_config()[1]

    def fence_and_config(self) -> tuple[Fence | None, dict[str, int]]:
        """Both as they were at one moment."""
        from hermit.formats import config

        def look(transaction: StashTransaction | None) -> tuple[Fence | None, dict[str, int]]:
            if transaction is None:
                return None, {}
            pairs = transaction.rows("config")
            entries = {config.decode_key(key): config.decode_value(value) for key, value in pairs}
            return transaction.fence, entries

        return self.look(look)

    def look(self, body: Callable[[StashTransaction | None], T]) -> T:
        """Run `body` on one snapshot, without a fence; it gets None where there is no stash."""
        session = self._session()
        try:
            return self._look(session, body)
        finally:
            session.close()

    def _look(self, session: Session, body: Callable[[StashTransaction | None], T]) -> T:
        def attempt() -> T:
            connection = session.connection()
            try:
                row = fence_row(connection, self._control.begin_read)
                return body(None if row is None else self._transaction(connection, row, writable=False))
            finally:
                session.rollback()

        return session.run(attempt, writing=False)

    # Opening

    def open(self, bootstrap: Callable[[StashTransaction], T], *, epoch_min: int = 1) -> tuple[Stash, T]:
        """Take the stash over: raise the epoch, and initialize or upgrade, in one transaction."""
        session = self._session()
        try:
            row, result = session.run(lambda: self._open_once(session, bootstrap, epoch_min), writing=True)
        except BaseException:
            session.close()
            raise
        return Stash(session, self.schema, self.component, row.token, writable=True), result

    def open_read_only(self) -> Stash:
        """A handle that reads as long as nobody else opens."""
        session = self._session()
        try:
            token = self._current(self._look(session, _fence))
        except BaseException:
            session.close()
            raise
        return Stash(session, self.schema, self.component, token, writable=False)

    def open_debug(self) -> Stash:
        """Take an existing stash over to mend it by hand: nothing is initialized or upgraded."""
        self._current(self.fence())
        return self.open(lambda transaction: None)[0]

    def open_savepoint(self, bootstrap: Callable[[StashTransaction], T]) -> tuple[Stash, T]:
        """A dry run: everything works, nothing is ever committed, nobody is fenced or kept waiting."""
        session = self._session()

        def begin() -> SavepointStash:
            return SavepointStash(session, self._session(), self.schema, self.component, self._opened_by)

        try:
            stash = session.run(begin, writing=False)
        except BaseException:
            session.close()
            raise
        try:
            return stash, stash.write(bootstrap)
        except BaseException:
            stash.close()
            raise

    def resume(self, token: Token) -> Stash:
        """Go on as the handle that this token was taken from; `Fenced` on first use if it is not current."""
        return Stash(self._session(), self.schema, self.component, token, writable=True)

    @property
    def _where(self) -> str:
        suffix = "" if self.component == CATALOG else f"/{self.component}"
        return f"stash of {self.organization_id}{suffix}"

    def _session(self) -> Session:
        return Session(self._target, self._where, self._retry)

    def _current(self, fence: Fence | None) -> Token:
        if fence is None or fence.epoch == 0:
            raise NotInitialized(f"{self._where} was never opened for writing")
        return Token(fence.epoch, fence.nonce)

    def _transaction(
        self, connection: psycopg.Connection, row: FenceRow, *, writable: bool
    ) -> StashTransaction:
        heap = stored_heap(self.schema, row.heap)
        return StashTransaction(connection, self._control, heap, row, None, writable=writable)

    def _open_once(
        self, session: Session, bootstrap: Callable[[StashTransaction], T], epoch_min: int
    ) -> tuple[FenceRow, T]:
        nonce = secrets.token_bytes(16)
        connection = session.connection()
        try:
            connection.execute(BEGIN_OPEN)
            transaction = self._transaction(connection, self._lock_fence(connection), writable=True)
            result = bootstrap(transaction)
            transaction.finish()
            row = self._raise_epoch(session, transaction, epoch_min, nonce)
        except _RACED as error:
            session.rollback()
            raise pg.SerializationFailure(str(error)) from None
        except BaseException:
            session.rollback()
            raise
        try:
            status = connection.execute(COMMIT).statusmessage
            invariant(status == "COMMIT", "an open was committed", status=status)
        except psycopg.Error as error:
            if was_reported(error):
                session.rollback()
                raise
            if not self._opened_as(session, nonce):
                raise NotApplied(error) from None
        return row, result

    def _opened_as(self, session: Session, nonce: bytes) -> bool:
        """Whether the open whose answer got lost happened, and nobody opened since."""
        session.close()

        def ask() -> FenceRow | None:
            return fence_row(session.connection(), self._control.read_fence)

        try:
            row = session.run(ask, writing=False)
        except HermitError as error:
            raise OutcomeUnknown(
                f"{self._where}: the answer to opening it got lost, and asking failed: {error.message}"
            ) from None
        return row is not None and row.nonce == nonce

    def _lock_fence(self, connection: psycopg.Connection) -> FenceRow:
        """The fence's row, locked; made, with its schema, where there is none."""
        found = connection.execute(self._control.exists, [self.schema]).fetchone()
        if found is None or found[0] == 0:
            for statement in create_schema(self.schema):
                connection.execute(statement)
        row = fence_row(connection, self._control.lock_fence)
        if row is None:
            heap = first_heap(self.component)
            for statement in (create_heap(self.schema, heap), *create_heap_indexes(self.schema, heap)):
                connection.execute(statement)
            connection.execute(self._control.create_fence, [heap])
            row = fence_row(connection, self._control.lock_fence)
        return row or violated("a fence was made and is not there", schema=self.schema)

    def _raise_epoch(
        self, session: Session, transaction: StashTransaction, epoch_min: int, nonce: bytes
    ) -> FenceRow:
        changed, connection = int(transaction.dirty), session.connection()
        with session.in_one_go():
            transaction.send_rest()
            before = transaction.row
            if before.writer:
                connection.execute(self._control.note_writer, [before.writer, before.epoch, before.version])
            connection.execute(self._control.forget_writers, [before.epoch - _EPOCHS_KEPT])
            arguments = [epoch_min, nonce, changed, self._opened_by]
            found = connection.execute(self._control.raise_epoch, arguments).fetchone()
        return FenceRow(*found) if found else violated("the fence vanished", schema=self.schema)

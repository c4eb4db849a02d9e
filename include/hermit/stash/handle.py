"""An open stash: fenced reads and writes.

A write transaction is SERIALIZABLE and goes

    BEGIN; read the fence           one round trip: compare epoch and nonce
    the body                        its reads, and large batches as COPY
    rows, uppers, the fence's version and writer; COMMIT        one round trip

Comparing and writing are one transaction. The fence's row is changed last, so that a body that takes
long, or a process that stops in the middle, keeps no opener waiting; one that stops right behind the change
does so for `RetryPolicy.commit_s_max`. The database refuses the change if an opener, or another writer with
the same token, changed the row since BEGIN.

A COMMIT whose answer got lost is settled on a new connection. First a barrier: an update of the fence's
row that changes nothing, but waits for the lost transaction if it is committing, and makes its commit
impossible if it has not come that far. From then on the answer is final: the version that the lost
transaction was to write either stands beside this writer's name, in the fence or where a later writer
noted it, or it does not. If it does, the write is reported as done; if not, the body runs again. Nothing is
ever applied twice, and another writer's version is not mistaken for ours.

A body that wrote nothing is rolled back, and leaves the version as it is.
"""

from __future__ import annotations

import os
import secrets
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, TypeVar

import psycopg
from psycopg import errors as pg

from hermit.errors import HermitError, ReadOnly, invariant
from hermit.stash.errors import Closed, OutcomeUnknown, TransactionOpen
from hermit.stash.fence import Fence, FenceRow, Token, check
from hermit.stash.retry import interruption, was_reported
from hermit.stash.schema import COMMIT, Control, control, finish_write, stored_heap
from hermit.stash.session import NotApplied, Session
from hermit.stash.transaction import Place, StashTransaction

T = TypeVar("T")


class Stash:
    """A handle with an epoch. One thread at a time uses it; the others wait."""

    def __init__(
        self, session: Session, schema: str, component: str, token: Token, *, writable: bool
    ) -> None:
        self._session = session
        self._control: Control = control(schema, component)
        self._writable = writable
        self._writer = secrets.token_bytes(16)
        self._lock = threading.Lock()
        self._owner: int | None = None
        self._process = os.getpid()
        self._known: tuple[int, dict[str, Place]] | None = None
        self.schema = schema
        self.component = component
        self.token = token
        self.closed = False

    @property
    def epoch(self) -> int:
        """The epoch that this handle holds."""
        return self.token.epoch

    @property
    def is_dry_run(self) -> bool:
        """Whether nothing written here is ever kept."""
        return False

    @property
    def url(self) -> str:
        """The connection string, secrets included: for the modules of the stash, not for people."""
        return self._session.target.url

    @property
    def where(self) -> str:
        """Which catalog this is, for messages."""
        return self._session.where

    def __repr__(self) -> str:
        return f"<Stash {self.where} epoch {self.epoch}{' closed' if self.closed else ''}>"

    def __enter__(self) -> Stash:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let the connection go. The epoch stays: closing fences nobody."""
        self.closed = True
        self._session.close()

    def write(self, body: Callable[[StashTransaction], T]) -> T:
        """Run `body` in one fenced, serializable transaction and commit it, exactly once."""
        if not self._writable:
            raise ReadOnly(f"{self.where}: the handle with epoch {self.epoch} was opened to read only")
        with self.exclusive():
            return self._session.run(lambda: self._write_once(body), writing=True)

    def read(self, body: Callable[[StashTransaction], T]) -> T:
        """Run `body` on one fenced snapshot."""
        with self.exclusive():
            return self._session.run(lambda: self._read_once(body), writing=False)

    def confirm(self) -> Fence:
        """The fence, in one round trip, if this handle still owns it; else `Fenced`."""
        with self.exclusive():
            return self._session.run(
                lambda: self._checked_fence(self._control.read_fence), writing=False
            ).fence

    def beside(self, body: Callable[[psycopg.Connection, FenceRow], T]) -> T:
        """Run `body` in a transaction that changes no contents and may run beside the writer.

        It must be safe to run twice: a lost COMMIT is answered by running it again. An opener waits for
        it, a writer does not.
        """
        if not self._writable:
            raise ReadOnly(f"{self.where}: the handle with epoch {self.epoch} was opened to read only")
        with self.exclusive():
            return self._session.run(lambda: self._beside_once(body), writing=True)

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """The right to use the connection; not to be asked for twice by one thread."""
        if self.closed:
            raise Closed(f"{self.where}: the handle with epoch {self.epoch} is closed")
        if self._process != os.getpid():
            raise Closed(
                f"{self.where}: the handle with epoch {self.epoch} belongs to the process that made it",
                hint="resume with its token",
            )
        if self._owner == threading.get_ident():
            raise TransactionOpen(f"{self.where}: a transaction is open on this handle already")
        with self._lock:
            self._owner = threading.get_ident()
            try:
                yield
            finally:
                self._owner = None

    # One attempt each

    def _write_once(self, body: Callable[[StashTransaction], T]) -> T:
        transaction = self._begin(self._control.begin_write, writable=True)
        try:
            result = body(transaction)
            if not transaction.dirty:
                self._roll_back(transaction)
                return result
            transaction.finish()
        except BaseException:
            self._roll_back(transaction)
            raise
        self._commit(transaction)
        self._known = (transaction.row.version + 1, transaction.places())
        return result

    def _read_once(self, body: Callable[[StashTransaction], T]) -> T:
        transaction = self._begin(self._control.begin_read, writable=False)
        try:
            return body(transaction)
        except pg.UndefinedTable as error:
            # The contents were replaced, and the old ones dropped, after this snapshot was taken.
            raise NotApplied(error) from None
        finally:
            self._roll_back(transaction)

    def _beside_once(self, body: Callable[[psycopg.Connection, FenceRow], T]) -> T:
        try:
            row = self._checked_fence(self._control.begin_beside)
            result = body(self._session.connection(), row)
            self._session.connection().execute(COMMIT)
        except BaseException:
            self._session.rollback()
            raise
        return result

    def _begin(self, begin: bytes, *, writable: bool) -> StashTransaction:
        try:
            row = self._checked_fence(begin)
        except BaseException:
            self._session.rollback()
            raise
        known = self._known[1] if self._known and self._known[0] == row.version else None
        return StashTransaction(
            self._session.connection(),
            self._control,
            stored_heap(self.schema, row.heap),
            row,
            known,
            writable=writable,
        )

    def _checked_fence(self, query: bytes) -> FenceRow:
        """Run a query that ends in reading the fence, in one round trip, and compare."""
        return check(self.token, fence_row(self._session.connection(), query), self.where)

    def _roll_back(self, transaction: StashTransaction) -> None:
        try:
            transaction.abandon()
        except psycopg.Error:
            self._session.close()
        self._session.rollback()

    def _commit(self, transaction: StashTransaction) -> None:
        row, version = transaction.row, transaction.row.version + 1
        connection = self._session.connection()
        rows, uppers = transaction.take_rest()
        fence = [version, transaction.new_heap, self._writer, row.epoch, row.nonce, row.version]
        outer = sys.exception()
        last = finish_write(self.schema, self.component, row.heap, with_rows=bool(rows))
        try:
            with self._session.in_one_go():
                if row.writer not in (b"", self._writer):
                    connection.execute(self._control.note_writer, [row.writer, row.epoch, row.version])
                raised = connection.execute(last, [*rows, *uppers, *fence])
                committed = connection.execute(COMMIT)
        except psycopg.Error as error:
            if interruption(error, outer) is not None:
                self._session.close()
                raise
            if was_reported(error):
                self._session.rollback()
                raise
            self._settle(version, error)
            return
        except BaseException:
            # Interrupted while the answer was on its way: nothing may be claimed about this connection.
            self._session.close()
            raise
        invariant(
            raised.rowcount == 1 and committed.statusmessage == "COMMIT",
            "a commit changed the fence's row",
            rows=raised.rowcount,
            status=committed.statusmessage,
        )

    def _settle(self, version: int, cause: psycopg.Error) -> None:
        """Return if the lost COMMIT happened, raise `NotApplied` if it did not and never will."""
        self._session.close()
        self._known = None

        def ask() -> bool:
            connection = self._session.connection()
            token = self.token
            try:
                connection.execute(self._control.barrier, [token.epoch, token.nonce])
                found = connection.execute(self._control.read_writer, [self._writer, self._writer])
                return (version,) in found.fetchall()
            except (pg.UndefinedTable, pg.InvalidSchemaName):
                return False

        try:
            applied = self._session.run(ask, writing=True)
        except HermitError as error:
            raise OutcomeUnknown(
                f"{self.where}: the answer to the commit of version {version} got lost, "
                f"and asking for it failed: {error.message}",
                version=version,
            ) from None
        if not applied:
            raise NotApplied(cause)

    @contextmanager
    def separate_connection(self) -> Iterator[psycopg.Connection]:
        """Another connection, for work outside of transactions; PostgreSQL's errors become ours."""
        connection = self._session.target.connect_patiently(self._session.policy)
        try:
            yield connection
        except psycopg.Error as error:
            raise self._session.translated(error, writing=True) from None
        finally:
            connection.close()

    @contextmanager
    def traced(self, file_descriptor: int) -> Iterator[None]:
        """Have libpq write every message of the protocol to a file: to count round trips."""
        pgconn = self._session.connection().pgconn
        pgconn.trace(file_descriptor)
        try:
            yield
        finally:
            pgconn.untrace()

    def forget_places(self) -> None:
        """Read identifiers and uppers again next time."""
        self._known = None


def fence_row(connection: psycopg.Connection, query: bytes) -> FenceRow | None:
    """The fence's row from a query that ends in reading it, or None where there is no stash."""
    try:
        cursor = connection.execute(query)
        while cursor.nextset():
            pass
        found: Any = cursor.fetchone()
    except (pg.UndefinedTable, pg.InvalidSchemaName):
        return None
    return None if found is None else FenceRow(*found)

"""A connection that comes back, and the loop that runs an attempt until it succeeds or cannot heal.

psycopg prepares statements that are used often, and remembers their names. Its memory can be wrong: a
pooler may hand a transaction to another connection of its own, and a batch that the server gave up half way
may have been the one that prepares. In the first case the session goes on without preparing, in the
second the memory is cleared with the failed transaction.

A client may stop at any moment, and its host may vanish, without the server noticing: then whatever its
transaction holds must come free by itself. Between two statements that is what the time-out of idle
transactions is for. Between two messages of a pipeline the server counts its client as busy, so that the
messages that hold the fence's row go `in_one_go`.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import TypeVar

import psycopg

from hermit.stash.connection import Target
from hermit.stash.errors import translate
from hermit.stash.retry import RetryPolicy, interruption, is_broken, is_conflict, is_forgotten
from hermit.stash.schema import ROLLBACK

T = TypeVar("T")

# The first server that bounds a transaction also while it waits for the next message of a pipeline.
BOUNDING_SERVER = 170_000


class NotApplied(Exception):
    """A COMMIT whose answer was lost did not happen: the attempt may run again."""

    def __init__(self, cause: psycopg.Error) -> None:
        super().__init__(str(cause))
        self.cause = cause


class Session:
    """One connection to the stash, replaced when it breaks."""

    def __init__(self, target: Target, where: str, policy: RetryPolicy) -> None:
        self.target = target
        self.where = where
        self.policy = policy
        self._connection: psycopg.Connection | None = None
        self._preparing = True

    def connection(self) -> psycopg.Connection:
        """The connection, made anew if there is none that works."""
        if self._connection is None or self._connection.closed:
            self._connection = self.target.connect_patiently(self.policy)
            if not self._preparing:
                self._connection.prepare_threshold = None
        return self._connection

    def close(self) -> None:
        """Let the connection go; the server rolls back what was open."""
        if self._connection is not None:
            with contextlib.suppress(psycopg.Error):
                self._connection.close()
            self._connection = None

    @contextlib.contextmanager
    def in_one_go(self) -> Iterator[None]:
        """Send the last statements of a transaction that holds the fence's row without a wait in between.

        The server ends the transaction if the rest does not arrive in time. Where it cannot, the statements
        go one after the other, and the time-out of idle transactions covers what is in between.
        """
        connection = self.connection()
        if connection.info.server_version < BOUNDING_SERVER:
            yield
            return
        with connection.pipeline():
            connection.execute(b"SET LOCAL transaction_timeout = %d" % (1000 * self.policy.commit_s_max))
            yield

    def rollback(self) -> None:
        """Leave no transaction open, whatever state the connection is in."""
        if self._connection is None:
            return
        try:
            status = self._connection.info.transaction_status
            if status == psycopg.pq.TransactionStatus.INERROR:
                # A pipeline that failed skipped what came after the failure, perhaps the preparation of a
                # statement that psycopg counts as prepared since. Its own rollback forgets all of them.
                self._connection.rollback()
            elif status != psycopg.pq.TransactionStatus.IDLE:
                self._connection.execute(ROLLBACK)
        except psycopg.Error:
            self.close()

    def run(self, attempt: Callable[[], T], *, writing: bool) -> T:
        """Run an attempt; again after a conflict or on a new connection, within the policy's bounds."""
        delays = self.policy.delays()
        outer = sys.exception()
        while True:
            try:
                return attempt()
            except NotApplied as lost:
                error = lost.cause
            except psycopg.Error as failed:
                error = failed
                interrupted = interruption(error, outer)
                if interrupted is not None:
                    self.close()
                    raise interrupted from None
                if is_forgotten(error):
                    self._preparing = False
                    self.close()
                elif is_broken(error, self._connection):
                    self.close()
                elif not is_conflict(error):
                    raise self.translated(error, writing=writing) from None
            if next(delays, delays) is delays:
                raise self.translated(error, writing=writing) from None

    def translated(self, error: psycopg.Error, *, writing: bool) -> Exception:
        """The error of ours for one of PostgreSQL's."""
        return translate(error, self.where, self.target.redact, writing=writing)

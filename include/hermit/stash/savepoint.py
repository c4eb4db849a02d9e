"""A dry run: one transaction that is never committed, beside whoever owns the stash.

It must keep nobody waiting. So it locks no row: what it writes goes into a temporary table that its
reads are united with, and the uppers and collections that it makes stay in memory. Where there is no
stash yet, the temporary table is all there is.

Its own snapshot cannot show that the epoch moved. A second connection asks, before every use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import psycopg

from hermit.errors import ReadOnly
from hermit.stash.errors import ConnectionLost
from hermit.stash.fence import Fence, FenceRow, Token, check
from hermit.stash.handle import Stash, fence_row
from hermit.stash.retry import is_broken
from hermit.stash.schema import Heap, check_collection, render
from hermit.stash.session import Session
from hermit.stash.transaction import Place, StashTransaction

T = TypeVar("T")

_OVERLAY = "hermit_overlay"
_BEGIN = b"""
BEGIN ISOLATION LEVEL REPEATABLE READ;
SET LOCAL idle_in_transaction_session_timeout = 0;
"""
_CREATE_OVERLAY = b"""
CREATE TEMPORARY TABLE hermit_overlay (
    collection_id bigint NOT NULL, key bytea NOT NULL, value bytea NOT NULL,
    time bigint NOT NULL, diff bigint NOT NULL
) ON COMMIT DROP;
CREATE INDEX ON hermit_overlay (collection_id, substr(key, 1, 64));
"""
_NOTHING = FenceRow(0, b"", 0, "", "nobody", b"")


class SavepointStash(Stash):
    """A handle whose writes are seen by itself only, and gone when it is closed."""

    def __init__(
        self, session: Session, watcher: Session, schema: str, component: str, opened_by: str
    ) -> None:
        super().__init__(session, schema, component, _NOTHING.token, writable=True)
        self._watcher = watcher
        connection = session.connection()
        connection.execute(_BEGIN)
        stored = self._stored_row(connection)
        connection.execute(_CREATE_OVERLAY)
        self._row = stored or _NOTHING
        self.token = Token(self._row.epoch, self._row.nonce)
        self._places: dict[str, Place] | None = {} if stored is None else None
        self._heap = _overlaid(schema, stored)

    @property
    def is_dry_run(self) -> bool:
        """Nothing written here is ever kept."""
        return True

    def close(self) -> None:
        """Forget everything."""
        super().close()
        self._watcher.close()

    def write(self, body: Callable[[StashTransaction], T]) -> T:
        """Run `body`; what it writes is visible to later transactions of this handle."""
        with self.exclusive():
            self._watch()
            return self._run(body, writable=True)

    def read(self, body: Callable[[StashTransaction], T]) -> T:
        """Run `body` on the snapshot, with what this handle wrote."""
        with self.exclusive():
            self._watch()
            return self._run(body, writable=False)

    def confirm(self) -> Fence:
        """The fence as this dry run sees it, if nobody opened since."""
        with self.exclusive():
            self._watch()
            return self._row.fence

    def beside(self, body: Callable[[psycopg.Connection, FenceRow], T]) -> T:
        """Refused: what this is for would be kept."""
        raise ReadOnly(f"{self.where}: a dry run keeps nothing")

    def _watch(self) -> None:
        def look() -> FenceRow | None:
            return fence_row(self._watcher.connection(), self._control.read_fence)

        check(self.token, self._watcher.run(look, writing=False) or _NOTHING, self.where)

    def _stored_row(self, connection: psycopg.Connection) -> FenceRow | None:
        # A missing table would abort the transaction, so that existence is asked first.
        found = connection.execute(self._control.exists, [self.schema]).fetchone()
        if found is None or found[0] == 0:
            return None
        return fence_row(connection, self._control.read_fence)

    def _run(self, body: Callable[[StashTransaction], T], *, writable: bool) -> T:
        connection = self._session.connection()
        transaction = _DryTransaction(
            connection, self._control, self._heap, self._row, self._places, writable=writable
        )
        try:
            with connection.transaction():
                try:
                    result = body(transaction)
                    transaction.finish()
                    transaction.send_rest()
                    # Cursors end with their transaction, and this one goes on.
                    connection.execute(b"CLOSE ALL")
                except BaseException:
                    transaction.abandon()
                    raise
        except psycopg.Error as error:
            if is_broken(error, connection):
                self.close()
                raise ConnectionLost(f"{self.where}: the dry run's connection broke; it is gone") from None
            raise self._session.translated(error, writing=False) from None
        self._places = transaction.places()
        if transaction.dirty:
            self._row = self._row._replace(version=self._row.version + 1)
        return result


class _DryTransaction(StashTransaction):
    """Keeps in memory what would lock rows that the owner needs."""

    is_dry = True

    def send_rest(self) -> None:
        self._appender.insert()
        self._moved = {}

    def ensure_collections(self, names: Iterable[str]) -> dict[str, Place]:
        """New collections get identifiers that no stored one can have."""
        for name in names:
            if name not in self.places():
                lowest = min((place.collection_id for place in self.places().values()), default=0)
                self.places()[check_collection(name)] = Place(min(lowest, 0) - 1, 0)
        return self.places()

    def compact(self, collection: str, since: int) -> None:
        """Checks only: a dry run has nothing to merge."""
        self._check_compaction(collection, since)
        self.dirty = True

    def since(self, collection: str) -> int:
        """Collections that only this dry run knows were never compacted."""
        place = self.places().get(collection)
        return 0 if place is None or place.collection_id < 0 else super().since(collection)


def _overlaid(schema: str, stored: FenceRow | None) -> Heap:
    overlay = render("pg_temp.{heap}", heap=_OVERLAY)
    if stored is None:
        return Heap(overlay, overlay)
    table = render("{schema}.{heap}", schema=schema, heap=stored.heap)
    union = b"(SELECT * FROM " + table + b" UNION ALL SELECT * FROM " + overlay + b")"
    return Heap(union, overlay)

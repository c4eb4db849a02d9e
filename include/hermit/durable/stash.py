"""The catalog on the stash: one transaction per open, per commit and per read.

The stash gives every collection times of its own. The catalog lays one timeline over them: a commit
appends to whatever it touches at the largest upper of all, so that commits are ordered by time across
collections, and a handle that is behind reads just what came later.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from hermit.durable.bootstrap import OpenRequest, Outcome, Pairs, Rows, bootstrap, read_config
from hermit.durable.contents import CONFIG, MOVED, OWN_CONFIG
from hermit.durable.errors import ConcurrentChange
from hermit.durable.last_upgrade import UPGRADE_NOTE, LastUpgrade
from hermit.durable.load import load
from hermit.durable.opener import opener
from hermit.durable.stash_presence import hold_stash, stash_holder
from hermit.durable.state import CACHED, CatalogState
from hermit.durable.store import HISTORY_INTERVAL, HISTORY_KEPT, Commit, Position, RowChange, Store
from hermit.durable.token import FenceToken
from hermit.durable.unopened import Unopened, VacantStore, closed_on_error
from hermit.errors import HermitError, InvalidInput, NotInitialized
from hermit.formats import config
from hermit.rows import Row, Update
from hermit.stash import Stash, StashClient, StashTransaction, Token
from hermit.stash.notes import read_note, write_note

STORE = "stash"
_log = logging.getLogger(__name__)


def position_of(transaction: StashTransaction) -> Position:
    """Where the contents are, as this transaction sees them."""
    uppers = [place.upper for place in transaction.places().values()]
    return Position(transaction.fence.version, max(uppers, default=0), transaction.row.heap)


class StashStore:
    """One opener's hold on the stash."""

    name = STORE

    def __init__(self, stash: Stash, position: Position) -> None:
        self.stash = stash
        self._position = position

    @property
    def epoch(self) -> int:
        return self.stash.epoch

    @property
    def nonce(self) -> str:
        return self.stash.token.nonce.hex()

    @property
    def position(self) -> Position:
        """Where the contents were when this opener last looked."""
        return self._position

    def check(self) -> Position:
        """One round trip if nobody committed."""
        if self.stash.confirm().version != self._position.version:
            self._position = self.stash.read(position_of)
        return self._position

    def confirm(self) -> None:
        self.stash.confirm()

    def read(self, collections: Sequence[str]) -> tuple[Position, Mapping[str, Rows]]:
        def body(transaction: StashTransaction) -> tuple[Position, Mapping[str, Rows]]:
            return position_of(transaction), load(transaction, self.stash.schema, collections)

        return self.stash.read(body)

    def commits_since(self, position: Position) -> tuple[Position, list[Commit]] | None:
        def body(transaction: StashTransaction) -> tuple[Position, list[Commit]] | None:
            now = position_of(transaction)
            moved = [name for name in MOVED if transaction.upper(name) > position.time]
            merged = any(transaction.since(name) >= position.time for name in moved)
            if merged or now.lineage != position.lineage:
                return None
            times: dict[int, list[Update]] = {}
            for name in moved:
                for update in transaction.updates(name, lower=position.time):
                    times.setdefault(update.time, []).append(update)
            return now, [Commit(time, times[time]) for time in sorted(times)]

        return self.stash.read(body)

    def updates(self) -> Iterable[Update]:
        return self.stash.read(
            lambda transaction: [update for name in MOVED for update in transaction.updates(name)]
        )

    def commit(self, position: Position, changes: Sequence[RowChange]) -> Position:
        forgets = position.time > HISTORY_KEPT and position.time % HISTORY_INTERVAL == 0

        def body(transaction: StashTransaction) -> None:
            if position_of(transaction) != position:
                raise ConcurrentChange(f"the {self.stash.where} was changed by another holder of this token")
            append(transaction, changes, position.time)
            if forgets:
                _let_go(transaction, position.time - HISTORY_KEPT)

        self.stash.write(body)
        self._position = Position(position.version + 1, position.time + 1, position.lineage)
        if forgets:
            self._merge()
        return self._position

    def _merge(self) -> None:
        """Merge what nobody can follow any more, so that neither opening nor reading grows with history.

        What was committed stays committed: that this did not work is no more than a line in the log.
        """
        from hermit.stash.consolidate import consolidate

        try:
            consolidate(self.stash, MOVED, keep_history=True)
        except HermitError as error:
            _log.warning("the history of the %s was not merged: %s", self.stash.where, error)

    def wait(self, timeout_s: float) -> None:
        time.sleep(timeout_s)

    def close(self) -> None:
        self.stash.close()


def append(transaction: StashTransaction, changes: Sequence[RowChange], time: int) -> None:
    """Append on the catalog's timeline: no collection's updates come before those of a former commit."""
    for collection in dict.fromkeys(row.collection for row, _ in changes):
        if transaction.upper(collection) < time:
            transaction.seal(collection, time)
    transaction.append(changes)


def _let_go(transaction: StashTransaction, bound: int) -> None:
    """Allow what came before this time to be merged."""
    for name in MOVED:
        since = min(bound, transaction.upper(name) - 1)
        if since > transaction.since(name):
            transaction.compact(name, since)


class StashCatalog(CatalogState):
    """The catalog, opened on the stash."""

    _store: StashStore

    def __init__(self, store: StashStore, **fields: Any) -> None:
        super().__init__(store, **fields)

    @property
    def stash(self) -> Stash:
        """The handle below, for bulk work."""
        return self._store.stash

    def replace_from_side(self, side: str, *, config: Mapping[str, int | None] | None = None) -> None:
        """Make a side table the contents, in one fenced transaction that does not depend on its size.

        The store's own config stays as it is, except for what is given: None removes an entry.
        """
        from hermit.stash.bulk import replace_from_side

        self._must_be_usable()
        self._must_be_writable()
        stored = read_config(self._read((CONFIG,))[CONFIG].items())
        own = {key: stored.get(key) for key in OWN_CONFIG} | dict(config or {})
        with self._noting_fence():
            replace_from_side(self.stash, side, config=own)
        self._synchronize()


class _Opening(NamedTuple):
    outcome: Outcome
    position: Position
    rows: Mapping[str, Rows]


class _Contents:
    """The contents inside the transaction that opens the stash."""

    def __init__(self, transaction: StashTransaction) -> None:
        self._transaction = transaction
        self._time = position_of(transaction).time

    def rows(self, collection: str) -> Pairs:
        return self._transaction.rows(collection)

    def write(self, changes: Iterable[tuple[Row, int]]) -> None:
        append(self._transaction, list(changes), self._time)


class UnopenedStashCatalog(Unopened):
    """The catalog on the stash, before it is opened."""

    def __init__(self, stash_url: str, organization_id: UUID, boot_ts: int) -> None:
        super().__init__(STORE, boot_ts)
        self.client = StashClient(stash_url, organization_id, opened_by=opener())

    @property
    def identity(self) -> str:
        """Which stash this is, also after another one took its place."""
        fence = self.client.fence()
        return f"{self.client.organization_id} {fence.nonce.hex() if fence else ''}"

    def epoch(self) -> int | None:
        fence = self.client.fence()
        return fence.epoch if fence is not None and fence.epoch else None

    def holder(self) -> str | None:
        return stash_holder(self.client)

    def open(
        self,
        *,
        epoch_min: int = 1,
        deploy_generation: int | None = None,
        clear_tombstone: bool = False,
        preload: bool = True,
    ) -> StashCatalog:
        request = OpenRequest(self._boot_ts, deploy_generation, clear_tombstone)

        def body(transaction: StashTransaction) -> _Opening:
            outcome = bootstrap(_Contents(transaction), request)
            if outcome.upgrade is not None:
                note = LastUpgrade(request.now_ms, outcome.upgrade)
                write_note(transaction, UPGRADE_NOTE, note.encode())
            rows = load(transaction, self.client.schema, _loaded(preload))
            version, time, lineage = position_of(transaction)
            return _Opening(outcome, Position(version + transaction.dirty, time, lineage), rows)

        stash, opening = self.client.open(body, epoch_min=epoch_min)
        with closed_on_error(StashStore(stash, opening.position)) as store:
            return self._opened(store, opening.rows, opening.outcome.deploy_generation)

    def resume(self, token: FenceToken, *, preload: bool = False) -> StashCatalog:
        with closed_on_error(self._held(self.client.resume(_stash_token(token)))) as store:
            _, rows = store.read(_loaded(preload))
            self._check_format(read_config(rows[CONFIG].items()).get(config.USER_VERSION))
            return self._opened(store, rows, token.deploy_generation)

    def _opened(
        self, store: StashStore, rows: Mapping[str, Rows], deploy_generation: int | None
    ) -> StashCatalog:
        hold_stash(store.stash, self.client.organization_id)
        return StashCatalog(
            store,
            position=store.position,
            boot_ts=self._boot_ts,
            deploy_generation=deploy_generation,
            rows=rows,
        )

    def last_upgrade(self) -> LastUpgrade | None:
        """What the last upgrade did, if there was one."""
        note = read_note(self.client, UPGRADE_NOTE)
        return None if note is None else LastUpgrade.decode(note)

    def _stored_config(self) -> dict[str, int]:
        return self.client.config()

    def _reader(self) -> Store:
        try:
            stash = self.client.open_read_only()
        except NotInitialized:
            return VacantStore(STORE, lambda: self.epoch() is not None)
        return self._held(stash)

    def _held(self, stash: Stash) -> StashStore:
        try:
            return StashStore(stash, stash.read(position_of))
        except BaseException:
            stash.close()
            raise


def _loaded(preload: bool) -> Sequence[str]:
    return CACHED if preload else (CONFIG,)


def _stash_token(token: FenceToken) -> Token:
    try:
        return Token(token.epoch, bytes.fromhex(token.nonce))
    except ValueError as error:
        raise InvalidInput(f"not a fencing token of the stash: {token}") from error

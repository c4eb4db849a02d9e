"""An opened catalog over any store: the cache, the transactions, and the check before every read.

Objects come from memory. Each read first makes one cheap, linearized call that the fence has not moved;
the same call tells whether the contents did (a read-only handle beside a writer, or two processes with
one token), and then the handle takes over just what was committed since, one commit at a time.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from google.protobuf.message import Message

from hermit.digest import Digest
from hermit.durable.bootstrap import Rows
from hermit.durable.contents import MOVED
from hermit.durable.errors import (
    Closed,
    ConcurrentChange,
    HistoryGone,
    TransactionFinished,
    TransactionInProgress,
)
from hermit.durable.inspection import Contents
from hermit.durable.model import CollectionMetrics
from hermit.durable.reads import Reads
from hermit.durable.store import Position, Store
from hermit.durable.subscription import ChangeBatch, Subscription
from hermit.durable.table import Base, Change, Object, Stored, Table, decode_objects, to_rows
from hermit.durable.token import FenceToken
from hermit.durable.transaction import CatalogTransaction, Transaction, kind_named
from hermit.durable.writes import Writes
from hermit.errors import Fenced, ReadOnly, invariant
from hermit.formats import codec
from hermit.objects import KINDS, Kind
from hermit.rows import Row, Update, consolidate

CACHED = tuple(name for name, kind in KINDS.items() if kind.cached)
"""What opening reads into memory. `update_log` joins when somebody first asks for it."""


class CatalogState(Reads, Writes):
    """A catalog opened on one store."""

    def __init__(
        self,
        store: Store,
        *,
        position: Position,
        boot_ts: int,
        deploy_generation: int | None,
        read_only: bool = False,
        rows: Mapping[str, Rows] | None = None,
    ) -> None:
        self._store = store
        self._position = position
        self._boot_ts = boot_ts
        self._deploy_generation = deploy_generation
        self._read_only = read_only
        self._tables = {name: Table(KINDS[name], table) for name, table in (rows or {}).items()}
        self._transaction: weakref.ref[Transaction] | None = None
        self._fenced: Fenced | None = None
        self._closed = False

    # What it is

    @property
    def store(self) -> str:
        return self._store.name

    @property
    def boot_ts(self) -> int:
        return self._boot_ts

    @property
    def epoch(self) -> int:
        return self._store.epoch

    @property
    def token(self) -> FenceToken:
        return FenceToken(self.store, self.epoch, self._store.nonce, self._deploy_generation)

    @property
    def is_read_only(self) -> bool:
        return self._read_only

    # Reading

    def objects(self, kind: str) -> list[Object[Any, Any]]:
        wanted = kind_named(kind)
        self._synchronize()
        return decode_objects(wanted, self._base(wanted).items())

    def object(self, kind: str, key: Message) -> Object[Any, Any] | None:
        wanted = kind_named(kind)
        encoded = codec.encode_key(wanted, key)
        self._synchronize()
        value = self._base(wanted).get(encoded)
        return None if value is None else Object(key, codec.decode_value(wanted, value))

    def confirm_leadership(self) -> None:
        self._must_be_usable()
        with self._noting_fence():
            self._store.confirm()

    def content_version(self) -> int:
        self._synchronize()
        return self._position.version

    def snapshot(self) -> Iterator[Row]:
        return self._contents().snapshot()

    def snapshot_unconsolidated(self) -> Iterator[Update]:
        self._synchronize()
        with self._noting_fence():
            return iter(self._store.updates())

    def digests(self) -> dict[str, Digest]:
        return self._contents().digests()

    def metrics(self) -> list[CollectionMetrics]:
        return self._contents().metrics()

    def dump(self) -> str:
        return self._contents().dump()

    def subscribe(self) -> Subscription:
        self._synchronize()
        return Subscription(self._batches_since, self._store.wait, self._position)

    # Writing

    def transaction(self) -> Transaction:
        self._must_be_usable()
        self._must_be_writable()
        if self._transaction is not None:
            found = self._transaction()
            if found is not None and found.is_open:
                raise TransactionInProgress("another transaction is open on this handle")
        transaction = Transaction(self._base, self._position)
        self._transaction = weakref.ref(transaction)
        return transaction

    def commit_transaction(self, transaction: CatalogTransaction) -> None:
        self._must_be_usable()
        self._must_be_writable()
        mine = self._transaction() if self._transaction else None
        if mine is None or mine is not transaction:
            raise TransactionFinished("this transaction belongs to another handle, or is over")
        self._transaction = None
        changes = mine.finish()
        if not changes:
            self._synchronize()
            return
        rows = [row for name, changed in changes.items() for row in to_rows(KINDS[name], changed)]
        with self._noting_fence():
            try:
                position = self._store.commit(mine.position, rows)
            except ConcurrentChange:
                self._catch_up()
                raise
        for name, changed in changes.items():
            if name in self._tables:
                self._tables[name].apply(changed)
        self._position = position

    def set_deploy_generation(self, generation: int) -> None:
        super().set_deploy_generation(generation)
        self._deploy_generation = generation

    # The handle

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._tables.clear()
            self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Inside

    def _synchronize(self) -> None:
        """Notice a fence, and take over what was committed by others of the same epoch."""
        self._must_be_usable()
        with self._noting_fence():
            if self._store.check() != self._position:
                self._catch_up()

    def _catch_up(self) -> None:
        found = self._store.commits_since(self._position)
        if found is None:
            # The single steps are gone, so that what is in memory must be read anew when asked for.
            self._tables.clear()
            self._position = self._store.check()
            return
        position, commits = found
        for commit in commits:
            for name, changes in _by_kind(commit.updates):
                if name in self._tables:
                    self._tables[name].apply(changes)
        self._position = position

    def _batches_since(self, position: Position) -> tuple[Position, list[ChangeBatch]]:
        self._must_be_usable()
        with self._noting_fence():
            if self._store.check() == position:
                return position, []
            found = self._store.commits_since(position)
        if found is None:
            raise HistoryGone(
                f"the changes to the {self.store} catalog since time {position.time} are no longer kept",
                hint="read the whole catalog and subscribe from there",
                time=position.time,
            )
        return found[0], [ChangeBatch(commit.time, tuple(sorted(commit.updates))) for commit in found[1]]

    def _base(self, kind: Kind) -> Base:
        if kind.append_only:
            return Stored(lambda: self._read((kind.name,))[kind.name].items())
        return self._tables.get(kind.name) or self._load(kind)

    def _load(self, kind: Kind) -> Table:
        """Read a kind that is not in memory, in the state that everything else in memory is in."""
        with self._noting_fence():
            while True:
                position, rows = self._store.read((kind.name,))
                if position != self._position:
                    self._catch_up()
                if position == self._position:
                    table = self._tables[kind.name] = Table(kind, rows[kind.name])
                    return table

    def _read(self, collections: Sequence[str]) -> Mapping[str, Rows]:
        self._must_be_usable()
        with self._noting_fence():
            return self._store.read(collections)[1]

    def _contents(self) -> Contents:
        return Contents(self._read(MOVED))

    def _must_be_usable(self) -> None:
        if self._closed:
            raise Closed(f"this handle on the {self.store} catalog was closed")
        if self._fenced is not None:
            raise self._fenced

    def _must_be_writable(self) -> None:
        if self._read_only:
            raise ReadOnly(f"the {self.store} catalog was opened to read only", hint="open it with open()")

    @contextmanager
    def _noting_fence(self) -> Iterator[None]:
        """Once fenced, always fenced: the handle never goes back to the store."""
        try:
            yield
        except Fenced as error:
            self._fenced = error
            self._tables.clear()
            raise


def _by_kind(updates: Iterable[Update]) -> Iterator[tuple[str, list[Change]]]:
    """The updates of one commit as changes per key."""
    kinds: dict[str, dict[bytes, list[bytes | None]]] = {}
    for row, diff in consolidate(updates).items():
        invariant(diff in (1, -1), "a commit changes a row more than once", collection=row.collection)
        change = kinds.setdefault(row.collection, {}).setdefault(row.key, [None, None])
        change[diff > 0] = row.value
    for name, keys in kinds.items():
        yield name, [Change(key, before, after) for key, (before, after) in keys.items()]

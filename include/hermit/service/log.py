"""The update log: a collection of the durable catalog, and so wherever the catalog is.

    catalog.update.{N}          the entries of version N, or the snapshot of it
    catalog.update.{N}.part.{I} more of either, if it does not fit one row
    catalog.version             the newest version
    catalog.snapshot.version    the earliest version that is available, once there was a compaction
    catalog.safe_time           no version will ever become active at or before this time
    catalog.readers             which versions each node still needs, and until when that counts

Every write is one transaction of the durable catalog, which fails if anybody wrote since it was begun. In
it an append compares `catalog.version` with what it builds on: the new version must be that plus one. So
either all of an append is in the log, right behind what it was validated against, or nothing is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from hermit.durable.abc import DurableCatalogState
from hermit.durable.errors import ConcurrentChange, HistoryGone
from hermit.durable.subscription import ChangeBatch
from hermit.durable.transaction import CatalogTransaction
from hermit.errors import invariant
from hermit.formats import codec
from hermit.formats.gen import objects_pb2 as pb
from hermit.service.catalog import Catalog
from hermit.service.clock import HybridTimestamp
from hermit.service.errors import LogDamaged, VersionConflict
from hermit.service.readers import Readers
from hermit.service.snapshot import Snapshot, SnapshotPart, restore
from hermit.service.update import VersionedUpdate
from hermit.service.wire.marshaller import UpdateLogMarshaller

COLLECTION = "update_log"
VERSION = "catalog.version"
SNAPSHOT_VERSION = "catalog.snapshot.version"
SAFE_TIME = "catalog.safe_time"
READERS = "catalog.readers"
ROW_BYTES_MAX = 1024 * 1024
_UPDATE = "catalog.update."

T = TypeVar("T")


def update_key(version: int) -> str:
    """Where a version is stored."""
    return f"{_UPDATE}{version}"


def part_key(version: int, number: int) -> str:
    """Where a part of a snapshot is stored."""
    return f"{_UPDATE}{version}.part.{number}"


def version_in(key: str) -> int | None:
    """The version whose entries or snapshot a key holds; None for all other keys."""
    rest = key.removeprefix(_UPDATE)
    return int(rest) if key != rest and rest.isdecimal() else None


class TimestampTaken(VersionConflict):
    """The time of an append is no longer free: somebody was promised that nothing happens there any more."""

    safe_time: HybridTimestamp


class Appendable(NamedTuple):
    """An update and its bytes."""

    update: VersionedUpdate
    data: bytes


@dataclass(frozen=True)
class LogContents:
    """Rows of the log by key: all of them, or those that one commit wrote."""

    rows: Mapping[str, bytes]
    marshaller: UpdateLogMarshaller
    is_reconfigured: bool = False
    """Whether the commit also changed system variables."""

    @property
    def version(self) -> int:
        """The newest version; 0 in a log that nobody appended to."""
        return self._number(VERSION)

    @property
    def earliest(self) -> int:
        """The earliest version that is available."""
        return self._number(SNAPSHOT_VERSION)

    @property
    def safe_time(self) -> HybridTimestamp:
        """No version will become active at or before this time."""
        return HybridTimestamp(self._number(SAFE_TIME))

    @property
    def readers(self) -> Readers:
        """What each node still needs."""
        return Readers.from_facts(self._facts(READERS))

    def base(self) -> Catalog:
        """The catalog at the earliest version."""
        if not self.earliest:
            return Catalog()
        snapshot = self.marshaller.unmarshal(self._row(update_key(self.earliest)), Snapshot)
        if snapshot.version != self.earliest:
            raise LogDamaged(f"{update_key(self.earliest)} holds a snapshot of version {snapshot.version}")
        return self.restore(snapshot)

    def restore(self, snapshot: Snapshot) -> Catalog:
        """The catalog of a snapshot whose parts are among the rows."""
        keys = [part_key(snapshot.version, number) for number in range(1, snapshot.parts + 1)]
        parts = [self.marshaller.unmarshal(self._row(key), SnapshotPart) for key in keys]
        return restore(snapshot, parts, self.marshaller.registry)

    def updates(self, after: int) -> Iterator[VersionedUpdate]:
        """Every update behind a version, one by one."""
        for version in range(after + 1, self.version + 1):
            yield self.update(version)

    def update(self, version: int) -> VersionedUpdate:
        """The update that leads to a version."""
        data = self.data(version)
        found = self.marshaller.unmarshal(
            self._row(update_key(version)) if data is None else data, VersionedUpdate
        )
        if found.version != version:
            raise LogDamaged(f"{update_key(version)} holds version {found.version}")
        return found

    def data(self, version: int) -> bytes | None:
        """The bytes of an update, from all of its rows; None if there are none."""
        found = self.rows.get(update_key(version))
        if found is None or len(found) < ROW_BYTES_MAX:
            return found
        parts = [found]
        while (part := self.rows.get(part_key(version, len(parts)))) is not None:
            parts.append(part)
        return b"".join(parts)

    def _row(self, key: str) -> bytes:
        found = self.rows.get(key)
        if found is None:
            raise LogDamaged(f"the log has versions {self.earliest} to {self.version}, but no {key}", key=key)
        return found

    def _number(self, key: str) -> int:
        found = self.rows.get(key)
        return 0 if found is None else self.marshaller.unmarshal_number(found)

    def _facts(self, key: str) -> dict[str, Any]:
        found = self.rows.get(key)
        return {} if found is None else self.marshaller.unmarshal_facts(found)


class UpdateLog:
    """The log in one opened catalog, and this node's place in it."""

    def __init__(self, state: DurableCatalogState, marshaller: UpdateLogMarshaller) -> None:
        self.state = state
        self.marshaller = marshaller
        self._subscription = state.subscribe()
        self._own_commits = 0
        self._is_behind = False

    def read(self) -> LogContents:
        """All that is in the log now. What was handed out by `poll` before is in it."""
        rows = {found.key.key: found.value.entry for found in self.state.objects(COLLECTION)}
        return LogContents(rows, self.marshaller)

    def poll(self) -> list[LogContents] | None:
        """What was committed since, one commit at a time; None if the single steps are gone, so that all
        must be read."""
        try:
            batches = self._subscription.poll()
        except HistoryGone:
            self._subscription = self.state.subscribe()
            self._is_behind = True
            return None
        self._is_behind = self._is_behind or len(batches) != self._own_commits
        self._own_commits = 0
        commits = [LogContents(_written(batch), self.marshaller, _reconfigures(batch)) for batch in batches]
        return [commit for commit in commits if commit.rows or commit.is_reconfigured]

    def append(self, updates: Sequence[Appendable], safe_time: HybridTimestamp | None = None) -> None:
        """Add versions, right behind the newest; and promise that none becomes active up to a time."""

        def change(log: LogTransaction) -> None:
            current = log.number(VERSION)
            promised = HybridTimestamp(log.number(SAFE_TIME))
            if updates:
                if updates[0].update.version != current + 1:
                    raise VersionConflict(
                        f"version {updates[0].update.version} was to follow, but the log is at {current}"
                    )
                if updates[0].update.time <= promised:
                    raise TimestampTaken(
                        f"nothing can become active at {updates[0].update.time} any more", safe_time=promised
                    )
            for number, (update, data) in enumerate(updates, start=current + 1):
                invariant(update.version == number, "appended versions follow each other", version=number)
                log.set_update(number, data)
            if updates:
                log.set_number(VERSION, current + len(updates))
            if safe_time is not None and safe_time > promised:
                log.set_number(SAFE_TIME, safe_time)

        self.transact(change)

    def save_snapshot(
        self,
        version: int,
        data: bytes,
        parts: Sequence[bytes],
        check: Callable[[LogTransaction], object] = lambda _: None,
    ) -> int:
        """Put a snapshot in the place of a version and remove what is before it; how many versions that was.

        `check` may look at the log, and raise, within the same transaction.
        """

        def change(log: LogTransaction) -> int:
            check(log)
            earliest, newest = log.number(SNAPSHOT_VERSION), log.number(VERSION)
            if not earliest < version <= newest:
                raise VersionConflict(
                    f"the log has versions {earliest} to {newest}, and {version} was to be first"
                )
            for lower in range(earliest, version + 1):
                log.remove_parts(lower)
                log.set(update_key(lower), None)
            log.set(update_key(version), data)
            for number, part in enumerate(parts, start=1):
                log.set(part_key(version, number), part)
            log.set_number(SNAPSHOT_VERSION, version)
            return version - earliest

        return self.transact(change)

    def transact(self, change: Callable[[LogTransaction], T]) -> T:
        """Run a change and commit it; `VersionConflict` if anybody else wrote meanwhile."""
        if self._is_behind:
            # Others wrote, as the subscription told: without this the first attempt would be in vain.
            self.state.content_version()
            self._is_behind = False
        try:
            with self.state.transaction() as transaction:
                result = change(LogTransaction(transaction, self.marshaller))
                self.state.commit_transaction(transaction)
        except ConcurrentChange as conflict:
            self._is_behind = True
            raise VersionConflict("somebody else wrote first") from conflict
        except VersionConflict:
            self._is_behind = True
            raise
        self._own_commits += 1
        return result

    def close(self) -> None:
        """Follow no more, and let go of the store."""
        self._subscription.close()
        self.state.close()


class LogTransaction:
    """The log within one transaction."""

    def __init__(self, transaction: CatalogTransaction, marshaller: UpdateLogMarshaller) -> None:
        self._table = transaction.update_log
        self._marshaller = marshaller

    def get(self, key: str) -> bytes | None:
        """The row under a key."""
        found = self._table.get(pb.UpdateLogKey(key=key))
        return None if found is None else found.entry

    def set(self, key: str, data: bytes | None) -> None:
        """Make this the row under a key, or remove it."""
        value = None if data is None else pb.UpdateLogValue(entry=data)
        self._table.set(pb.UpdateLogKey(key=key), value)

    def number(self, key: str) -> int:
        """The number under a key; 0 if there is none."""
        found = self.get(key)
        return 0 if found is None else self._marshaller.unmarshal_number(found)

    def set_number(self, key: str, value: int) -> None:
        """Store a number."""
        self.set(key, self._marshaller.marshal_number(value))

    @property
    def readers(self) -> Readers:
        """What each node still needs."""
        found = self.get(READERS)
        return Readers.from_facts({} if found is None else self._marshaller.unmarshal_facts(found))

    def set_readers(self, readers: Readers) -> None:
        """Store what each node still needs."""
        self.set(READERS, self._marshaller.marshal_facts(readers.claims))

    def set_update(self, version: int, data: bytes) -> None:
        """Store the bytes of an update, in as many rows as it takes."""
        rows = [data[start : start + ROW_BYTES_MAX] for start in range(0, len(data) or 1, ROW_BYTES_MAX)]
        self.set(update_key(version), rows[0])
        for number, row in enumerate(rows[1:], start=1):
            self.set(part_key(version, number), row)

    def remove_parts(self, version: int) -> None:
        """Remove what a version goes on in."""
        number = 1
        while self.get(part_key(version, number)) is not None:
            self.set(part_key(version, number), None)
            number += 1


def _reconfigures(batch: ChangeBatch) -> bool:
    return any(update.collection == "system_configurations" for update in batch.updates)


def _written(batch: ChangeBatch) -> dict[str, bytes]:
    """The rows that one commit wrote to the log. What it only removed does not concern those who follow."""
    rows: dict[str, bytes] = {}
    for update in batch.updates:
        if update.collection == COLLECTION and update.diff > 0:
            key: Any = codec.decode_key(COLLECTION, update.key)
            value: Any = codec.decode_value(COLLECTION, update.value)
            rows[key.key] = value.entry
    return rows

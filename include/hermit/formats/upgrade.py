"""Runs the steps N to N+1 until a catalog is at the current version.

The caller gives a transaction as two functions, so that stash and shard run the very same steps:

- `read(collection)` streams the live rows, as of all changes written so far;
- `write(changes)` takes a batch of rows with +1 or -1, of at most about a megabyte.

Each step is read to its end before its first change is written; the change of `user_version` is its
last. A step that changes nothing writes nothing else. After each step, the collections that it touched
are read again: a key that occurs twice, or a number of rows that the step's actions do not explain, is an
error. After the last one, every row of the catalog must be a complete object of the current version.
Whatever raises here, the caller aborts its transaction, and the catalog is as it was before.

Memory is bounded by a batch, 16 MiB of waiting changes, and eight bytes per row of one collection.
"""

from __future__ import annotations

import logging
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import TypeAlias, TypeVar, cast

from google.protobuf.message import Message

from hermit import __version__
from hermit.errors import InvalidInput, invariant
from hermit.formats import codec, config, frame
from hermit.formats.actions import Action, Delete, Insert, Stored, Update
from hermit.formats.collections import COLLECTIONS, MESSAGES
from hermit.formats.complete import missing
from hermit.formats.errors import (
    CannotConvert,
    DuplicateKey,
    FormatFromTheFuture,
    FormatTooOld,
    UnexplainedCount,
)
from hermit.formats.metrics import Size, StepReport, UpgradeReport
from hermit.formats.spool import Spool
from hermit.formats.uniqueness import KeyHashes, duplicate
from hermit.formats.upgrades import Build, Step, step_from
from hermit.formats.versions import MIN_STASH_VERSION, STASH_VERSION, KnownVersion
from hermit.rows import Row

Read: TypeAlias = Callable[[str], Iterable[tuple[bytes, bytes]]]
Write: TypeAlias = Callable[[Sequence[tuple[Row, int]]], object]
Arms: TypeAlias = Callable[[KnownVersion, Build], Step | None]

K = TypeVar("K")
V = TypeVar("V")
MK = TypeVar("MK", bound=Message)
MV = TypeVar("MV", bound=Message)

_log = logging.getLogger(__name__)


def check_version(version: int) -> KnownVersion:
    """The version, if this build can open it; otherwise the error that says why not."""
    if version < MIN_STASH_VERSION:
        raise FormatTooOld(version, MIN_STASH_VERSION, STASH_VERSION)
    if version > STASH_VERSION:
        raise FormatFromTheFuture(version, MIN_STASH_VERSION, STASH_VERSION)
    return cast(KnownVersion, version)


def upgrade(
    version: int, read: Read, write: Write, *, build: str = __version__, arms: Arms = step_from
) -> UpgradeReport:
    """Bring a catalog from `version` to the current one. Does nothing if it is there already."""
    found = check_version(version)
    if found == STASH_VERSION:
        return UpgradeReport(version, STASH_VERSION)
    _stored_version(read, version)
    sizes = {name: _measure(read, name) for name in COLLECTIONS}
    steps: list[StepReport] = []
    while (step := arms(found, parse_build(build))) is not None:
        steps.append(_run_step(found, step, read, write, sizes))
        _log.info("upgraded the catalog's format, %s", steps[-1])
        sizes = dict(steps[-1].after)
        found = check_version(found + 1)
    for name, size in sizes.items():
        check = _checker(name) if found == STASH_VERSION else None
        _check_count(name, size.rows, _measure(read, name, check=check).rows, found)
    return UpgradeReport(version, STASH_VERSION, tuple(steps))


def parse_build(text: str) -> Build:
    """The number of a build, as a tuple that compares: "0.50.1" and "0.50.1rc2" are (0, 50, 1)."""
    number = re.match(r"[0-9]+(\.[0-9]+)*", text)
    if number is None:
        raise InvalidInput(f"{text!r} is no version of a build")
    return tuple(int(part) for part in number[0].split("."))


def _run_step(start: int, step: Step, read: Read, write: Write, before: dict[str, Size]) -> StepReport:
    with Spool() as spool:
        recorder = _Recorder(start + 1, spool)
        for action in step(_Rows(start, read)):
            recorder.record(action)
        recorder.check_added_keys()
        for batch in spool.batches():
            write(batch)
    stored = _stored_version(read, start)
    write([(stored, -1), (stored._replace(value=config.encode_value(start + 1)), 1)])
    after = dict(before)
    for name in recorder.touched | {config.COLLECTION}:
        after[name] = _measure(read, name, unique_after=start + 1)
        expected = before[name].rows + recorder.inserted[name] - recorder.deleted[name]
        _check_count(name, expected, after[name].rows, start + 1)
    return StepReport(start, before, after, recorder.inserted, recorder.updated, recorder.deleted)


def _stored_version(read: Read, expected: int) -> Row:
    """The row that holds the version, after a look at all of config."""
    rows = [Row(config.COLLECTION, key, value) for key, value in read(config.COLLECTION)]
    found = {config.decode_key(row.key): (row, config.decode_value(row.value)) for row in rows}
    if config.USER_VERSION not in found:
        raise CannotConvert(config.COLLECTION, "the catalog", "it does not say which format it has")
    row, version = found[config.USER_VERSION]
    invariant(version == expected, f"the catalog says that its format is {version}, not {expected}")
    return row


@dataclass
class _Rows:
    """What a step sees: rows decoded in the version that it starts from."""

    version: int
    read: Read

    def messages(self, collection: str, key: type[MK], value: type[MV]) -> Iterator[Stored[MK, MV]]:
        _check_type(self.version, collection, key.DESCRIPTOR.full_name, "Key")
        _check_type(self.version, collection, value.DESCRIPTOR.full_name, "Value")
        return self.rows(
            collection,
            frame.reader(key, collection, "key"),
            frame.reader(value, collection, "value"),
        )

    def rows(
        self, collection: str, key: Callable[[bytes], K], value: Callable[[bytes], V]
    ) -> Iterator[Stored[K, V]]:
        for key_bytes, value_bytes in self.read(collection):
            yield Stored(collection, key(key_bytes), value(value_bytes), key_bytes, value_bytes)


@dataclass
class _Recorder:
    """Turns actions into changes of bytes, and counts them."""

    version: int
    spool: Spool
    inserted: Counter[str] = field(default_factory=Counter)
    updated: Counter[str] = field(default_factory=Counter)
    deleted: Counter[str] = field(default_factory=Counter)
    added_keys: defaultdict[str, KeyHashes] = field(default_factory=lambda: defaultdict(KeyHashes))

    @property
    def touched(self) -> set[str]:
        return {*self.inserted, *self.updated, *self.deleted}

    def record(self, action: Action) -> None:
        match action:
            case Insert(collection, key, value):
                key_bytes = self._encode(collection, key, "Key")
                self._add(collection, key_bytes, self._encode(collection, value, "Value"))
                self.inserted[collection] += 1
            case Delete(row):
                self.spool.add(row.collection, row.key_bytes, row.value_bytes, -1)
                self.deleted[row.collection] += 1
            case Update(row, value, key):
                self._update(row, value, key)

    def _update(self, row: Stored[object, object], value: Message | None, key: Message | None) -> None:
        key_bytes = row.key_bytes if key is None else self._encode(row.collection, key, "Key")
        value_bytes = row.value_bytes if value is None else self._encode(row.collection, value, "Value")
        if (key_bytes, value_bytes) != (row.key_bytes, row.value_bytes):
            self.spool.add(row.collection, row.key_bytes, row.value_bytes, -1)
            self._add(row.collection, key_bytes, value_bytes)
            self.updated[row.collection] += 1

    def _add(self, collection: str, key: bytes, value: bytes) -> None:
        self.spool.add(collection, key, value, 1)
        self.added_keys[collection].add(key)

    def check_added_keys(self) -> None:
        """Two added rows with one key: noticed before anything is written, whatever the store would do."""
        for collection, hashes in self.added_keys.items():
            added = partial(self.spool.keys, collection, 1)
            _check_unique(collection, hashes, added, self.version)

    def _encode(self, collection: str, message: Message, part: str) -> bytes:
        _check_type(self.version, collection, message.DESCRIPTOR.full_name, part)
        if path := missing(message):
            raise CannotConvert(collection, f"a {part.lower()}", f"the step did not set {path}")
        return frame.write(message)


@cache
def _check_type(version: int, collection: str, found: str, part: str) -> None:
    wanted = f"hermit.objects_v{version}.{MESSAGES[collection]}{part}"
    invariant(found == wanted, f"a step used {found} where {wanted} is stored")
    invariant(collection != config.COLLECTION, "a step touched config, which no step may")


def _measure(
    read: Read,
    collection: str,
    *,
    unique_after: int | None = None,
    check: Callable[[bytes, bytes], None] | None = None,
) -> Size:
    """Count a collection, and on demand check that its keys are unique, or every row."""
    rows = size = 0
    hashes = KeyHashes()
    for key, value in read(collection):
        rows += 1
        size += len(key) + len(value)
        if unique_after is not None:
            hashes.add(key)
        if check is not None:
            check(key, value)
    if unique_after is not None:
        _check_unique(collection, hashes, lambda: (key for key, _ in read(collection)), unique_after)
    return Size(rows, size)


def _checker(collection: str) -> Callable[[bytes, bytes], None]:
    """Checks that a row is a complete object of the current version, so that none is left behind."""
    decode_key, decode_value = codec.decoder(collection, "key"), codec.decoder(collection, "value")

    def check(key: bytes, value: bytes) -> None:
        path = missing(decode_key(key)) or missing(decode_value(value))
        if path:
            raise CannotConvert(collection, f"key {key.hex()}", f"no step has set {path}")

    return check


def _check_unique(
    collection: str, hashes: KeyHashes, keys: Callable[[], Iterable[bytes]], version: int
) -> None:
    key = duplicate(hashes, keys)
    if key is not None:
        raise DuplicateKey(
            f"after the step to v{version}, two rows of {collection} have the key {key.hex()}",
            collection=collection,
            key=key,
        )


def _check_count(collection: str, expected: int, found: int, version: int) -> None:
    if found != expected:
        raise UnexplainedCount(
            f"after the step to v{version}, {collection} has {found} rows where {expected} are explained",
            collection=collection,
            expected=expected,
            found=found,
        )

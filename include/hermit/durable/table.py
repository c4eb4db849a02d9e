"""One kind in memory: its rows as bytes, and a transaction's copy-on-write view of them.

Rows stay encoded. 100,000 objects cost little more than their bytes that way, opening decodes nothing,
and what a getter returns is the caller's own: changing it cannot change the cache. Decoding one object
takes a microsecond or two.

The index of claims (see `unique.py`) is built when a transaction first needs it and kept up to date from
then on, so that a commit costs the same whatever the size of the catalog.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, cast

from google.protobuf.message import Message

from hermit.durable.errors import DuplicateKey, UniquenessViolation, UnknownObject
from hermit.durable.unique import RULES
from hermit.errors import invariant
from hermit.formats import codec
from hermit.objects import Kind
from hermit.rows import Row

K = TypeVar("K", bound=Message)
V = TypeVar("V", bound=Message)

Pairs = Iterable[tuple[bytes, bytes]]


class Object(NamedTuple, Generic[K, V]):
    """One object of the catalog: its key and its value, decoded."""

    key: K
    value: V


class Change(NamedTuple):
    """What happens to one key: its value before and after, None where there is none."""

    key: bytes
    before: bytes | None
    after: bytes | None


class Base(Protocol):
    """What a transaction's table is laid over: rows in memory, or rows that stay in the store."""

    def get(self, key: bytes) -> bytes | None: ...
    def items(self) -> Pairs: ...
    def owner(self, claim: bytes) -> bytes | None: ...


class Table:
    """The rows of one kind that is held in memory."""

    def __init__(self, kind: Kind, rows: dict[bytes, bytes]) -> None:
        self.kind = kind
        self.rows = rows
        self._claims: dict[bytes, bytes] | None = None

    def get(self, key: bytes) -> bytes | None:
        return self.rows.get(key)

    def items(self) -> Pairs:
        return self.rows.items()

    def owner(self, claim: bytes) -> bytes | None:
        """The key of the object that holds this claim."""
        if self._claims is None:
            claims_of = _claims_of(self.kind)
            self._claims = {claims_of(value): key for key, value in self.rows.items()}
        return self._claims.get(claim)

    def apply(self, changes: Iterable[Change]) -> None:
        """Take over what was committed."""
        for key, before, after in changes:
            invariant(self.rows.get(key) == before, "a retraction is what is stored", kind=self.kind.name)
            if after is None:
                del self.rows[key]
            else:
                self.rows[key] = after
        if self._claims is not None:
            _move_claims(self._claims, changes, _claims_of(self.kind))


class Stored:
    """The rows of an append-only kind: never held, looked up in the store when somebody asks."""

    def __init__(self, scan: Callable[[], Pairs]) -> None:
        self._scan = scan

    def get(self, key: bytes) -> bytes | None:
        return next((value for stored, value in self._scan() if stored == key), None)

    def items(self) -> Pairs:
        return self._scan()

    def owner(self, claim: bytes) -> bytes | None:
        return None


class TableTransaction(Generic[K, V]):
    """A transaction's view of one kind. It holds what the transaction changed, and nothing else."""

    def __init__(self, kind: Kind, base: Base) -> None:
        self.kind = kind
        self._base = base
        self._changes: dict[bytes, Change] = {}
        self._claims: dict[bytes, bytes | None] = {}

    # Reading

    def get(self, key: K) -> V | None:
        """The value under this key, as this transaction sees it."""
        value = self._get(codec.encode_key(self.kind, key))
        return None if value is None else self._value(value)

    def items(self) -> list[Object[K, V]]:
        """Every object, as this transaction sees it, in the order of the encoded keys."""
        return decode_objects(self.kind, self._pairs())

    # Writing

    def insert(self, key: K, value: V) -> None:
        """Add an object whose key is not taken.

        The keys of append-only kinds come from an allocator and are compared with those of this
        transaction only: reading the whole log for each new entry would cost more than all the rest.
        """
        encoded = codec.encode_key(self.kind, key)
        if self.kind.append_only:
            change = self._changes.get(encoded)
            current = None if change is None else change.after
        else:
            current = self._get(encoded)
        if current is not None:
            raise DuplicateKey(
                f"{self.kind.name} has an object with this key already: {self._show(key)}",
                hint="update it, or choose another key",
                kind=self.kind.name,
            )
        self._put(encoded, current, codec.encode_value(self.kind, value))

    def update(self, key: K, value: V) -> V:
        """Give an existing object another value; returns the previous one."""
        encoded = codec.encode_key(self.kind, key)
        current = self._get(encoded)
        if current is None:
            raise self._unknown(key)
        self._put(encoded, current, codec.encode_value(self.kind, value))
        return self._value(current)

    def set(self, key: K, value: V | None) -> V | None:
        """Make this the object's value, or remove the object; returns the previous value, if any."""
        encoded = codec.encode_key(self.kind, key)
        current = self._get(encoded)
        self._put(encoded, current, None if value is None else codec.encode_value(self.kind, value))
        return None if current is None else self._value(current)

    def delete(self, key: K) -> V:
        """Remove an object; returns what it was."""
        previous = self.set(key, None)
        if previous is None:
            raise self._unknown(key)
        return previous

    def delete_where(self, condition: Callable[[K, V], bool]) -> list[Object[K, V]]:
        """Remove every object that meets the condition; returns them."""
        removed = []
        for key, value in sorted(self._pairs()):
            found = Object(cast(K, codec.decode_key(self.kind, key)), self._value(value))
            if condition(found.key, found.value):
                self._put(key, value, None)
                removed.append(found)
        return removed

    # For the catalog that commits

    def changes(self) -> list[Change]:
        """What this transaction does to the kind; a change that was undone again is none."""
        return [change for change in self._changes.values() if change.before != change.after]

    # Inside

    def _get(self, key: bytes) -> bytes | None:
        change = self._changes.get(key)
        return self._base.get(key) if change is None else change.after

    def _pairs(self) -> Iterator[tuple[bytes, bytes]]:
        changed = self._changes
        yield from ((key, value) for key, value in self._base.items() if key not in changed)
        yield from ((key, after) for key, _, after in changed.values() if after is not None)

    def _put(self, key: bytes, current: bytes | None, after: bytes | None) -> None:
        if self.kind.name in RULES:
            self._claim(key, current, after)
        change = self._changes.get(key)
        self._changes[key] = Change(key, current if change is None else change.before, after)

    def _claim(self, key: bytes, current: bytes | None, after: bytes | None) -> None:
        """Give up the claim of the current value and take that of the next, if nobody else holds it."""
        claim_of = _claims_of(self.kind)
        held = None if current is None else claim_of(current)
        wanted = None if after is None else claim_of(after)
        if held == wanted:
            return
        if wanted is not None:
            owner = self._owner(wanted)
            if owner is not None and owner != key:
                raise UniquenessViolation(
                    f"{RULES[self.kind.name].what} must be unique: {self._describe(owner)} has it already",
                    hint="choose another, or change that object first",
                    kind=self.kind.name,
                )
            self._claims[wanted] = key
        if held is not None and self._owner(held) == key:
            self._claims[held] = None

    def _owner(self, claim: bytes) -> bytes | None:
        return self._claims[claim] if claim in self._claims else self._base.owner(claim)

    def _value(self, data: bytes) -> V:
        return cast(V, codec.decode_value(self.kind, data))

    def _unknown(self, key: K) -> UnknownObject:
        return UnknownObject(
            f"{self.kind.name} has no object with this key: {self._show(key)}",
            hint="`hermit debug dump` lists the keys",
            kind=self.kind.name,
        )

    def _show(self, key: Message) -> str:
        return json_text(codec.to_json(self.kind, key))

    def _describe(self, key: bytes) -> str:
        return self._show(codec.decode_key(self.kind, key))


def decode_objects(kind: Kind, pairs: Pairs) -> list[Object[Any, Any]]:
    """The objects in these rows, in the order of their encoded keys, which is the same on every store."""
    key_of, value_of = codec.decoder(kind.name, "key"), codec.decoder(kind.name, "value")
    return [Object(key_of(key), value_of(value)) for key, value in sorted(pairs)]


def json_text(data: Any) -> str:
    """JSON on one line, the way that people paste it back."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def to_rows(kind: Kind, changes: Iterable[Change]) -> Iterator[tuple[Row, int]]:
    """Changes as updates: the retraction is byte for byte what is stored."""
    for key, before, after in changes:
        if before is not None:
            yield Row(kind.name, key, before), -1
        if after is not None:
            yield Row(kind.name, key, after), +1


def _claims_of(kind: Kind) -> Callable[[bytes], bytes]:
    rule, decode = RULES[kind.name].claim, codec.decoder(kind.name, "value")
    return lambda value: rule(decode(value))


def _move_claims(
    claims: dict[bytes, bytes], changes: Iterable[Change], claim_of: Callable[[bytes], bytes]
) -> None:
    # Releases come first: a claim may pass from one object to another in one transaction.
    for key, before, _ in changes:
        if before is not None and claims.get(claim := claim_of(before)) == key:
            del claims[claim]
    for key, _, after in changes:
        if after is not None:
            claims[claim_of(after)] = key

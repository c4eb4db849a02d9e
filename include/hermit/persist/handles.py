"""Handles of one collection, or of several, with codecs.

A `WriteHandle` mutates through the client's runtime: its calls return futures, are applied in call order and
are durable when their future resolves. A `ReadHandle` needs no runtime and no lock. Handles are thin; any
number of them may exist for one collection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from hermit.persist.appender import Record
from hermit.persist.codec import Codec
from hermit.persist.errors import PersistError
from hermit.persist.frontier import Frontier
from hermit.persist.listen import Listener, Step
from hermit.persist.runtime import Call, PersistFuture
from hermit.persist.state import State

K = TypeVar("K")
V = TypeVar("V")


class WriteHandle(Generic[K, V]):
    """Writes one collection. A record is `((key, value), time, diff)`."""

    def __init__(
        self,
        name: str,
        key_codec: Codec[K],
        value_codec: Codec[V],
        submit: Callable[[Call], PersistFuture[State]],
        frontier: Callable[[str], Frontier],
    ) -> None:
        self.name = name
        self._key = key_codec
        self._value = value_codec
        self._submit = submit
        self._frontier = frontier

    def write(self, records: Iterable[tuple[tuple[K, V], int, int]]) -> PersistFuture[State]:
        """Add records, whose times must not be sealed. Durable when resolved, sealed or not."""
        return self._submit(Call(writes={self.name: self.encode(records)}))

    def seal(self, upper: int) -> PersistFuture[State]:
        """Declare that no record before `upper` will come any more: everything before it is readable."""
        return self._submit(Call(seals={self.name: upper}))

    def allow_compaction(self, since: int) -> PersistFuture[State]:
        """Declare that nobody will read before `since`: history up to it may be folded."""
        return self._submit(Call(compactions={self.name: since}))

    def upper(self) -> int:
        """The latest upper."""
        return self._frontier(self.name).upper

    def encode(self, records: Iterable[tuple[tuple[K, V], int, int]]) -> list[Record]:
        """Records as they are stored."""
        return [
            (self._key.encode(key), self._value.encode(value), time, diff)
            for (key, value), time, diff in records
        ]


class MultiWriteHandle:
    """Mutates several collections of one client at once: all of them or none."""

    def __init__(
        self,
        handles: Sequence[WriteHandle[object, object]],
        submit: Callable[[Call], PersistFuture[State]],
    ) -> None:
        self._handles = {handle.name: handle for handle in handles}
        if len(self._handles) != len(handles):
            raise PersistError("a collection stands twice in a multi-write handle")
        self._submit = submit

    def write(
        self, records: Mapping[str, Iterable[tuple[tuple[object, object], int, int]]]
    ) -> PersistFuture[State]:
        """Add records to several collections."""
        return self._submit(
            Call(writes={name: self._handle(name).encode(given) for name, given in records.items()})
        )

    def seal(self, upper: int | Mapping[str, int]) -> PersistFuture[State]:
        """Seal all collections, to one upper or to one each."""
        return self._submit(Call(seals=self._each(upper)))

    def allow_compaction(self, since: int | Mapping[str, int]) -> PersistFuture[State]:
        """Allow compaction of all collections."""
        return self._submit(Call(compactions=self._each(since)))

    def write_and_seal(
        self,
        records: Mapping[str, Iterable[tuple[tuple[object, object], int, int]]],
        upper: int | Mapping[str, int],
    ) -> PersistFuture[State]:
        """Add records and seal all collections in the same commit."""
        writes = {name: self._handle(name).encode(given) for name, given in records.items()}
        return self._submit(Call(writes=writes, seals=self._each(upper)))

    def _each(self, frontier: int | Mapping[str, int]) -> Mapping[str, int]:
        if isinstance(frontier, int):
            return dict.fromkeys(self._handles, frontier)
        return {self._handle(name).name: bound for name, bound in frontier.items()}

    def _handle(self, name: str) -> WriteHandle[object, object]:
        if name not in self._handles:
            raise PersistError(f"collection {name} is not part of this multi-write handle", collection=name)
        return self._handles[name]


class DecodedStep(NamedTuple, Generic[K, V]):
    """A `Step` of one collection with keys and values decoded."""

    time: int
    frontier: int
    updates: list[tuple[tuple[K, V], int, int]]
    is_snapshot: bool


class ReadSource(Protocol):
    """What a read handle needs of a client."""

    def snapshot(
        self, names: Sequence[str], as_of: int | None = None
    ) -> Iterator[tuple[str, bytes, bytes, int]]: ...
    def lookup(self, name: str, key: bytes, as_of: int | None = None) -> list[tuple[bytes, int]]: ...
    def listen(self, names: Sequence[str], as_of: int, *, resume: bool = False) -> Listener: ...
    def frontier(self, name: str) -> Frontier: ...


class ReadHandle(Generic[K, V]):
    """Reads one collection at any time in `[since, upper)`."""

    def __init__(self, name: str, key_codec: Codec[K], value_codec: Codec[V], source: ReadSource) -> None:
        self.name = name
        self._key = key_codec
        self._value = value_codec
        self._source = source

    def frontier(self) -> Frontier:
        """The latest `[since, upper)`."""
        return self._source.frontier(self.name)

    def snapshot(self, as_of: int | None = None) -> Iterator[tuple[tuple[K, V], int]]:
        """The contents at a time, by default the latest: `((key, value), diff)`, each row once."""
        for _, key, value, diff in self._source.snapshot([self.name], as_of):
            yield (self._key.decode(key), self._value.decode(value)), diff

    def get(self, key: K, as_of: int | None = None) -> list[tuple[V, int]]:
        """The values of one key at a time: `(value, diff)`."""
        found = self._source.lookup(self.name, self._key.encode(key), as_of)
        return [(self._value.decode(value), diff) for value, diff in found]

    def listen(self, as_of: int, *, resume: bool = False) -> Iterator[DecodedStep[K, V]]:
        """The snapshot at a time, then every step after it. Ends when the client is stopped."""
        return map(self._decoded, self._source.listen([self.name], as_of, resume=resume))

    def listener(self, as_of: int, *, resume: bool = False) -> Listener:
        """The same with bytes, as an object that can be polled, awaited and closed."""
        return self._source.listen([self.name], as_of, resume=resume)

    def _decoded(self, step: Step) -> DecodedStep[K, V]:
        updates = [
            ((self._key.decode(update.key), self._value.decode(update.value)), update.time, update.diff)
            for update in step.updates
        ]
        return DecodedStep(step.time, step.frontier, updates, step.is_snapshot)

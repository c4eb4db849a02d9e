"""One transaction on the stash, as its body sees it.

The body may run more than once (after a conflict or a lost connection), each time with a new
transaction, so that it must have no effects of its own. Reads see the transaction's own writes.

Times: each collection has an `upper`, the first time that is still open. An append writes at the upper
and moves it on by one. Contents at a time are the sum of the diffs up to it. Updates up to `since` may be
merged as if all had happened at `since`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from itertools import count
from typing import Any, NamedTuple

import psycopg

from hermit.errors import CorruptData, ReadOnly
from hermit.rows import Row, Update
from hermit.stash.batch import Appender, array
from hermit.stash.errors import CompactOutOfRange, LowerMismatch, ReadOutOfRange, SealBackwards
from hermit.stash.fence import Fence, FenceRow
from hermit.stash.schema import Control, Heap, check_collection

TIME_MAX = 2**63 - 1
# A fetch starts small and grows to what brings about this much, so that memory is bounded by bytes
# whatever the size of the rows.
_FETCH_ROWS_FIRST = 64
_FETCH_ROWS_MAX = 20_000
_FETCH_BYTES = 4 * 1024 * 1024
_STREAM_ROWS = 500
# The work list of a collection is held in memory up to this size; beyond it the server sums.
_WORK_BYTES_MAX = 16 * 1024 * 1024
_ENTRY_BYTES = 200

Sums = Counter[tuple[bytes, bytes]]


class Place(NamedTuple):
    """A collection's identifier and its upper."""

    collection_id: int
    upper: int


class StashTransaction:
    """Reads and writes of one component's collections, on one snapshot."""

    is_dry = False

    def __init__(
        self,
        connection: psycopg.Connection,
        control: Control,
        heap: Heap,
        row: FenceRow,
        places: dict[str, Place] | None,
        *,
        writable: bool,
    ) -> None:
        self._connection = connection
        self._control = control
        self._heap = heap
        self._places = None if places is None else dict(places)
        self._writable = writable
        self._appender = Appender(connection, heap)
        self._moved: dict[int, int] = {}
        self._names = count()
        self.row = row
        self.new_heap = row.heap
        self.dirty = False
        self.failure: BaseException | None = None

    @property
    def schema(self) -> str:
        """The schema that this stash lives in."""
        return self._control.schema

    @property
    def component(self) -> str:
        """Whose collections these are."""
        return self._control.component

    @property
    def fence(self) -> Fence:
        """The fence as it was when this transaction began."""
        return self.row.fence

    # Reading

    def collections(self) -> dict[str, int]:
        """The component's collections by name, with their identifiers."""
        return {name: place.collection_id for name, place in self.places().items()}

    def places(self) -> dict[str, Place]:
        """Identifier and upper of every collection."""
        if self._places is None:
            cursor = self.execute(self._control.collections)
            self._places = {name: Place(collection_id, upper) for name, collection_id, upper in cursor}
        return self._places

    def rows(self, collection: str, *, as_of: int | None = None) -> Iterator[tuple[bytes, bytes]]:
        """The live rows, each as often as its diffs sum to; at the time `as_of`, or now.

        The rows are those of the moment of the call, and stream in bounded memory.
        """
        place = self.places().get(collection)
        if place is None:
            return iter(())
        if as_of is not None:
            self._refuse_outside(collection, place, as_of)
            return self._summed_by_server(collection, place, as_of)
        sums = self._work_list(place)
        if sums is None:
            return self._summed_by_server(collection, place, TIME_MAX)
        plain = self._stream(self._heap.rows_plain, [place.collection_id])
        return self._summed_here(collection, sums, plain) if sums else plain

    def updates(self, collection: str, *, lower: int = 0) -> Iterator[Update]:
        """The stored updates at or after a time, in no particular order."""
        place = self.places().get(collection)
        if place is None:
            return iter(())
        stream = self._stream(self._heap.updates, [place.collection_id, lower])
        return (Update(collection, key, value, time, diff) for key, value, time, diff in stream)

    def get(self, collection: str, key: bytes) -> bytes | None:
        """The value of a key, or None."""
        place = self.places().get(collection)
        if place is None:
            return None
        found = self.execute(self._heap.get, [place.collection_id, key, key], binary=True).fetchall()
        if len(found) > 1 or (found and found[0][1] != 1):
            raise CorruptData(f"{collection} holds {len(found)} values for one key", collection=collection)
        return bytes(found[0][0]) if found else None

    def upper(self, collection: str) -> int:
        """The first time that is still open; 0 for a collection that does not exist yet."""
        place = self.places().get(collection)
        return 0 if place is None else place.upper

    def since(self, collection: str) -> int:
        """The first time that can still be read at."""
        place = self.places().get(collection)
        if place is None:
            return 0
        found = self.execute(self._control.read_since, [place.collection_id]).fetchone()
        return 0 if found is None else int(found[0])

    # Writing

    def append(self, changes: Iterable[tuple[Row, int]], *, lower: int | None = None) -> None:
        """Add changes at the upper of each collection they touch, and move these uppers on by one.

        With `lower`, every touched collection's upper must be just that.
        """
        self._refuse_unless_writable()
        touched: dict[str, Place] = {}

        def locate(collection: str) -> tuple[int, int]:
            place = self._ensure(collection)
            if lower is not None and place.upper != lower:
                raise LowerMismatch(
                    f"append to {collection} expected upper {lower}, but it is {place.upper}",
                    collection=collection,
                    since=self.since(collection),
                    upper=place.upper,
                    lower=lower,
                )
            touched[collection] = place
            return place.collection_id, place.upper

        try:
            self._appender.add_all(changes, locate)
        except BaseException as error:
            # Part of the batch may be under way: a body that swallows this must still not commit.
            self.failure = error
            self._appender.abandon()
            raise
        for collection, place in touched.items():
            self._move(collection, place.upper + 1)

    def seal(self, collection: str, upper: int) -> None:
        """Close the times below `upper`: nothing can be appended there any more."""
        self._refuse_unless_writable()
        place = self._ensure(collection)
        if upper < place.upper:
            raise SealBackwards(
                f"cannot seal {collection} at {upper}: its upper is {place.upper}",
                collection=collection,
                since=self.since(collection),
                upper=place.upper,
            )
        if upper > place.upper:
            self._move(collection, upper)

    def compact(self, collection: str, since: int) -> None:
        """Allow updates up to `since` to be merged; times before it can no longer be read at."""
        place = self._check_compaction(collection, since)
        if self.execute(self._control.set_since, [since, place.collection_id, since]).rowcount:
            self.dirty = True

    # For the handle and the other modules of the stash

    def execute(
        self, query: bytes, parameters: Sequence[Any] = (), *, binary: bool = False
    ) -> psycopg.Cursor[Any]:
        """Run a statement after everything appended so far."""
        self._appender.flush()
        return self._connection.cursor(binary=binary).execute(query, parameters)

    def stream(self, query: bytes, parameters: Sequence[Any] = ()) -> Iterator[Any]:
        """The rows of a query while the server sends them: read to the end before anything else is asked."""
        self._appender.flush()
        rows = _STREAM_ROWS if psycopg.capabilities.has_stream_chunked() else 1
        yield from self._connection.cursor(binary=True).stream(query, parameters, size=rows)
        # libpq goes on sending chunks until the next plain query, which a pipeline does not expect.
        self._connection.execute(b"SELECT 1")

    def finish(self) -> None:
        """End a COPY stream; afterwards only `send_rest` is left to do."""
        if self.failure is not None:
            raise self.failure
        self._appender.finish_copy()

    def send_rest(self) -> None:
        """Send pending rows and the uppers that moved; allowed inside a pipeline."""
        self._appender.insert()
        if self._moved:
            self._connection.execute(self._control.set_uppers, self._take_uppers())

    def take_rest(self) -> tuple[list[Any], list[str]]:
        """Pending rows and the uppers that moved, as parameters."""
        return self._appender.take(), self._take_uppers()

    def _take_uppers(self) -> list[str]:
        moved, self._moved = self._moved, {}
        return [array(moved), array(moved.values())]

    def abandon(self) -> None:
        """Drop what was not sent, before a rollback."""
        self._appender.abandon()

    def replace_contents(self, heap: str) -> None:
        """Make another table the contents: all collections begin anew at their upper."""
        places = self.places()
        ids, sinces = (p.collection_id for p in places.values()), (p.upper for p in places.values())
        self.execute(self._control.set_sinces, [array(ids), array(sinces)])
        for name in list(places):
            self._move(name, places[name].upper + 1)
        self.new_heap = heap
        self.dirty = True

    def everything(self, heap: Heap | None = None) -> Iterator[tuple[bytes, bytes, int, int]]:
        """All stored updates as (key, value, collection's identifier, diff); or those of a side table."""
        return self._stream((heap or self._heap).everything, [])

    def ensure_collections(self, names: Iterable[str]) -> dict[str, Place]:
        """Make the collections that do not exist yet. They are empty: the contents do not change."""
        missing = [check_collection(name) for name in names if name not in self.places()]
        if missing:
            self.execute(self._control.add_collections, [missing])
            self.execute(self._control.add_uppers)
            self.execute(self._control.add_sinces)
            moved = {name: place.upper for name, place in self.places().items()}
            self._places = None
            for name, place in self.places().items():
                self.places()[name] = place._replace(upper=moved.get(name, place.upper))
        return self.places()

    def _ensure(self, collection: str) -> Place:
        found = self.places().get(collection)
        return found if found is not None else self.ensure_collections([collection])[collection]

    def _move(self, collection: str, upper: int) -> None:
        place = self.places()[collection]
        self.places()[collection] = place._replace(upper=upper)
        self._moved[place.collection_id] = upper
        self.dirty = True

    def _check_compaction(self, collection: str, since: int) -> Place:
        self._refuse_unless_writable()
        place = self._ensure(collection)
        current = self.since(collection)
        if not current <= since <= place.upper:
            raise CompactOutOfRange(
                f"cannot compact {collection} to {since}: since is {current} and upper {place.upper}",
                collection=collection,
                since=current,
                upper=place.upper,
            )
        return place

    def _refuse_unless_writable(self) -> None:
        if not self._writable:
            raise ReadOnly("a read transaction cannot write")

    def _refuse_outside(self, collection: str, place: Place, as_of: int) -> None:
        since = self.since(collection)
        if not since <= as_of < place.upper:
            raise ReadOutOfRange(
                f"cannot read {collection} at {as_of}: only from {since} to before {place.upper}",
                collection=collection,
                since=since,
                upper=place.upper,
            )

    def _work_list(self, place: Place) -> Sums | None:
        """The rows whose diff is not +1, summed; None if they are too many to hold."""
        sums: Sums = Counter()
        size_bytes = 0
        for key, value, diff in self._stream(self._heap.work, [place.collection_id]):
            sums[key, value] += diff
            size_bytes += len(key) + len(value) + _ENTRY_BYTES
            if size_bytes > _WORK_BYTES_MAX:
                return None
        return sums

    def _summed_here(
        self, collection: str, sums: Sums, plain: Iterator[tuple[bytes, bytes]]
    ) -> Iterator[tuple[bytes, bytes]]:
        """Rows with diff +1, together with the few others; the server sorts and groups nothing."""
        for pair in plain:
            if pair in sums:
                sums[pair] += 1
            else:
                yield pair
        yield from _expand(collection, ((key, value, total) for (key, value), total in sums.items()))

    def _summed_by_server(self, collection: str, place: Place, as_of: int) -> Iterator[tuple[bytes, bytes]]:
        return _expand(collection, self._stream(self._heap.rows_summed, [place.collection_id, as_of]))

    def _stream(self, query: bytes, parameters: Sequence[Any]) -> Iterator[Any]:
        """Declare a cursor now, and fetch from it as the caller goes on."""
        name = b"rows_%d" % next(self._names)
        self._appender.flush()
        # An opener holds the fence's row while it reads, and a server may not notice that it stopped within a
        # pipeline; a reader keeps nobody waiting.
        with nullcontext() if self._writable else self._connection.pipeline():
            self._connection.execute(b"DECLARE " + name + b" NO SCROLL CURSOR FOR " + query, parameters)
            first = self._fetch(name, _FETCH_ROWS_FIRST).fetchall()
        return self._fetch_rest(name, first)

    def _fetch(self, name: bytes, rows: int) -> psycopg.Cursor[Any]:
        query = b"FETCH FORWARD %d FROM " % rows + name
        return self._connection.cursor(binary=True).execute(query, (), prepare=False)

    def _fetch_rest(self, name: bytes, batch: list[Any]) -> Iterator[Any]:
        wanted = _FETCH_ROWS_FIRST
        while True:
            yield from batch
            if len(batch) < wanted:
                return
            size_bytes = sum(len(row[0]) + len(row[1]) for row in batch)
            fitting = _FETCH_BYTES * len(batch) // max(size_bytes, 1)
            wanted = max(1, min(fitting, wanted * 8, _FETCH_ROWS_MAX))
            self._appender.flush()
            batch = self._fetch(name, wanted).fetchall()


def _expand(collection: str, stream: Iterable[tuple[bytes, bytes, int]]) -> Iterator[tuple[bytes, bytes]]:
    """Each row as often as its diffs sum to."""
    for key, value, copies in stream:
        if copies < 0:
            raise CorruptData(
                f"{collection} holds a row that was retracted more often than added", collection=collection
            )
        for _ in range(copies):
            yield key, value

"""Definite: reads at a time in [since, upper) give the same contents for ever, whatever happens."""

from __future__ import annotations

import uuid
from collections import Counter
from dataclasses import dataclass, field

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermit.persist import PersistClient
from hermit.persist.batch import BatchWriter
from hermit.persist.errors import ReadBeforeSince, ReadBeyondUpper
from hermit.persist.storage import memory

Contents = Counter[tuple[bytes, bytes]]


@dataclass
class Model:
    """What a collection ought to be: all updates ever, and its frontiers."""

    updates: list[tuple[bytes, bytes, int, int]] = field(default_factory=list)
    since: int = 0
    upper: int = 0

    def at(self, time: int) -> dict[tuple[bytes, bytes], int]:
        sums: Contents = Counter()
        for key, value, when, diff in self.updates:
            if when <= time:
                sums[key, value] += diff
        return {row: count for row, count in sums.items() if count}


_KEYS = st.sampled_from([b"", b"k", b"l"])
_VALUES = st.sampled_from([b"", b"v"])
_DIFFS = st.integers(-2, 2)
_STEPS = st.one_of(
    st.tuples(
        st.just("append"),
        st.lists(st.tuples(_KEYS, _VALUES, st.integers(0, 3), _DIFFS), max_size=5),
        st.integers(0, 3),
    ),
    st.tuples(st.just("since"), st.integers(0, 4), st.none()),
    st.tuples(st.just("compact"), st.none(), st.none()),
    st.tuples(st.just("vacuum"), st.none(), st.none()),
    st.tuples(st.just("restart"), st.none(), st.none()),
    st.tuples(st.just("replace"), st.sets(st.tuples(_KEYS, _VALUES)), st.none()),
)


class World:
    """A location, its model, and a reader that never restarts."""

    def __init__(self) -> None:
        self.name = f"memory:{uuid.uuid4().hex}"
        self.client = PersistClient.open(self.name)
        self.reader = PersistClient.open(self.name, mode="ro")
        self.model = Model()

    def step(self, kind: str, first: object, second: object) -> None:
        getattr(self, kind)(first, second)

    def append(self, records: list[tuple[bytes, bytes, int, int]], gap: int) -> None:
        upper = self.model.upper
        moved = [(key, value, upper + offset, diff) for key, value, offset, diff in records]
        new_upper = max([upper + gap, *(time + 1 for _, _, time, _ in moved)])
        self.client.compare_and_append({"a": moved}, expected={"a": upper}, new_upper={"a": new_upper})
        self.model.updates += moved
        self.model.upper = new_upper

    def since(self, forward: int, _: object) -> None:
        since = min(self.model.since + forward, self.model.upper)
        upper = {"a": self.model.upper}
        self.client.compare_and_append({}, expected=upper, new_upper=upper, since={"a": since})
        self.model.since = since

    def compact(self, *_: object) -> None:
        self.client.compact()

    def vacuum(self, *_: object) -> None:
        self.client.vacuum(retention_s=0)

    def restart(self, *_: object) -> None:
        self.client = PersistClient.open(self.name)

    def replace(self, rows: set[tuple[bytes, bytes]], _: object) -> None:
        writer = BatchWriter(self.name, uuid.uuid4().hex)
        if rows:
            batch = pa.record_batch({"key": [key for key, _ in rows], "value": [value for _, value in rows]})
            writer.write("a", batch)
        upper = self.model.upper
        self.client.replace_with_batch(
            writer.finish(),
            collections=["a"],
            version=self.client.state().version,
            new_upper={"a": upper + 1},
        )
        self.model = Model([(key, value, 0, 1) for key, value in rows], upper, upper + 1)

    def check(self) -> None:
        frontier = self.client.state().frontier("a")
        assert frontier == (self.model.since, self.model.upper)
        for client in (self.client, self.reader):
            client.state()
            for time in range(self.model.since, self.model.upper):
                found = [(key, value, diff) for _, key, value, diff in client.snapshot(["a"], time)]
                assert len({row[:2] for row in found}) == len(found), "a row came twice"
                assert {(key, value): diff for key, value, diff in found} == self.model.at(time)
            if self.client.state().version >= 0:
                with pytest.raises(ReadBeyondUpper):
                    list(client.snapshot(["a"], self.model.upper))
            if self.model.since:
                with pytest.raises((ReadBeforeSince, ReadBeyondUpper)):
                    list(client.snapshot(["a"], self.model.since - 1))


@pytest.mark.row("P-27")
@pytest.mark.row("P-28")
@settings(max_examples=60, deadline=None)
@given(st.lists(_STEPS, min_size=1, max_size=12))
def test_contents_at_a_time_never_change(steps: list[tuple[str, object, object]]) -> None:
    world = World()
    try:
        for step in steps:
            world.step(*step)
            world.check()
    finally:
        memory.forget(world.name)

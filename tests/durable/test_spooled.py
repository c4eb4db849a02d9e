"""Upgrades of a shard: in bounded memory, beside the store, and in one commit."""

from __future__ import annotations

import os
import random
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hermit.durable import init_persist_catalog_state, spooled
from hermit.durable import persist as persist_module
from hermit.durable import shard as shards
from hermit.durable.bootstrap import MemoryContents
from hermit.durable.contents import FENCE, MOVED
from hermit.durable.fence import Fence
from hermit.durable.shard import Shard, fence_records
from hermit.durable.spooled import SpooledContents
from hermit.errors import CorruptData, InvariantViolation, Unavailable
from hermit.formats import spool
from hermit.formats.generate import rows as generate
from hermit.formats.metrics import Size
from hermit.formats.upgrade import upgrade
from hermit.formats.upgrades import step_from
from hermit.formats.versions import MIN_STASH_VERSION, STASH_VERSION
from hermit.persist.batch import BatchWriter, list_staged
from hermit.persist.errors import CommitConflict
from hermit.persist.storage import local
from hermit.rows import Row

from .conftest import Lab, fill
from .samples import role

BATCH_ROWS = 64
BASE = {b"a": b"1", b"b": b"2", b"c": b"3"}


def _rows(contents: SpooledContents | MemoryContents) -> list[tuple[bytes, bytes]]:
    return sorted(contents.rows("items"))


@pytest.fixture
def contents() -> Iterator[SpooledContents]:
    with SpooledContents(lambda name: BASE.items() if name == "items" else ()) as found:
        yield found


@pytest.mark.parametrize("seed", range(20))
def test_spooled_contents_are_those_that_memory_would_hold(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spooled, "_BATCH_ROWS", 3)
    rng = random.Random(seed)
    base = {b"%d" % number: b"x" * number for number in range(10)}
    memory = MemoryContents(lambda _: dict(base))
    with SpooledContents(lambda _: base.items()) as streamed:
        for _ in range(8):
            live = dict(memory.rows("items"))
            changes = []
            for key in rng.sample(sorted(live), rng.randrange(len(live) + 1)):
                changes.append((Row("items", key, live[key]), -1))
                if rng.random() < 0.7:
                    changes.append((Row("items", key, rng.choice([b"y", b"z", live[key]])), 1))
            for contents in (memory, streamed):
                contents.write(changes)
            if rng.random() < 0.7:
                assert _rows(streamed) == _rows(memory)
        assert _rows(streamed) == _rows(memory)


def test_a_row_that_is_not_there_cannot_be_retracted(contents: SpooledContents) -> None:
    for row in (Row("items", b"a", b"2"), Row("items", b"d", b"1"), Row("roles", b"a", b"1")):
        contents.write([(row, -1)])
        with pytest.raises(InvariantViolation, match="retracted"):
            list(contents.rows(row.collection))


def test_keys_and_values_that_join_to_the_same_bytes_are_different_rows(contents: SpooledContents) -> None:
    contents.write([(Row("items", b"a1", b""), 1), (Row("items", b"a", b"1"), -1)])
    assert _rows(contents) == [(b"a1", b""), (b"b", b"2"), (b"c", b"3")]


def test_whoever_reads_sees_the_state_at_which_it_began(contents: SpooledContents) -> None:
    contents.write([(Row("items", b"d", b"4"), 1)])
    reader = contents.rows("items")
    first = next(reader)
    contents.write([(Row("items", b"a", b"1"), -1)])
    assert len(_rows(contents)) == 3
    assert sorted([first, *reader]) == [*BASE.items(), (b"d", b"4")]


def test_nothing_is_left_behind_in_the_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with SpooledContents(lambda _: BASE.items()) as contents:
        contents.write([(Row("items", b"a", b"1"), -1), (Row("items", b"d", b""), 1)])
        list(contents.rows("items"))
        (folder,) = tmp_path.iterdir()
        assert len(os.listdir(folder)) == 2, "only what is read and what is being added"
    assert not list(tmp_path.iterdir())


# The shard


def _large_shard(location: Path, items: int) -> int:
    """A shard at the oldest format, in files of a few rows; how many bytes its rows have."""
    like = {"items": Size(items), "roles": Size(10)}
    rows = list(generate(None, seed=1, version=MIN_STASH_VERSION, like=like))
    writer = BatchWriter(location, "old", file_bytes=1)
    for name in {row.collection for row in rows}:
        found = [(row.key, row.value) for row in rows if row.collection == name]
        for start in range(0, len(found), BATCH_ROWS):
            keys, values = zip(*found[start : start + BATCH_ROWS], strict=True)
            writer.write(name, pa.record_batch({"key": keys, "value": values}))
    Shard(str(location)).client.replace_with_batch(
        writer.finish(),
        collections=MOVED,
        version=-1,
        new_upper=dict.fromkeys((*MOVED, FENCE), 1),
        updates=fence_records(0, None, Fence.next(None, 1, None)),
    )
    return sum(len(row.key) + len(row.value) for row in rows)


def _peak_bytes(call: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _open_and_close(unopened: Any) -> None:
    unopened.open(preload=False).close()


def test_an_upgrade_of_a_shard_holds_a_batch_of_rows_and_not_all_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the smaller to the larger catalog, memory grows by much less than what is stored."""
    monkeypatch.setattr(shards, "_CACHE_BYTES", 0)
    monkeypatch.setattr(spool, "_MEMORY_BYTES", 1 << 12)
    monkeypatch.setattr(local, "_WRITE_BYTES", 1 << 12)
    for module, name in ((spooled, "_BATCH_ROWS"), (shards, "_BATCH_ROWS"), (spool, "BATCH_ROWS")):
        monkeypatch.setattr(module, name, BATCH_ROWS)
    peaks, stored = [], []
    for items in (50, 200, 1_000):  # the first one only warms up what is imported on the way
        location = tmp_path / str(items)
        stored.append(_large_shard(location, items))
        unopened = init_persist_catalog_state(location)
        peaks.append(_peak_bytes(partial(_open_and_close, unopened)))
        assert unopened.format_version() == STASH_VERSION
    assert peaks[2] - peaks[1] < (stored[2] - stored[1]) / 3, (peaks, stored)


@pytest.mark.parametrize("place", ["staging", "committing"])
def test_an_upgrade_that_fails_leaves_no_trace(
    persist: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    fill(persist, generate(60, 1, 15))
    before = Shard(str(tmp_path / "shard")).state()
    stage = SpooledContents.stage

    def full_disk(contents: SpooledContents, writer: BatchWriter) -> None:
        stage(contents, writer)
        writer.finish()
        raise OSError(28, "no space left on device")

    def conflict(*_: Any) -> Any:
        raise CommitConflict("somebody was quicker", expected=0, current=1)

    with monkeypatch.context() as patch:
        if place == "staging":
            patch.setattr(SpooledContents, "stage", full_disk)
        else:
            patch.setattr(persist_module, "_OPEN_ATTEMPTS_MAX", 2)
            patch.setattr(Shard, "replace_collections", conflict)
        with pytest.raises((OSError, Unavailable)):
            persist.open()
    assert Shard(str(tmp_path / "shard")).state() == before
    assert not list_staged(tmp_path / "shard")
    assert persist.open().format_version() == STASH_VERSION


@pytest.mark.parametrize("version", [15, STASH_VERSION - 1])
def test_whoever_upgrades_second_takes_over_what_the_first_one_made(
    persist: Lab, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """Somebody else upgrades and writes between the look of the second one and its commit."""
    fill(persist, generate(60, 1, version))
    steps = []

    def overtaken(found: Any, build: Any) -> Any:
        if not steps:
            steps.append(found)
            with persist.unopened().open() as first:
                first.set_objects("roles", [role(77)])
        return step_from(found, build)

    monkeypatch.setitem(upgrade.__kwdefaults__, "arms", overtaken)
    second = persist.open()
    assert steps == [version]
    assert second.epoch == 3
    assert second.get_role_by_id(role(77).key.id) == role(77)


def test_a_row_that_is_there_twice_stops_the_upgrade_of_a_shard(persist: Lab, tmp_path: Path) -> None:
    rows = list(generate(60, 1, 15))
    fill(persist, rows)
    twice = next(row for row in rows if row.collection == "items")
    shard = Shard(str(tmp_path / "shard"))
    shard.append(shard.state(), [(twice, 1)], {})
    before = shard.state()
    with pytest.raises(CorruptData, match="items"):
        persist.open()
    assert shard.state() == before

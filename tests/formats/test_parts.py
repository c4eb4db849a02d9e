"""The small parts of the runner: the spool of changes, and the check for unique keys."""

from __future__ import annotations

import io
import tempfile
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermit.errors import Unavailable
from hermit.formats import spool, uniqueness
from hermit.formats.collections import COLLECTIONS
from hermit.rows import Row

CHANGES = st.lists(
    st.tuples(
        st.builds(Row, st.sampled_from(COLLECTIONS), st.binary(max_size=50), st.binary(max_size=2000)),
        st.sampled_from([1, -1]),
    ),
    max_size=60,
)


@given(CHANGES)
def test_changes_come_back_in_order_and_can_be_read_twice(changes: list[tuple[Row, int]]) -> None:
    with spool.Spool() as kept:
        for row, diff in changes:
            kept.add(row.collection, row.key, row.value, diff)
        for _ in range(2):
            assert [change for batch in kept.batches() for change in batch] == changes
        keys = [row.key for row, diff in changes if (row.collection, diff) == ("items", 1)]
        assert list(kept.keys("items", 1)) == keys


def test_a_batch_is_limited_in_rows_and_in_bytes() -> None:
    with spool.Spool() as kept:
        for number in range(10_000):
            kept.add("items", str(number).encode(), b"", 1)
        for _ in range(9):
            kept.add("items", b"", bytes(300_000), 1)
        batches = list(kept.batches())
    assert max(map(len, batches)) == spool.BATCH_ROWS
    assert max(sum(len(row.value) for row, _ in batch) for batch in batches) <= spool.BATCH_BYTES
    assert sum(map(len, batches)) == 10_009


@given(st.lists(st.binary(max_size=3)))
def test_a_duplicate_is_found_if_and_only_if_there_is_one(keys: list[bytes]) -> None:
    hashes = uniqueness.KeyHashes()
    for key in keys:
        hashes.add(key)
    found = uniqueness.duplicate(hashes, lambda: keys)
    assert (found is None) == (len(set(keys)) == len(keys))
    assert found is None or keys.count(found) > 1


def test_equal_hashes_of_different_keys_are_only_a_suspicion() -> None:
    hashes = uniqueness.KeyHashes()
    hashes.add(b"a")
    hashes.add(b"a")
    assert uniqueness.duplicate(hashes, lambda: [b"a", b"b"]) is None


def test_a_full_disk_is_named_with_its_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_: Any) -> io.FileIO:
        return io.FileIO("/dev/full", "w")

    monkeypatch.setattr(tempfile, "SpooledTemporaryFile", full)
    with (
        spool.Spool() as kept,
        pytest.raises(Unavailable, match=f"in {tempfile.gettempdir()}: No space left"),
    ):
        kept.add("items", b"key", b"value", 1)

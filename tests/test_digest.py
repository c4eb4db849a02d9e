"""The digest is one number for one set of rows, whatever the order and the partitioning."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from hermit.digest import Digest, combine, digest_collection, digest_rows, digest_updates
from hermit.rows import Row

_ROWS = st.lists(
    st.builds(Row, st.sampled_from(["items", "roles"]), st.binary(max_size=9), st.binary(max_size=9)),
    unique=True,
)


@given(_ROWS, st.randoms(use_true_random=False))
def test_order_and_partitioning_do_not_matter(rows: list[Row], random: object) -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    cut = len(rows) // 2
    parts = combine([*digest_rows(shuffled[:cut]).values(), *digest_rows(shuffled[cut:]).values()])
    assert parts == combine(digest_rows(rows).values())


def test_parts_of_a_history_add_up_to_the_digest_of_what_is_left() -> None:
    keys, values = pa.array([b"a", b"b", b"a"]), pa.array([b"1", b"2", b"1"])
    parts = [
        digest_updates("items", keys[:2], values[:2], pa.array([1, 2])),
        digest_updates("items", keys[2:], values[2:], pa.array([-1])),
    ]
    assert combine(parts) == digest_collection("items", [(b"b", b"2"), (b"b", b"2")])


def test_moving_a_byte_between_key_and_value_changes_the_digest() -> None:
    assert digest_collection("items", [(b"ab", b"c")]) != digest_collection("items", [(b"a", b"bc")])


def test_the_collection_is_part_of_the_hash() -> None:
    assert digest_collection("items", [(b"a", b"b")]) != digest_collection("roles", [(b"a", b"b")])


def test_a_digest_survives_its_text_form() -> None:
    digest = digest_collection("items", [(b"a", b"b"), (b"c", b"d")])
    assert Digest.parse(str(digest)) == digest

"""The bytes of every version stay what they were: 100 objects of every kind are committed."""

from __future__ import annotations

from collections import Counter

import pytest

from hermit.formats import codec
from hermit.formats.versions import MIN_STASH_VERSION, STASH_VERSION
from tests.formats import frozen, golden
from tests.formats.oracle import expected
from tests.formats.store import MemoryStore

VERSIONS = range(MIN_STASH_VERSION, STASH_VERSION + 1)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_kind_of_the_version_has_a_hundred_golden_objects(version: int) -> None:
    kinds = set(frozen.types(max(version, 15))) - ({"update_log"} if version == 14 else set())
    counts = Counter(entry.row.collection for entry in golden.read(version))
    assert counts.pop("config") == 1
    assert counts.keys() == kinds
    assert min(counts.values()) >= golden.OBJECTS_PER_KIND


@pytest.mark.row("F-16")
@pytest.mark.parametrize("version", frozen.PROTO_VERSIONS)
def test_frozen_types_read_their_golden_objects_and_write_them_bit_for_bit(version: int) -> None:
    for row, key_json, value_json in golden.read(version):
        if row.collection != "config":
            key, value = frozen.parse(version, row)
            assert (frozen.plain(key), frozen.plain(value)) == (key_json, value_json)
            assert frozen.row(row.collection, key, value) == row


@pytest.mark.row("F-16")
def test_the_codec_writes_the_golden_objects_of_the_current_version_bit_for_bit() -> None:
    for row, _, _ in golden.read(STASH_VERSION):
        key, value = codec.decode_key(row.collection, row.key), codec.decode_value(row.collection, row.value)
        assert codec.encode_key(row.collection, key) == row.key
        assert codec.encode_value(row.collection, value) == row.value
        assert codec.from_json(row.collection, "key", codec.to_json(row.collection, key)) == key
        assert codec.from_json(row.collection, "value", codec.to_json(row.collection, value)) == value


@pytest.mark.row("D-77")
@pytest.mark.parametrize("version", VERSIONS)
def test_the_golden_objects_of_every_version_can_be_upgraded(version: int) -> None:
    store = MemoryStore(entry.row for entry in golden.read(version))
    wanted = expected(version, store.rows())
    store.upgrade()
    assert frozen.canonical(STASH_VERSION, store.rows()) == wanted

"""The runner: from any version to the current one, in steps of one, all or nothing."""

from __future__ import annotations

import pytest

from hermit.formats import codec
from hermit.formats.generate import rows
from hermit.formats.versions import MIN_STASH_VERSION, STASH_VERSION
from tests.formats.store import MemoryStore

VERSIONS = range(MIN_STASH_VERSION, STASH_VERSION + 1)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_generated_catalog_of_every_version_can_be_upgraded_and_read(version: int) -> None:
    store = MemoryStore(rows(500, seed=1, version=version))
    report = store.upgrade()
    assert store.version == STASH_VERSION
    assert [step.start for step in report.steps] == list(range(version, STASH_VERSION))
    for row in store.rows():
        key, value = codec.decode_key(row.collection, row.key), codec.decode_value(row.collection, row.value)
        assert codec.encode_key(row.collection, key) == row.key
        assert codec.encode_value(row.collection, value) == row.value

"""For every version: generated and random catalogs, upgraded, are what the oracle says."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermit.formats import codec
from hermit.formats.generate import rows
from hermit.formats.versions import MIN_STASH_VERSION, STASH_VERSION
from tests.formats import frozen
from tests.formats.oracle import expected
from tests.formats.store import MemoryStore
from tests.formats.strategies import catalogs

VERSIONS = range(MIN_STASH_VERSION, STASH_VERSION + 1)


@pytest.mark.row("F-52")
@pytest.mark.row("F-4")
@pytest.mark.parametrize("version", VERSIONS)
def test_a_generated_catalog_becomes_what_the_oracle_says(version: int) -> None:
    store = MemoryStore(rows(1500, seed=version, version=version))
    wanted = expected(version, store.rows())
    store.upgrade()
    assert frozen.canonical(STASH_VERSION, store.rows()) == wanted


@pytest.mark.row("F-52")
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_random_catalog_becomes_what_the_oracle_says(version: int, data: st.DataObject) -> None:
    store = MemoryStore(data.draw(catalogs(version)))
    wanted = expected(version, store.rows())
    store.upgrade()
    assert frozen.canonical(STASH_VERSION, store.rows()) == wanted
    for row in store.rows():
        codec.decode_key(row.collection, row.key)
        codec.decode_value(row.collection, row.value)

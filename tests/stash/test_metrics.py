"""Rows and bytes per collection."""

from __future__ import annotations

import pytest

from hermit.rows import Row
from hermit.stash import Stash
from hermit.stash.consolidate import consolidate
from hermit.stash.metrics import CollectionMetrics, metrics, prometheus

from .conftest import ClosingClient

A = Row("items", b"key", b"value")


@pytest.mark.row("F-49")
def test_number_and_size_of_rows_are_counted_per_collection(client: ClosingClient, stash: Stash) -> None:
    stash.write(lambda t: t.append([(A, 1), (Row("roles", b"", b"12"), 1)]))
    stash.write(lambda t: t.append([(A, -1), (A._replace(value=b"longer value"), 1)]))
    assert metrics(client) == [
        CollectionMetrics("items", rows=3, live_rows=1, bytes=8 + 8 + 15),
        CollectionMetrics("roles", rows=1, live_rows=1, bytes=2),
    ]
    consolidate(stash)
    assert metrics(client)[0] == CollectionMetrics("items", rows=1, live_rows=1, bytes=15)


def test_an_empty_collection_counts_as_empty_and_no_stash_has_none(client: ClosingClient) -> None:
    assert metrics(client) == []
    client.open(lambda t: t.seal("items", 3))
    assert metrics(client) == [CollectionMetrics("items", 0, 0, 0)]


def test_prometheus_gets_one_line_per_collection_and_measure(client: ClosingClient) -> None:
    found = [CollectionMetrics("items", 3, 1, 31), CollectionMetrics('odd"\\\n', 0, 0, 0)]
    text = prometheus(client.organization_id, found)
    assert f'hermit_stash_live_rows{{organization="{client.organization_id}",collection="items"}} 1\n' in text
    assert 'collection="odd\\"\\\\\\n"' in text
    assert text.count("# TYPE") == 3
    assert len(text.splitlines()) == 3 * (2 + 2)

"""Rows and bytes per collection, for `status`, the UI and Prometheus.

`rows` are the stored updates, `live_rows` what their diffs sum to, `bytes` the keys and values stored.
Rows far above live rows mean that consolidation falls behind; a jump in bytes across an upgrade means
that it did more than it should.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from hermit.stash.client import StashClient
from hermit.stash.schema import render
from hermit.stash.transaction import StashTransaction

_MEASURE = """
SELECT collection_id, count(*), sum(diff)::bigint, sum(octet_length(key) + octet_length(value))::bigint
FROM {schema}.{heap} GROUP BY collection_id
"""
_UNMERGED = "SELECT count(*) FROM {schema}.{heap} WHERE diff <> 1"


@dataclass(frozen=True)
class CollectionMetrics:
    """One collection's size."""

    name: str
    rows: int
    live_rows: int
    bytes: int


def metrics(client: StashClient) -> list[CollectionMetrics]:
    """The size of every collection, by name; empty where there is no stash."""

    def look(transaction: StashTransaction | None) -> list[CollectionMetrics]:
        return [] if transaction is None else measure(transaction, client.schema)

    return client.look(look)


def unmerged(client: StashClient) -> int:
    """How many stored updates wait to be merged: a look at an index, however much is stored."""

    def look(transaction: StashTransaction | None) -> int:
        if transaction is None:
            return 0
        query = render(_UNMERGED, schema=client.schema, heap=transaction.row.heap)
        return int(transaction.execute(query).fetchall()[0][0])

    return client.look(look)


def measure(transaction: StashTransaction, schema: str) -> list[CollectionMetrics]:
    """The size of every collection, as this transaction sees it."""
    query = render(_MEASURE, schema=schema, heap=transaction.row.heap)
    sizes = {found[0]: found[1:] for found in transaction.execute(query)}
    return [
        CollectionMetrics(name, *sizes.get(collection_id, (0, 0, 0)))
        for name, collection_id in sorted(transaction.collections().items())
    ]


def prometheus(organization_id: UUID, collections: Iterable[CollectionMetrics]) -> str:
    """The metrics in Prometheus' text format."""
    found = list(collections)
    lines = []
    for field, text in (
        ("rows", "Stored updates."),
        ("live_rows", "Rows that the stored updates sum to."),
        ("bytes", "Bytes of stored keys and values."),
    ):
        name = f"hermit_stash_{field}"
        lines += [f"# HELP {name} {text}", f"# TYPE {name} gauge"]
        lines += [
            f'{name}{{organization="{organization_id}",collection="{_escape(m.name)}"}} {getattr(m, field)}'
            for m in found
        ]
    return "\n".join(lines) + "\n"


def _escape(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

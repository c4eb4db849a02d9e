"""The status of a catalog as metrics, in Prometheus' text format.

`hermit status --prometheus` prints it: for the text file collector of a node exporter, from a timer. Every
metric has the labels `organization` and, where it is about one of the two, `store`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from hermit.formats.metrics import Size, UpgradeReport, prometheus_text
from hermit.stash.metrics import CollectionMetrics
from hermit.stash.metrics import prometheus as stash_text

STORES = ("stash", "persist")
_FACTS = {
    "epoch": "The epoch that is stored.",
    "format_version": "The format that the contents have.",
    "tombstone": "Whether this store is retired; missing where that was never said.",
}


def prometheus(status: Mapping[str, Any]) -> str:
    """All that the status says in numbers."""
    organization = status["organization_id"]
    sizes: list[tuple[Mapping[str, str], Size]] = []
    upgrades: list[tuple[Mapping[str, str], Size]] = []
    for store in STORES:
        labels = {"organization": organization, "store": store}
        for name, size in status[store].get("collections", {}).items():
            sizes.append(({**labels, "collection": name}, Size(size["rows"], size["bytes"])))
        if (upgrade := status[store]["last_upgrade"]) is not None:
            upgrades += UpgradeReport.from_json(upgrade).samples(**labels)
    stored = [CollectionMetrics(name, **size) for name, size in status["stash"]["stored"].items()]
    return "".join(
        [
            *(_gauge(status, fact, what) for fact, what in _FACTS.items()),
            _source_of_truth(status),
            prometheus_text("hermit_catalog", sizes),
            stash_text(UUID(organization), stored),
            prometheus_text("hermit_upgrade", upgrades),
        ]
    )


def _gauge(status: Mapping[str, Any], fact: str, what: str) -> str:
    samples = [(store, int(status[store][fact])) for store in STORES if status[store][fact] is not None]
    return _lines(f"hermit_catalog_{fact}", what, status["organization_id"], samples)


def _source_of_truth(status: Mapping[str, Any]) -> str:
    samples = [(store, int(store == status["source_of_truth"])) for store in STORES]
    what = "Whether the truth is in this store."
    return _lines("hermit_catalog_is_source_of_truth", what, status["organization_id"], samples)


def _lines(name: str, what: str, organization: str, samples: Iterable[tuple[str, int]]) -> str:
    lines = [f"# HELP {name} {what}", f"# TYPE {name} gauge"]
    lines += [f'{name}{{organization="{organization}",store="{store}"}} {value}' for store, value in samples]
    return "\n".join(lines) + "\n"

"""The versioned catalog service: descriptors by version or point in time, changed by commands.

    home = TwoStores(connect(stash_url, shards, organization_id))   # or OneStore(...)
    with CatalogManager(home) as node:                              # a node of the service, in a thread
        applied = node.execute(CreateSchema(name="shop")).result()  # available on every node
        node.catalog_at(applied.version).schema("shop")

See docs/service.md for what is guaranteed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hermit.service.catalog import Catalog
    from hermit.service.clock import HybridClock, HybridTimestamp
    from hermit.service.events import CatalogEvent, EventType
    from hermit.service.homes import OneStore, TwoStores
    from hermit.service.manager import CatalogManager
    from hermit.service.requests import Applied
    from hermit.service.service import CatalogService
    from hermit.service.settings import ServiceSettings

_HOMES = {
    "Applied": "requests",
    "Catalog": "catalog",
    "CatalogEvent": "events",
    "CatalogManager": "manager",
    "CatalogService": "service",
    "EventType": "events",
    "HybridClock": "clock",
    "HybridTimestamp": "clock",
    "OneStore": "homes",
    "ServiceSettings": "settings",
    "TwoStores": "homes",
}

__all__ = [
    "Applied",
    "Catalog",
    "CatalogEvent",
    "CatalogManager",
    "CatalogService",
    "EventType",
    "HybridClock",
    "HybridTimestamp",
    "OneStore",
    "ServiceSettings",
    "TwoStores",
]


def __getattr__(name: str) -> Any:
    """Import what is asked for, when it is: a reader of catalogs needs no store."""
    import importlib

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)

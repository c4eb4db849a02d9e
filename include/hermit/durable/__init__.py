"""The durable catalog: one interface over both stores.

    state = init_stash_catalog_state(url, organization_id)   # or persist, or shadow: nothing is opened
    with state.open() as catalog:                            # whoever had it open before is fenced
        with catalog.transaction() as transaction:
            transaction.system_configurations.set(key, value)
            catalog.commit_transaction(transaction)

The constructors open nothing and write nothing. What they return answers deploy generation, tombstone,
epoch and other config before opening, whatever the format of the stored catalog.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

if TYPE_CHECKING:
    from hermit.durable.abc import UnopenedCatalogState
    from hermit.durable.persist import UnopenedPersistCatalog
    from hermit.durable.stash import UnopenedStashCatalog

Now = Callable[[], int]


def now_ms() -> int:
    """The clock of the machine, in ms."""
    return time.time_ns() // 1_000_000


def init_stash_catalog_state(
    stash_url: str, organization_id: UUID, *, now: Now = now_ms
) -> UnopenedStashCatalog:
    """The catalog of an organization in the stash, not opened. TLS is set in the URL, as for libpq."""
    from hermit.durable.stash import UnopenedStashCatalog

    return UnopenedStashCatalog(stash_url, organization_id, boot_ts=now())


def init_persist_catalog_state(
    location: str | Path, *, now: Now = now_ms, storage_options: dict[str, str] | None = None
) -> UnopenedPersistCatalog:
    """The catalog in a shard, not opened. `hermit.identity.shard_id` gives an organization's shard."""
    from hermit.durable.persist import UnopenedPersistCatalog

    return UnopenedPersistCatalog(location, boot_ts=now(), storage_options=storage_options)


def init_shadow_catalog_state(
    primary_state: UnopenedCatalogState, secondary_state: UnopenedCatalogState
) -> UnopenedCatalogState:
    """Two catalogs as one whose every call is compared, not opened."""
    from hermit.durable import shadow

    return shadow.init_shadow_catalog_state(primary_state, secondary_state)

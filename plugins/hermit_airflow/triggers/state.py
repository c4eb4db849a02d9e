"""Waits until a catalog is in a given state."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent


class CatalogStateTrigger(BaseTrigger):
    """Fires when the truth is in the wanted store, at an epoch of at least so much."""

    def __init__(
        self,
        organization_id: str,
        source_of_truth: str,
        epoch_min: int = 0,
        stash_conn_id: str = "hermit_stash_default",
        persist_conn_id: str = "hermit_persist_default",
        poll_interval_s: float = 5.0,
    ) -> None:
        super().__init__()
        self.organization_id = organization_id
        self.source_of_truth = source_of_truth
        self.epoch_min = epoch_min
        self.stash_conn_id = stash_conn_id
        self.persist_conn_id = persist_conn_id
        self.poll_interval_s = poll_interval_s

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """What Airflow stores of it; nothing in it is secret."""
        names = ("organization_id", "source_of_truth", "epoch_min", "stash_conn_id", "persist_conn_id")
        arguments = {name: getattr(self, name) for name in (*names, "poll_interval_s")}
        return f"{type(self).__module__}.{type(self).__qualname__}", arguments

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look until it is so."""
        from hermit.errors import Unavailable

        while True:
            try:
                found = await self.look()
            except Unavailable as error:
                self.log.info("waiting: %s", error)
            else:
                if found is not None:
                    yield TriggerEvent(found)
                    return
            await asyncio.sleep(self.poll_interval_s)

    async def look(self) -> dict[str, Any] | None:
        """The state, if it is the one that is waited for."""
        from hermit_airflow.hooks.persist import HermitPersistHook
        from hermit_airflow.hooks.stash import HermitStashHook

        url = await HermitStashHook(self.stash_conn_id).aurl()
        location = await HermitPersistHook(self.persist_conn_id).alocation()
        return await asyncio.to_thread(
            look, url, location, self.organization_id, self.source_of_truth, self.epoch_min
        )


def look(
    stash_url: str, shards: str, organization_id: str, source_of_truth: str, epoch_min: int
) -> dict[str, Any] | None:
    """The state of a catalog, if its truth is where it is wanted at an epoch that is high enough."""
    from hermit.migration.stores import connect

    stores = connect(stash_url, shards, uuid.UUID(organization_id))
    store = stores.state().truth.store.value
    epoch = (stores.stash if store == "stash" else stores.persist).epoch() or 0
    if store != source_of_truth or epoch < epoch_min:
        return None
    return {"source_of_truth": store, "epoch": epoch}

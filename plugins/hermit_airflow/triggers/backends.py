"""Waits until both stores answer.

Only the names of the connections are stored with the trigger: what they hold, passwords included, is looked
up where the trigger runs and nowhere written down.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent


class BackendsTrigger(BaseTrigger):
    """Fires when the stash accepts a connection and persist's location can be looked at."""

    def __init__(self, stash_conn_id: str, persist_conn_id: str, poll_interval_s: float = 5.0) -> None:
        super().__init__()
        self.stash_conn_id = stash_conn_id
        self.persist_conn_id = persist_conn_id
        self.poll_interval_s = poll_interval_s

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """What Airflow stores of it."""
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {
                "stash_conn_id": self.stash_conn_id,
                "persist_conn_id": self.persist_conn_id,
                "poll_interval_s": self.poll_interval_s,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Ask until both answer."""
        while True:
            missing = await self.missing()
            if missing is None:
                yield TriggerEvent({"ready": True})
                return
            self.log.info("waiting: %s", missing)
            await asyncio.sleep(self.poll_interval_s)

    async def missing(self) -> str | None:
        """What does not answer, or None."""
        import psycopg

        from hermit_airflow.hooks.persist import HermitPersistHook, why_not_writable
        from hermit_airflow.hooks.stash import HermitStashHook

        url = await HermitStashHook(self.stash_conn_id).aurl()
        try:
            async with await psycopg.AsyncConnection.connect(url, connect_timeout=5) as connection:
                await connection.execute("SELECT 1")
        except psycopg.OperationalError:
            # The server's words may hold what the URL does: the name of the connection says enough.
            return f"the stash behind connection {self.stash_conn_id} does not answer"
        location = await HermitPersistHook(self.persist_conn_id).alocation()
        return await asyncio.to_thread(why_not_writable, location)

"""Waits, without a worker slot, until both stores of a catalog answer and can be written to.

Whether the catalog is initialized in them is not asked: opening it, the next task, initializes what is not.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator

if TYPE_CHECKING:
    from airflow.sdk import Context


class BackendsSensor(BaseSensorOperator):
    """Looks once; if a store does not answer, defers until both do."""

    template_fields = ("stash_conn_id", "persist_conn_id")

    def __init__(
        self,
        *,
        stash_conn_id: str = "hermit_stash_default",
        persist_conn_id: str = "hermit_persist_default",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.stash_conn_id = stash_conn_id
        self.persist_conn_id = persist_conn_id

    def execute(self, context: Context) -> None:
        """Go on at once when both answer."""
        from datetime import timedelta

        from hermit_airflow.triggers.backends import BackendsTrigger

        trigger = BackendsTrigger(self.stash_conn_id, self.persist_conn_id, self.poke_interval)
        missing = asyncio.run(trigger.missing())
        if missing is not None:
            self.log.info("waiting: %s", missing)
            self.defer(
                trigger=trigger,
                method_name="execute_complete",
                timeout=timedelta(seconds=self.timeout),
            )

    def execute_complete(self, context: Context, event: dict[str, Any] | None = None) -> None:
        """Both answer."""

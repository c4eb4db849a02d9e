"""For other teams' DAGs: wait until the truth of a catalog is where they need it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator

if TYPE_CHECKING:
    from airflow.sdk import Context


class CatalogStateSensor(BaseSensorOperator):
    """Waits for "the truth is `source_of_truth`, at an epoch of at least `epoch_min`".

    The result is the state that was found: `{"source_of_truth": …, "epoch": …}`.
    """

    template_fields = ("organization_id", "source_of_truth", "epoch_min", "stash_conn_id", "persist_conn_id")

    def __init__(
        self,
        *,
        organization_id: str,
        source_of_truth: str,
        epoch_min: int = 0,
        stash_conn_id: str = "hermit_stash_default",
        persist_conn_id: str = "hermit_persist_default",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.organization_id = organization_id
        self.source_of_truth = source_of_truth
        self.epoch_min = epoch_min
        self.stash_conn_id = stash_conn_id
        self.persist_conn_id = persist_conn_id

    def execute(self, context: Context) -> Any:  # noqa: RET503 - deferring does not return
        """Look once, then wait without a worker slot."""
        from hermit.identity import parse_organization_id
        from hermit.migration.protocol import Store
        from hermit_airflow.hooks.persist import HermitPersistHook
        from hermit_airflow.hooks.stash import HermitStashHook
        from hermit_airflow.operators.base import ends_without_retries
        from hermit_airflow.triggers.state import CatalogStateTrigger, look

        with ends_without_retries():
            organization_id = str(parse_organization_id(self.organization_id))
            wanted = Store(self.source_of_truth).value
            url = HermitStashHook(self.stash_conn_id).url()
            shards = HermitPersistHook(self.persist_conn_id).location()
            found = look(url, shards, organization_id, wanted, int(self.epoch_min))
        if found is not None:
            return found
        self.defer(
            trigger=CatalogStateTrigger(
                organization_id,
                wanted,
                int(self.epoch_min),
                self.stash_conn_id,
                self.persist_conn_id,
                self.poke_interval,
            ),
            method_name="execute_complete",
            timeout=timedelta(seconds=self.timeout),
        )

    def execute_complete(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        """Give the state that was found."""
        return event

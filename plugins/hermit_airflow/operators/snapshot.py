"""The one Spark job of a move: it stages a snapshot of the source where nobody looks yet."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk.exceptions import AirflowException

from hermit.embedded import spark
from hermit.migration.job import STASH_URL_VARIABLE
from hermit_airflow.operators.base import ends_without_retries, move_of, stores_of, timed
from hermit_airflow.operators.move import batch_of, fencing_of, steps_of

if TYPE_CHECKING:
    from airflow.sdk import Context


@contextmanager
def _inherited(name: str, value: str) -> Iterator[None]:
    """A variable that processes which are started meanwhile find in their environment."""
    os.environ[name] = value
    try:
        yield
    finally:
        del os.environ[name]


class SnapshotOperator(SparkSubmitOperator):
    """Submits the staging job and gives the manifest's figures as its result.

    The stash's URL may hold a password, so that it reaches the job by its environment: not by its
    arguments, which any user of the machine can list, nor by Spark's configuration, which its UI shows. The
    operator's own `env_vars` would become arguments on YARN and Kubernetes: the variable is inherited.
    """

    template_fields = (
        *SparkSubmitOperator.template_fields,
        "organization_id",
        "stash_conn_id",
        "persist_conn_id",
    )

    def __init__(
        self,
        *,
        direction: str,
        organization_id: str = "{{ params.organization_id }}",
        stash_conn_id: str = "hermit_stash_default",
        persist_conn_id: str = "hermit_persist_default",
        **kwargs: Any,
    ) -> None:
        kwargs["conf"] = {**spark.conf(), **(kwargs.get("conf") or {})}
        super().__init__(durable=False, **kwargs)
        self.direction = direction
        self.organization_id = organization_id
        self.stash_conn_id = stash_conn_id
        self.persist_conn_id = persist_conn_id

    def execute(self, context: Context) -> dict[str, Any]:
        """Submit, wait, and read the manifest."""
        with timed(context):
            return self._stage(context)

    def _stage(self, context: Context) -> dict[str, Any]:
        with ends_without_retries():
            move = move_of(self, context)
            steps = steps_of(move)
            stores = stores_of(self, move)
            fencing, batch = fencing_of(context), batch_of(context)
            request = steps.staging_request(stores, move, fencing, batch)
            self.application_args = [json.dumps(request)]
        try:
            with _inherited(STASH_URL_VARIABLE, stores.stash_url):
                super().execute(context)
        except AirflowException:
            with ends_without_retries():
                steps.confirm(stores, fencing)
            raise
        with ends_without_retries():
            manifest = steps.staged(stores, batch)
        return {"batch": batch, "rows": manifest.rows, "bytes": manifest.bytes, "seconds": manifest.seconds}

"""The DAGs beside the moves. They may run at any time, beside a move and beside whoever uses the catalog."""

from __future__ import annotations

import itertools
import os
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, Param, TriggerRule

from hermit.migration.maintenance import ACTIONS
from hermit_airflow.dag_factory import organization_param
from hermit_airflow.operators.maintain import MaintainOperator, UpgradeCheckOperator

_DEFAULTS: dict[str, Any] = {
    # No start date: an Airflow that is started for the first time waits for the next night.
    "start_date": None,
    "catchup": False,
    "max_active_runs": 1,
    "tags": ["hermit"],
    "default_args": {"retries": 2, "retry_delay": timedelta(seconds=30)},
}


def maintain_catalog() -> DAG:
    """Consolidate the stash, compact and vacuum the shard, verify checksums; every night."""
    dag = DAG(
        dag_id="maintain_catalog",
        description="Consolidates the stash, compacts and vacuums the shard, verifies checksums",
        schedule=os.environ.get("HERMIT_MAINTAIN_SCHEDULE") or "0 3 * * *",
        is_paused_upon_creation=False,
        params={
            "organization_id": organization_param("The catalog to maintain"),
            "actions": Param(
                list(ACTIONS),
                type="array",
                items={"type": "string", "enum": list(ACTIONS)},
                title="Actions",
                description_md="What to do; by default everything.",
            ),
        },
        doc_md=maintain_catalog.__doc__,
        **_DEFAULTS,
    )
    with dag:
        tasks = [
            MaintainOperator(task_id=action, action=action, trigger_rule=TriggerRule.NONE_FAILED)
            for action in ACTIONS
        ]
        for before, after in itertools.pairwise(tasks):
            before >> after
    return dag


def upgrade_check() -> DAG:
    """Work out in full, on a running catalog and changing nothing, whether this release could open it."""
    dag = DAG(
        dag_id="upgrade_check",
        description="Says whether this release could open a running catalog",
        schedule=None,
        is_paused_upon_creation=False,
        params={"organization_id": organization_param("The catalog to check")},
        doc_md=upgrade_check.__doc__,
        **_DEFAULTS,
    )
    with dag:
        UpgradeCheckOperator(task_id="check_open")
    return dag

"""Builds the two DAGs of the move from the protocols' tables.

Both DAGs have one shape: the steps of the plan in a row, and one branch behind `check_tombstone` that may
enter the row at any later step, or leave it for `nothing_to_do`. Steps that a branch jumped over are
skipped, which is why everything behind the branch joins with `none_failed_min_one_success`.
"""

from __future__ import annotations

import itertools
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Param, TriggerRule

from hermit.migration.protocol import PROTOCOLS, SINGLE, Direction, Step
from hermit_airflow.operators import move as operators
from hermit_airflow.operators.snapshot import SnapshotOperator
from hermit_airflow.sensors.backends import BackendsSensor

WAIT = "wait_for_stores"
NOTHING_TO_DO = "nothing_to_do"
REPORT = "report"
_JOIN = TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS
_ROOT = Path(os.environ.get("HERMIT_ROOT") or Path(__file__).resolve().parents[2])
_UUID4 = "^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$"

_OPERATORS: dict[Step, type[Any]] = {
    Step.OPEN: operators.OpenOperator,
    Step.FENCE_EPOCH: operators.FenceEpochOperator,
    Step.ANNOUNCE: operators.AnnounceOperator,
    Step.CHECK_TOMBSTONE: operators.CheckTombstoneOperator,
    Step.REPLACE: operators.ReplaceOperator,
    Step.VERIFY: operators.VerifyOperator,
    Step.SET_TOMBSTONE: operators.SetTombstoneOperator,
}


def build(direction: Direction) -> DAG:
    """The DAG of one direction. The protocol is a param: both share the order of steps."""
    steps = SINGLE.plans[direction].steps
    schedule = os.environ.get(f"HERMIT_{direction.upper()}_SCHEDULE") or None
    dag = DAG(
        dag_id=f"{direction}_catalog",
        description=f"Moves a catalog from {direction.source} to {direction.target}",
        schedule=schedule,
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        catchup=False,
        # A schedule starts paused: nobody's catalog moves because a file appeared.
        is_paused_upon_creation=schedule is not None,
        max_active_runs=1,
        default_args={"retries": 2, "retry_delay": timedelta(seconds=5), "retry_exponential_backoff": True},
        params=_params(),
        doc_md=_documentation(direction, steps),
        tags=["hermit"],
    )
    with dag:
        tasks = {step: _task(step, direction, steps) for step in steps}
        BackendsSensor(task_id=WAIT, poke_interval=5, timeout=3600) >> tasks[steps[0]]
        nothing = EmptyOperator(task_id=NOTHING_TO_DO)
        report = operators.ReportOperator(
            task_id=REPORT, direction=direction.value, steps=tuple(steps), trigger_rule=_JOIN
        )
        for before, after in itertools.pairwise(steps):
            tasks[before] >> tasks[after]
        for step in _behind(Step.CHECK_TOMBSTONE, steps)[1:]:
            tasks[Step.CHECK_TOMBSTONE] >> tasks[step]
        tasks[Step.CHECK_TOMBSTONE] >> nothing >> report
        tasks[steps[-1]] >> report
    return dag


def _task(step: Step, direction: Direction, steps: tuple[Step, ...]) -> Any:
    common: dict[str, Any] = {"task_id": step.value, "direction": direction.value}
    if step in _behind(Step.CHECK_TOMBSTONE, steps):
        common["trigger_rule"] = _JOIN
    if step is Step.SNAPSHOT:
        return SnapshotOperator(
            application=str(_ROOT / "spark_jobs" / "stage_snapshot.py"),
            name=f"hermit-{direction}",
            conf={"spark.ui.enabled": "false"},
            **common,
        )
    if step is Step.CHECK_TOMBSTONE:
        ways = {later.value: later.value for later in _behind(step, steps)}
        common["tasks"] = {**ways, NOTHING_TO_DO: NOTHING_TO_DO}
    return _OPERATORS[step](**common)


def _behind(step: Step, steps: tuple[Step, ...]) -> tuple[Step, ...]:
    return steps[steps.index(step) + 1 :]


def _params() -> dict[str, Param]:
    return {
        "organization_id": Param(
            os.environ.get("HERMIT_ORGANIZATION_ID"),
            type=["null", "string"],
            pattern=_UUID4,
            title="Organization",
            description_md="The catalog to move: its organization's ID, a version 4 UUID.",
        ),
        "protocol": Param(
            None,
            enum=[None, *PROTOCOLS],
            title="Protocol",
            description_md="One tombstone or two. Empty: the one that the catalog is under.",
        ),
        "dry_run": Param(
            False,
            type="boolean",
            title="Dry run",
            description_md="Read, stage, verify and report, but change nothing durable anywhere.",
        ),
    }


def _documentation(direction: Direction, steps: tuple[Step, ...]) -> str:
    row = " → ".join(f"`{step}`" for step in steps)
    return (
        f"Moves a catalog from **{direction.source}** to **{direction.target}**.\n\n{row}\n\n"
        "Every step may be run again. The epoch alone decides who may write: a run that was fenced fails "
        "at once and says by whom. Nothing is the truth until the last write."
    )

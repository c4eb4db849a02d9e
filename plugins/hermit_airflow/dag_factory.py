"""Builds the two DAGs of the move from the protocols' tables.

Both DAGs have one shape: the steps of the plan in a row, and one branch behind `check_tombstone` that may
enter the row at any later step up to `verify`, or leave it for `nothing_to_do`. Steps that a branch
jumped over are skipped, which is why everything behind the branch joins with
`none_failed_min_one_success`. A rejected approval skips what is left of the row and goes to the report.
"""

from __future__ import annotations

import itertools
import os
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Param, TriggerRule

from hermit.migration.protocol import PROTOCOLS, SINGLE, Direction, Plan, Step
from hermit_airflow import jobs
from hermit_airflow.assets import MOVED_CATALOGS
from hermit_airflow.operators import move as operators
from hermit_airflow.operators.approve import ApproveOperator
from hermit_airflow.operators.snapshot import SnapshotOperator
from hermit_airflow.sensors.backends import BackendsSensor

WAIT = "wait_for_stores"
NOTHING_TO_DO = "nothing_to_do"
REPORT = "report"
_JOIN = TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS
_UUID4 = "^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$"
# An answer that comes before Airflow has put the question away costs a try, and Airflow asks again. Asking
# changes nothing, so that somebody quick, or a slow scheduler, must not end the run.
_ASKS_AGAIN = {"retries": 10, "retry_delay": timedelta(seconds=1), "retry_exponential_backoff": 0}

_OPERATORS: dict[Step, type[Any]] = {
    Step.OPEN: operators.OpenOperator,
    Step.FENCE_EPOCH: operators.FenceEpochOperator,
    Step.ANNOUNCE: operators.AnnounceOperator,
    Step.CHECK_TOMBSTONE: operators.CheckTombstoneOperator,
    Step.SNAPSHOT: SnapshotOperator,
    Step.REPLACE: operators.ReplaceOperator,
    Step.VERIFY: operators.VerifyOperator,
    Step.APPROVE: ApproveOperator,
    Step.SET_TOMBSTONE: operators.SetTombstoneOperator,
}


def build(direction: Direction) -> DAG:
    """The DAG of one direction. The protocol is a param: both share the order of steps."""
    plan = SINGLE.plans[direction]
    steps = plan.steps
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
        tasks = {step: _task(step, direction, plan) for step in steps}
        BackendsSensor(task_id=WAIT, poke_interval=5, timeout=3600) >> tasks[steps[0]]
        nothing = EmptyOperator(task_id=NOTHING_TO_DO)
        report = operators.ReportOperator(
            task_id=REPORT, direction=direction.value, steps=tuple(steps), trigger_rule=_JOIN
        )
        for before, after in itertools.pairwise(steps):
            tasks[before] >> tasks[after]
        for step in plan.entries[1:]:
            tasks[Step.CHECK_TOMBSTONE] >> tasks[step]
        tasks[Step.CHECK_TOMBSTONE] >> nothing >> report
        [tasks[Step.APPROVE], tasks[steps[-1]]] >> report
    return dag


def _task(step: Step, direction: Direction, plan: Plan) -> Any:
    common: dict[str, Any] = {"task_id": step.value, "direction": direction.value}
    if plan.steps.index(step) > plan.steps.index(Step.CHECK_TOMBSTONE):
        common["trigger_rule"] = _JOIN
    return _OPERATORS[step](**common, **_own_arguments(step, direction, plan))


def _own_arguments(step: Step, direction: Direction, plan: Plan) -> dict[str, Any]:
    """What only this step's operator takes."""
    match step:
        case Step.CHECK_TOMBSTONE:
            ways = {entry.value: entry.value for entry in plan.entries}
            return {"tasks": {**ways, NOTHING_TO_DO: NOTHING_TO_DO}}
        case Step.SNAPSHOT:
            return {
                "application": jobs.path("stage_snapshot.py"),
                "name": f"hermit-{direction}",
                "conf": {"spark.ui.enabled": "false"},
            }
        case Step.VERIFY:
            return {"steps": tuple(plan.steps)}
        case Step.APPROVE:
            return {"report_task": REPORT, **_ASKS_AGAIN}
        case Step.SET_TOMBSTONE:
            return {"outlets": [MOVED_CATALOGS]}
        case _:
            return {}


def _params() -> dict[str, Param]:
    return {
        "organization_id": organization_param("The catalog to move"),
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
        "approve_cut_over": Param(
            False,
            type="boolean",
            title="Approve cut-over",
            description_md="Wait for a human once both sides were found equal, before the truth moves.",
        ),
        "rows_per_partition": _limit("Rows per partition", "About how many rows one Spark task copies."),
        "max_parallelism": _limit("Maximum parallelism", "How many Spark tasks may copy at the same time."),
        "max_rows_per_second": _limit(
            "Throttle",
            "How many rows a second all tasks together may copy. May be changed on the way.",
        ),
    }


def organization_param(what: str) -> Param:
    """Which catalog: by default the one that this Airflow was set up for."""
    return Param(
        os.environ.get("HERMIT_ORGANIZATION_ID"),
        type=["null", "string"],
        pattern=_UUID4,
        title="Organization",
        description_md=f"{what}: its organization's ID, a version 4 UUID.",
    )


def _limit(title: str, description: str) -> Param:
    return Param(
        None,
        type=["null", "integer"],
        minimum=1,
        title=title,
        description_md=f"{description} Empty: no limit.",
    )


def _documentation(direction: Direction, steps: tuple[Step, ...]) -> str:
    row = " → ".join(f"`{step}`" for step in steps)
    return (
        f"Moves a catalog from **{direction.source}** to **{direction.target}**.\n\n{row}\n\n"
        "Every step may be run again. The epoch alone decides who may write: a run that was fenced fails "
        "at once and says by whom. Nothing is the truth until the last write."
    )

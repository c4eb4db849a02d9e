"""The two DAGs as Airflow sees them: built from the plans, joined so that skipped steps are harmless."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hermit.migration.protocol import DOUBLE, SINGLE, Direction, Step

_ROOT = Path(__file__).resolve().parents[2]
_LOOK = """
import json, os
from airflow.dag_processing.dagbag import DagBag
bag = DagBag(dag_folder=os.environ["AIRFLOW__CORE__DAGS_FOLDER"])
print("RESULT" + json.dumps({
    "errors": {str(name): str(error) for name, error in bag.import_errors.items()},
    "dags": {dag.dag_id: {
        "after": {task.task_id: sorted(task.downstream_task_ids) for task in dag.tasks},
        "rules": {task.task_id: task.trigger_rule.value for task in dag.tasks},
        "params": sorted(dag.params),
        "schemas": {name: dag.params.get_param(name).schema for name in dag.params},
        "paused": dag.is_paused_upon_creation,
        "schedule": dag.schedule,
    } for dag in bag.dags.values()},
}))
"""

pytestmark = pytest.mark.airflow


def _look(home: Path, **environment: str) -> dict[str, Any]:
    result = subprocess.run(
        [sys.executable, "-c", _LOOK],
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            "AIRFLOW_HOME": str(home),
            "AIRFLOW__CORE__DAGS_FOLDER": str(_ROOT / "dags"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            **environment,
        },
    )
    lines = [line for line in result.stdout.splitlines() if line.startswith("RESULT")]
    assert lines, result.stderr[-2000:]
    return dict(json.loads(lines[0].removeprefix("RESULT")))


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return _look(tmp_path_factory.mktemp("airflow"))


def test_all_dags_load_without_errors(seen: dict[str, Any]) -> None:
    assert seen["errors"] == {}
    assert set(seen["dags"]) == {"migrate_catalog", "rollback_catalog", "maintain_catalog", "upgrade_check"}


@pytest.mark.parametrize("direction", list(Direction))
def test_the_steps_stand_in_the_order_of_the_plan(seen: dict[str, Any], direction: Direction) -> None:
    after = seen["dags"][f"{direction}_catalog"]["after"]
    steps = [step.value for step in SINGLE.plans[direction].steps]
    assert DOUBLE.plans[direction].steps == SINGLE.plans[direction].steps
    for earlier, later in zip(steps, [*steps[1:], "report"], strict=True):
        assert later in after[earlier]


@pytest.mark.parametrize("direction", list(Direction))
def test_the_branch_never_jumps_over_verify_and_joins_survive_what_it_skips(
    seen: dict[str, Any], direction: Direction
) -> None:
    dag = seen["dags"][f"{direction}_catalog"]
    steps = [step.value for step in SINGLE.plans[direction].steps]
    later = steps[steps.index(Step.CHECK_TOMBSTONE) + 1 :]
    entries = later[: later.index(Step.VERIFY) + 1]
    assert dag["after"]["check_tombstone"] == sorted([*entries, "nothing_to_do"])
    assert {dag["rules"][name] for name in [*later, "report"]} == {"none_failed_min_one_success"}


@pytest.mark.parametrize("direction", list(Direction))
def test_the_trigger_form_knows_what_may_be_given(seen: dict[str, Any], direction: Direction) -> None:
    dag = seen["dags"][f"{direction}_catalog"]
    assert dag["params"] == [
        "approve_cut_over",
        "dry_run",
        "max_parallelism",
        "max_rows_per_second",
        "organization_id",
        "protocol",
        "rows_per_partition",
    ]
    assert dag["schemas"]["max_parallelism"]["minimum"] == 1
    assert dag["schemas"]["protocol"]["enum"] == [None, "single", "double"]
    assert dag["schemas"]["organization_id"]["pattern"].startswith("^")
    assert (dag["paused"], dag["schedule"]) == (False, None)


def test_a_schedule_is_configurable_and_paused_at_first(tmp_path: Path) -> None:
    dags = _look(tmp_path, HERMIT_MIGRATE_SCHEDULE="@daily")["dags"]
    assert (dags["migrate_catalog"]["schedule"], dags["migrate_catalog"]["paused"]) == ("@daily", True)
    assert dags["rollback_catalog"]["schedule"] is None

"""Runs a DAG in this process, for when no Airflow is up, and tells what happens as JSON lines.

`python -m hermit_airflow.local_run DAG_ID CONF_JSON` writes to standard output, one object a line:
`{"task": …, "state": …}` as tasks start and end, and last `{"run": state, "report": …, "error": …}`.
Everything that Airflow and the tasks log goes to standard error.
"""

from __future__ import annotations

import json
import os
import sys
from typing import IO, Any

from airflow.listeners import hookimpl


class _Progress:
    """An Airflow listener that writes a line for every change of a task's state."""

    def __init__(self, output: IO[str]) -> None:
        self.output = output
        self.error: str | None = None

    def say(self, **event: Any) -> None:
        self.output.write(json.dumps(event, default=str) + "\n")
        self.output.flush()

    @hookimpl
    def on_task_instance_running(self, previous_state: Any, task_instance: Any) -> None:
        """A task starts."""
        self.say(task=task_instance.task_id, state="running")

    @hookimpl
    def on_task_instance_success(self, previous_state: Any, task_instance: Any) -> None:
        """A task is done."""
        self.say(task=task_instance.task_id, state="success")

    @hookimpl
    def on_task_instance_skipped(self, previous_state: Any, task_instance: Any) -> None:
        """A task skipped itself; those that a branch jumps over never start."""
        self.say(task=task_instance.task_id, state="skipped")

    @hookimpl
    def on_task_instance_failed(self, previous_state: Any, task_instance: Any, error: Any) -> None:
        """A task failed; whether it will be tried again, Airflow knows."""
        self.error = str(error).strip()
        self.say(task=task_instance.task_id, state="failed", error=self.error)


def main(dag_id: str, conf: str) -> int:
    """Run it and give the exit code."""
    events = os.fdopen(os.dup(1), "w")
    # Logs of tasks and of Spark go to standard error: standard output belongs to the events.
    os.dup2(2, 1)
    from airflow.dag_processing.dagbag import DagBag
    from airflow.sdk.listener import get_listener_manager

    progress = _Progress(events)
    bag = DagBag(dag_folder=os.environ["AIRFLOW__CORE__DAGS_FOLDER"])
    if dag_id not in bag.dags:
        progress.say(run="failed", error=f"no dag {dag_id!r}: {bag.import_errors}")
        return 1
    get_listener_manager().add_listener(progress)
    run = bag.dags[dag_id].test(run_conf=json.loads(conf))
    report = _report(run)
    progress.say(run=str(run.state), report=report, error=progress.error)
    return 0 if run.state == "success" else 1


def _report(run: Any) -> Any:
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session

    from hermit_airflow.dag_factory import REPORT

    query = XComModel.get_many(
        key="return_value", dag_ids=run.dag_id, run_id=run.run_id, task_ids=REPORT, limit=1
    )
    with create_session() as session:
        row = session.execute(query).scalars().first()
        return XComModel.deserialize_value(row) if row is not None else None


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

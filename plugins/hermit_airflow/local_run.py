"""Runs a DAG in this process, for when no Airflow is up, and tells what happens as JSON lines.

`python -m hermit_airflow.local_run DAG_ID CONF_JSON` writes to standard output, one object a line:
`{"task": …, "state": …}` as tasks start and end, and last `{"run": state, "report": …, "error": …}`.
Everything that Airflow and the tasks log goes to standard error.

`python -m hermit_airflow.local_run` without arguments runs one DAG after the other, each in a child that it
forks with Airflow already imported. It reads one object a line, `{"dag_id": …, "conf": …, "environment": …,
"log": …}`, and after the events of a run writes `{"ended": code}`, however the child ended. Before a fork
nothing starts a thread or opens a connection that a child would inherit.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, NoReturn

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
    output = _take_output()
    _speak_one_version()
    return _run(_dags(), dag_id, json.loads(conf), output)


def serve() -> int:
    """Run what standard input asks for, until it ends."""
    output = _take_output()
    _speak_one_version()
    dags = _dags()
    asyncio.run(_warm_up())
    for line in sys.stdin:
        request = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _child(dags, request, output)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        # Whatever Spark started ends with it.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        _Progress(output).say(ended=code)
    return 0


async def _warm_up() -> None:
    """What a run makes when it gets there, most of its time: modules, and an API that answers its tasks."""
    import airflow.sdk.execution_time.task_runner  # noqa: F401
    import httpx
    from airflow.sdk.execution_time.supervisor import in_process_api_server

    api = in_process_api_server()
    async with (
        api.app.router.lifespan_context(api.app),
        httpx.AsyncClient(transport=api.atransport, base_url="http://in-process") as client,
    ):
        await client.get("/health")


def _child(dags: Mapping[str, Any], request: Mapping[str, Any], output: IO[str]) -> NoReturn:
    code = 1
    try:
        os.setsid()
        os.environ.update(request["environment"])
        log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        code = _run(dags, request["dag_id"], request["conf"], output)
    finally:
        os._exit(code)


def _take_output() -> IO[str]:
    """Standard output, for events alone. Logs of tasks and of Spark go to standard error from here on."""
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return output


def _speak_one_version() -> None:
    """Have the API that answers tasks speak today's version alone.

    It runs in this process, as its tasks do, and nobody of an older Airflow will ever call it. Making what it
    would say to each of them takes a third of a run that finds nothing to do.
    """
    from airflow.api_fastapi.execution_api import versions
    from airflow.api_fastapi.execution_api.routes import execution_api_router as router
    from cadwyn import HeadVersion, Version, VersionBundle
    from cadwyn.route_generation import _DELETED_ROUTE_TAG as GONE

    versions.bundle = VersionBundle(HeadVersion(), Version(versions.bundle.versions[0].value))
    router.routes[:] = [route for route in router.routes if GONE not in getattr(route, "tags", ())]


def _dags() -> Mapping[str, Any]:
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(dag_folder=os.environ["AIRFLOW__CORE__DAGS_FOLDER"])
    if bag.import_errors:
        print(bag.import_errors, file=sys.stderr)
    return dict(bag.dags)


def _run(dags: Mapping[str, Any], dag_id: str, conf: Mapping[str, Any], output: IO[str]) -> int:
    from airflow.sdk.listener import get_listener_manager

    progress = _Progress(output)
    if dag_id not in dags:
        progress.say(run="failed", error=f"no dag {dag_id!r} could be read; the log says why")
        return 1
    get_listener_manager().add_listener(progress)
    _enter(dag_id)
    run = dags[dag_id].test(run_conf=conf)
    report = _report(run)
    progress.say(run=str(run.state), report=report, error=progress.error)
    return 0 if run.state == "success" else 1


def _enter(dag_id: str) -> None:
    """Have Airflow's database know the DAG: of first runs at once, one enters it and the others wait."""
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.dag_processing.dagbag import BundleDagBag, sync_bag_to_db
    from airflow.models.dag import DagModel

    with (Path(os.environ["AIRFLOW_HOME"]) / "dags.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if DagModel.get_current(dag_id) is not None:
            return
        bundles = DagBundlesManager()
        bundles.sync_bundles_to_db()
        for bundle in bundles.get_all_dag_bundles():
            bundle.initialize()
            bag = BundleDagBag(dag_folder=bundle.path, bundle_path=bundle.path, bundle_name=bundle.name)
            sync_bag_to_db(bag, bundle.name, bundle.version)


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
    sys.exit(main(*sys.argv[1:]) if sys.argv[1:] else serve())

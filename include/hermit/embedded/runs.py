"""Starts a DAG run and follows it: on the Airflow that is up, or, when none is, in a process of its own.

Both ways yield the same events, one per change of a task's state, and end with the run's outcome.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeAlias

from hermit.embedded import airflow, metadata, services
from hermit.errors import Unavailable
from hermit.settings import Settings

_POLL_S = 0.5
_ENDED = {"success", "failed"}
# How long a busy machine may take to answer, and how often it is asked.
_ANSWER_S = 30.0
_ATTEMPTS = 5
_TOKEN = "/auth/token"  # noqa: S105


@dataclass(frozen=True)
class TaskEvent:
    """A task of the run changed its state."""

    task: str
    state: str
    error: str | None = None


@dataclass(frozen=True)
class Outcome:
    """How the run ended. `where` is what to look at when it failed."""

    state: str
    report: Mapping[str, Any] | None
    error: str | None
    where: str


Events: TypeAlias = Iterator[TaskEvent | Outcome]


def follow(settings: Settings, dag_id: str, conf: Mapping[str, Any]) -> Events:
    """Run the DAG. The last event is the outcome."""
    running = services.running(settings)
    if running is not None:
        return _on_running_airflow(settings, running.url, dag_id, conf)
    return follow_in_own_process(settings, dag_id, conf)


def follow_in_own_process(settings: Settings, dag_id: str, conf: Mapping[str, Any]) -> Events:
    """Run the DAG in a process of its own, whether or not an Airflow is up."""
    log = airflow.home(settings) / "logs" / f"{dag_id}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with metadata.running(settings) as database, log.open("w") as output:
        process = _start_local_run(settings, database.hold, output, dag_id, json.dumps(conf))
        try:
            for event in _read_events(process, str(log)):
                if not isinstance(event, Ended):
                    yield event
                if isinstance(event, Outcome):
                    return
            yield _died(process.wait(), str(log))
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@contextlib.contextmanager
def local_runs(settings: Settings, name: str) -> Iterator[LocalRuns]:
    """For many runs: Airflow is imported once for all of them."""
    log = airflow.home(settings) / "logs" / f"{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with metadata.running(settings) as database, log.open("w") as output:
        process = _start_local_run(settings, database.hold, output)
        try:
            yield LocalRuns(process, log)
        finally:
            # It ends when nobody can ask any more.
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
            process.wait()


class LocalRuns:
    """Runs DAGs one after the other, each in a process of its own."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self._process = process
        self.log = log

    def run(self, dag_id: str, conf: Mapping[str, Any], environment: Mapping[str, str]) -> Outcome:
        """Run the DAG to its end, whatever that is."""
        request = {"dag_id": dag_id, "conf": conf, "environment": environment, "log": str(self.log)}
        print(json.dumps(request), file=self._process.stdin, flush=True)
        found: Outcome | None = None
        for event in _read_events(self._process, str(self.log)):
            if isinstance(event, Ended):
                return found or _died(event.code, str(self.log))
            if isinstance(event, Outcome):
                found = event
        raise Unavailable("the process that runs DAGs ended", hint=f"see {self.log}")


@dataclass(frozen=True)
class Ended:
    """The process of a run ended."""

    code: int


def _start_local_run(
    settings: Settings, hold: Sequence[int], output: IO[str], *arguments: str
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "hermit_airflow.local_run", *arguments],
        pass_fds=hold,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=output,
        env=services.marked(settings, airflow.environment(settings)),
        text=True,
        # A group of its own, so that whatever Spark started ends with it.
        start_new_session=True,
    )


def _read_events(process: subprocess.Popen[str], log: str) -> Iterator[TaskEvent | Outcome | Ended]:
    for line in process.stdout or ():
        event = json.loads(line)
        if "ended" in event:
            yield Ended(event["ended"])
        elif "run" in event:
            yield Outcome(event["run"], event.get("report"), event.get("error"), log)
        else:
            yield TaskEvent(event["task"], event["state"], event.get("error"))


def _died(code: int, log: str) -> Outcome:
    return Outcome("failed", None, f"the run's process ended with code {code}", log)


def _on_running_airflow(settings: Settings, url: str, dag_id: str, conf: Mapping[str, Any]) -> Events:
    api = AirflowApi(url, airflow.USER, airflow.password(settings))
    run_id = api.trigger(dag_id, conf)
    seen: dict[str, str] = {}
    while True:
        # The state is read before the tasks: when the run has ended, no change of a task is missed.
        state = api.run_state(dag_id, run_id)
        for task, task_state in api.task_states(dag_id, run_id):
            if task_state and seen.get(task) != task_state:
                seen[task] = task_state
                yield TaskEvent(task, task_state)
        if state in _ENDED:
            break
        time.sleep(_POLL_S)
    failed = next((task for task, task_state in seen.items() if task_state == "failed"), None)
    yield Outcome(
        state=state,
        report=api.xcom(dag_id, run_id, "report") if state == "success" else None,
        error=f"task {failed} failed" if failed else None,
        where=f"{url}/dags/{dag_id}/runs/{run_id}",
    )


class AirflowApi:
    """The few calls of Airflow's REST interface that following a run takes.

    An answer that is late says nothing about the run, so that whatever only asks is asked again. What starts
    something is not: it may have begun.
    """

    def __init__(self, url: str, user: str, password: str, *, answer_s: float = _ANSWER_S) -> None:
        self._url = url
        self._answer_s = answer_s
        self._token: str | None = None
        self._token = self.call("POST", _TOKEN, {"username": user, "password": password})["access_token"]

    def trigger(self, dag_id: str, conf: Mapping[str, Any]) -> str:
        """Start a run and give its ID."""
        if self.call("GET", f"/api/v2/dags/{dag_id}")["is_paused"]:
            raise Unavailable(
                f"{dag_id} is paused in this Airflow", hint="unpause it in the UI, then try again"
            )
        body = {"logical_date": None, "conf": dict(conf)}
        return str(self.call("POST", f"/api/v2/dags/{dag_id}/dagRuns", body)["dag_run_id"])

    def dags(self) -> set[str]:
        """The DAGs of ours that Airflow has read."""
        found = self.call("GET", "/api/v2/dags?tags=hermit&limit=100")["dags"]
        return {str(dag["dag_id"]) for dag in found}

    def run_state(self, dag_id: str, run_id: str) -> str:
        return str(self.call("GET", f"/api/v2/dags/{dag_id}/dagRuns/{_quote(run_id)}")["state"])

    def task_states(self, dag_id: str, run_id: str) -> list[tuple[str, str | None]]:
        """Every task of a run with its state, in the order in which they started."""
        path = f"/api/v2/dags/{dag_id}/dagRuns/{_quote(run_id)}/taskInstances"
        instances = self.call("GET", path)["task_instances"]
        instances.sort(key=lambda instance: instance["start_date"] or "9")
        return [(instance["task_id"], instance["state"]) for instance in instances]

    def xcom(self, dag_id: str, run_id: str, task: str) -> Any:
        """What a task returned."""
        path = f"/api/v2/dags/{dag_id}/dagRuns/{_quote(run_id)}/taskInstances/{task}"
        return self.call("GET", f"{path}/xcomEntries/return_value?deserialize=false&stringify=false")["value"]

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """One request; what it answers, or `Unavailable` with what Airflow said."""
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(f"{self._url}{path}", data, headers, method=method)  # noqa: S310
        attempts = _ATTEMPTS if method == "GET" or path == _TOKEN else 1
        while True:
            attempts -= 1
            try:
                with urllib.request.urlopen(request, timeout=self._answer_s) as response:  # noqa: S310
                    return json.load(response)
            except urllib.error.HTTPError as error:
                raise Unavailable(
                    f"airflow refused {method} {path}: {_detail(error)}", status=error.code
                ) from error
            except OSError as error:
                if not attempts or not _is_late(error):
                    raise Unavailable(f"airflow does not answer at {self._url}: {error}") from error


def _is_late(error: OSError) -> bool:
    return isinstance(getattr(error, "reason", error), TimeoutError)


def _detail(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.load(error).get("detail", error.reason))
    except ValueError:
        return str(error.reason)


def _quote(text: str) -> str:
    from urllib.parse import quote

    return quote(text, safe="")

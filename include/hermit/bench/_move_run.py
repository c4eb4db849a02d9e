"""Whole processes for `hermit bench move`: the memory of a staging job, and a run of the demo catalog."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from hermit import settings as settings_module
from hermit.bench import Bar
from hermit.bench._move_catalog import Case, move_of
from hermit.embedded import airflow, metadata, spark
from hermit.errors import Unavailable
from hermit.formats.generate import rows
from hermit.migration import steps
from hermit.migration.job import STASH_URL_VARIABLE
from hermit.migration.load import load_rows
from hermit.migration.stores import connect

_SAMPLE_S = 0.1
_DEMO_OBJECTS = 1_000
_EMPTY_DAG = """
from airflow.sdk import DAG, BaseOperator, chain

class Nothing(BaseOperator):
    def execute(self, context):
        return None

with DAG("nothing", schedule=None) as dag:
    chain(*[Nothing(task_id=f"task_{{n}}") for n in range({tasks})])
"""
_SESSION = "from pyspark.sql import SparkSession\nSparkSession.builder.getOrCreate()\n"


def peak_bytes(case: Case, direction: str) -> int:
    """The most that a staging job holds at once: the JVM, the driver and the workers, pages counted once."""
    case.put_in_place()
    request = steps.request(case.stores, move_of(case.stores, direction), case.fencing, f"{direction}_memory")
    command = _submit(settings_module.load().root / "spark_jobs" / "stage_snapshot.py", json.dumps(request))
    environment = {**os.environ, **spark.environment(), STASH_URL_VARIABLE: case.stores.stash_url}
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    peak = _Peak(process.pid)
    output, _ = process.communicate()
    peak.stop()
    if process.returncode != 0:
        raise Unavailable(f"the staging job failed: {output[-2000:]}")
    return peak.bytes


class _Peak:
    """Watches a process and all its descendants."""

    def __init__(self, pid: int) -> None:
        self.bytes = 0
        self._root = psutil.Process(pid)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(_SAMPLE_S):
            with suppress(psutil.Error):
                family = [self._root, *self._root.children(recursive=True)]
                self.bytes = max(self.bytes, sum(_proportional_bytes(process.pid) for process in family))


def _proportional_bytes(pid: int) -> int:
    """A page that several processes share counts once in their sum."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def bar(workdir: Path) -> Bar:
    """The demo catalog through Airflow, to one start of the JVM and as many tasks that do nothing."""
    home = workdir / "demo"
    settings = settings_module.load(environ={**os.environ, "HERMIT_HOME": str(home)})
    settings_module.ensure_home(home)
    with settings_module.running_stores(settings), metadata.running(settings):
        stores = connect(settings.stash_url, settings.shards, settings.organization_id)
        load_rows(stores, rows(_DEMO_OBJECTS, 1))
        environment = airflow.environment(settings)
        conf = {"organization_id": str(settings.organization_id)}
        ours, events = _dag_run(environment, "migrate_catalog", conf)
        tasks = sum(event.get("state") == "running" for event in events)
        folder = workdir / "dags"
        folder.mkdir()
        (folder / "nothing.py").write_text(_EMPTY_DAG.format(tasks=tasks))
        empty, _ = _dag_run({**environment, "AIRFLOW__CORE__DAGS_FOLDER": str(folder)}, "nothing", {})
        script = workdir / "session.py"
        script.write_text(_SESSION)
        start = _timed_call(_submit(script), environment)
    _tell(f"demo catalog: {ours:.1f} s; one JVM start {start:.1f} s, {tasks} empty tasks {empty:.1f} s")
    _tell("where it goes: " + ", ".join(f"{name} {seconds:.1f} s" for name, seconds in _spans(events)))
    name = f"the demo catalog through Airflow, to one JVM start and {tasks} empty tasks"
    return Bar(name, ours / (start + empty), 1.3)


def _dag_run(
    environment: dict[str, str], dag_id: str, conf: dict[str, Any]
) -> tuple[float, list[dict[str, Any]]]:
    """Seconds of a run in a process of its own, and what it told, each with the time."""
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "hermit_airflow.local_run", dag_id, json.dumps(conf)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    events = [{**json.loads(line), "at": time.perf_counter() - start} for line in process.stdout or ()]
    if process.wait() != 0:
        raise Unavailable(f"the run of {dag_id} failed: {events[-1:]}")
    return time.perf_counter() - start, events


def _spans(events: list[dict[str, Any]]) -> list[tuple[str, float]]:
    began = {event["task"]: event["at"] for event in events if event.get("state") == "running"}
    spans = [
        (event["task"], event["at"] - began[event["task"]])
        for event in events
        if event.get("state") == "success" and event["task"] in began
    ]
    first = min(began.values(), default=0.0)
    inside = sum(seconds for _, seconds in spans)
    total = events[-1]["at"] if events else 0.0
    return [("before the first task", first), *spans, ("between tasks", total - first - inside)]


def _submit(script: Path, *arguments: str) -> list[str]:
    command = ["spark-submit", "--master", "local[*]"]
    for name, value in spark.conf().items():
        command += ["--conf", f"{name}={value}"]
    return [*command, str(script), *arguments]


def _timed_call(command: list[str], environment: dict[str, str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, env=environment, check=True, capture_output=True)
    return time.perf_counter() - start


def _tell(line: str) -> None:
    print(f"hermit: {line}", file=sys.stderr, flush=True)

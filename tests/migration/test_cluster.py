"""The staging job, unchanged, on a real cluster: a master and two workers of the pyspark package."""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import psutil
import pytest

from hermit.embedded import spark
from hermit.formats.generate import rows
from hermit.migration import progress, steps, throttle
from hermit.migration.job import STASH_URL_VARIABLE
from hermit.migration.load import load_rows
from hermit.migration.move import Limits
from hermit.migration.protocol import Direction
from hermit.migration.shelf import Shelf
from hermit.migration.stores import Stores
from tests.migration.driver import move, stores_for, truth
from tests.migration.test_staging import Job
from tests.processes import is_running, words_of

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1200)]

MIGRATE, ROLLBACK = Direction.MIGRATE, Direction.ROLLBACK
PASSWORD = "correct-horse-battery-staple"
SCRIPT = Path(__file__).parents[2] / "spark_jobs" / "stage_snapshot.py"
# As for our own jobs: none of these processes lives long enough to gain by being compiled well.
JAVA_OPTIONS = spark.conf()["spark.driver.extraJavaOptions"]
LIMITS = Limits(rows_per_partition=60, max_rows_per_second=200)


def wait_for(condition: Callable[[], bool], what: str, seconds: float = 300) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.1)


def said(log: Path, pattern: str) -> list[str]:
    """What Spark wrote to a log where the pattern has its group."""
    return re.findall(pattern, log.read_text())


@dataclass
class Cluster:
    """Where the master is, who works for it, and where everything that they wrote is."""

    master: str
    workers: list[subprocess.Popen[bytes]]
    home: Path

    def python_workers(self) -> list[psutil.Process]:
        """What the partitions run in, by executor."""
        return [
            child
            for executor in self.executors()
            for child in executor.children(recursive=True)
            if is_running(child, "pyspark.daemon") and not child.children()
        ]

    def executors(self) -> list[psutil.Process]:
        return [
            child
            for worker in self.workers
            for child in psutil.Process(worker.pid).children(recursive=True)
            if is_running(child, "CoarseGrainedExecutorBackend")
        ]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    home = tmp_path_factory.mktemp("cluster")
    environment = {
        **os.environ,
        **spark.environment(),
        "SPARK_DAEMON_MEMORY": "128m",
        "SPARK_DAEMON_JAVA_OPTS": JAVA_OPTIONS,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    started: list[subprocess.Popen[bytes]] = []

    def start(name: str, kind: str, *arguments: str) -> Path:
        command = ["spark-class", f"org.apache.spark.deploy.{kind}", "--webui-port", "0", *arguments]
        path = home / f"{name}.log"
        with path.open("w") as log:
            process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=home)
        started.append(process)
        return path

    try:
        log = start("master", "master.Master", "--host", "127.0.0.1", "--port", "0")
        wait_for(lambda: "New state: ALIVE" in log.read_text(), "the master")
        (master,) = said(log, r"Starting Spark master at (\S+)")
        for number in (1, 2):
            options = ["--cores", "1", "--memory", "512M", "-d", str(home / f"worker_{number}")]
            start(f"worker_{number}", "worker.Worker", *options, master)
        wait_for(lambda: len(said(log, "Registering worker")) == 2, "both workers")
        yield Cluster(master, started[1:], home)
    finally:
        for process in reversed(started):
            process.kill()
            process.wait()


@pytest.fixture
def stores(database_url: str, tmp_path: Path, organization_id: UUID) -> Stores:
    url = database_url.replace("hermit@", f"hermit:{PASSWORD}@", 1)
    assert PASSWORD in url
    stores = stores_for(url, str(tmp_path / "shards"), organization_id)
    load_rows(stores, rows(300, 7))
    return stores


class Submitted:
    """A staging job on the cluster, from spark-submit to its end."""

    def __init__(self, cluster: Cluster, job: Job, **more: str) -> None:
        self.cluster, self.job = cluster, job
        request = {**steps.request(job.stores, job.move, job.fencing, job.batch), **LIMITS.to_json()}
        conf = {
            **spark.conf(),
            "spark.executor.memory": "480m",
            "spark.executor.extraJavaOptions": JAVA_OPTIONS,
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": cluster.home.as_uri(),
            "spark.ui.enabled": "true",
            "spark.ui.port": "0",
            "spark.log.level": "INFO",
            **more,
        }
        command = ["spark-submit", "--master", cluster.master]
        for name, value in conf.items():
            command += ["--conf", f"{name}={value}"]
        self.log = cluster.home / f"{job.batch}.log"
        environment = {**os.environ, **spark.environment(), "SPARK_LOCAL_IP": "127.0.0.1"}
        environment[STASH_URL_VARIABLE] = job.stores.stash_url
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [*command, str(SCRIPT), json.dumps(request)], env=environment, stdout=log, stderr=log
            )

    def progress(self) -> progress.Progress | None:
        assert self.process.poll() is None, self.log.read_text()[-3000:]
        return progress.read(self.job.stores.location, self.job.batch)

    def is_under_way(self) -> bool:
        found = self.progress()
        return found is not None and found.rows_done > 0

    @property
    def page(self) -> str:
        (port,) = said(self.log, r"service 'SparkUI' on port (\d+)")
        return f"http://127.0.0.1:{port}"

    def let_go(self) -> None:
        throttle.change(Shelf(self.job.stores.location), self.job.batch, max_rows_per_second=None)

    def wait(self) -> None:
        assert self.process.wait(600) == 0, self.log.read_text()[-3000:]


@pytest.fixture
def seen_in_ps() -> Iterator[list[str]]:
    """Command lines of any process that ever held the password."""
    found: list[str] = []
    stop = threading.Event()

    def look() -> None:
        while not stop.wait(0.2):
            for process in psutil.process_iter():
                found.extend(word for word in words_of(process) if PASSWORD in word)

    thread = threading.Thread(target=look)
    thread.start()
    yield found
    stop.set()
    thread.join()


def test_the_job_runs_on_a_cluster_survives_a_dead_executor_and_shows_no_password(
    stores: Stores, cluster: Cluster, seen_in_ps: list[str]
) -> None:
    before = truth(stores)[1]
    for direction in (MIGRATE, ROLLBACK):
        job = Job(stores, direction)
        submitted = Submitted(cluster, job)
        wait_for(submitted.is_under_way, "the first rows")
        with urllib.request.urlopen(f"{submitted.page}/environment/", timeout=30) as response:
            assert PASSWORD not in response.read().decode()
        victim, *_ = cluster.executors()
        victim.kill()
        submitted.let_go()
        submitted.wait()
        manifest = steps.staged(stores, job.batch)
        assert manifest.rows == before.rows
        assert "progress: " in submitted.log.read_text()
        job.finish()
        assert truth(stores) == (direction.target.value, before)
    assert seen_in_ps == []
    written = [path for path in cluster.home.rglob("*") if path.is_file()]
    assert any(path.name.startswith(("app-", "events_")) for path in written)
    assert any(path.name == "stderr" for path in written)
    assert [path.name for path in written if PASSWORD.encode() in path.read_bytes()] == []


SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.minTaskRuntime": "1s",
}


@pytest.mark.parametrize("direction", [MIGRATE, ROLLBACK])
def test_a_task_that_runs_twice_at_the_same_time_leaves_no_double_rows(
    stores: Stores, cluster: Cluster, direction: Direction
) -> None:
    if direction is ROLLBACK:
        move(stores, MIGRATE)
    before = truth(stores)[1]
    job = Job(stores, direction)
    submitted = Submitted(cluster, job, **SPECULATION)
    wait_for(submitted.is_under_way, "the first rows")
    stalled, *_ = cluster.python_workers()
    stalled.suspend()
    submitted.let_go()
    wait_for(lambda: "speculative" in submitted.log.read_text(), "a second attempt beside the stalled one")
    stalled.resume()
    submitted.wait()
    assert steps.staged(stores, job.batch).rows == before.rows
    job.finish()
    assert truth(stores) == (direction.target.value, before)

"""The topology of docker-compose.yaml as processes: all of them real, and a catalog moves through each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from hermit.embedded.runs import AirflowApi
from hermit.errors import Unavailable
from hermit.formats.generate import rows
from hermit.identity import parse_organization_id
from hermit.migration.load import load_rows
from hermit.migration.status import status
from hermit.migration.stores import connect
from tests.deploy.topology import Topology

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

_DAG = "migrate_catalog"
# A catalog of one small part would be staged in the driver, without the cluster.
_SMALL_PARTS = {"rows_per_partition": 160}


@pytest.fixture
def topology(tmp_path: Path) -> Iterator[Topology]:
    topology = Topology(tmp_path / "hermit")
    yield topology
    topology.end()


def test_a_catalog_moves_through_every_service_of_the_compose_file(topology: Topology) -> None:
    topology.start_airflow_db()
    topology.start("init", "spark-master", "spark-worker-1", "spark-worker-2")
    topology.start_stash()
    stores = connect(_stash_url(topology), str(topology.home / "shards"), _organization(topology))
    load_rows(stores, rows(300, seed=7))
    topology.finish("init")
    topology.start("api-server", "scheduler", "dag-processor", "triggerer", "worker")
    topology.wait_for("a healthy airflow", lambda: _is_healthy(topology))
    topology.wait_for("two spark workers", lambda: _workers(topology) == 2)

    api = AirflowApi(
        f"http://127.0.0.1:{topology.ports['api']}", "admin", topology.values["AIRFLOW_ADMIN_PASSWORD"]
    )
    runs: list[str] = []
    topology.wait_for("the dag", lambda: _trigger(api, runs))
    topology.wait_for("the end of the run", lambda: _has_ended(api, runs[0]))
    assert api.run_state(_DAG, runs[0]) == "success", api.task_states(_DAG, runs[0])

    found = status(stores)
    assert (found["source_of_truth"], found["stash"]["tombstone"]) == ("persist", True)
    assert found["persist"]["digest"] == found["stash"]["digest"]
    _assert_that_each_part_did_its_duty(topology)


def _assert_that_each_part_did_its_duty(topology: Topology) -> None:
    def completed() -> list[str]:
        master = topology.get("master-ui", "/json/") or {}
        return [app["name"] for app in master.get("completedapps", ())]

    topology.wait_for("the end of the job", lambda: completed() == ["hermit-migrate"])
    for worse in ({"sslrootcert": "system"}, {"password": "wrong"}):
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(make_conninfo(_stash_url(topology), **worse))
    password = topology.values["AIRFLOW_DB_PASSWORD"]
    url = f"postgresql://airflow:{password}@127.0.0.1:{topology.ports['airflow-db']}/airflow"
    with psycopg.connect(url, autocommit=True) as connection:
        # The last task has told Airflow that it is done before it tells Celery. What a worker could not
        # begin, on a machine that is too busy, Celery calls a failure; Airflow has tried it again.
        topology.wait_for("the end of all tasks", lambda: not connection.execute(_UNSUNG).fetchall())


# Tasks that a worker ran, more of them than Celery calls done.
_UNSUNG = """
select count(*) from task_instance where state = 'success' and hostname <> ''
having count(*) = 0 or count(*) > (select count(*) from celery_taskmeta where status = 'SUCCESS')
"""


def _stash_url(topology: Topology) -> str:
    given = topology.stash
    return make_conninfo(
        "",
        host=given["host"],
        port=given["port"],
        dbname=given["schema"],
        user=given["login"],
        password=given["password"],
        **given["extra"],
    )


def _organization(topology: Topology) -> Any:
    return parse_organization_id(topology.values["HERMIT_ORGANIZATION_ID"])


def _is_healthy(topology: Topology) -> bool:
    health = topology.get("api", "/api/v2/monitor/health")
    return health is not None and all(part["status"] == "healthy" for part in health.values())


def _workers(topology: Topology) -> int:
    seen = topology.get("master-ui", "/json/")
    return int(seen["aliveworkers"]) if seen else 0


def _has_ended(api: AirflowApi, run: str) -> bool:
    """Whether the run is over; a busy machine may be too slow to say so."""
    try:
        return api.run_state(_DAG, run) in ("success", "failed")
    except Unavailable:
        return False


def _trigger(api: AirflowApi, runs: list[str]) -> bool:
    """Start the run as soon as the DAG has been read."""
    try:
        runs.append(api.trigger(_DAG, _SMALL_PARTS))
    except Unavailable as error:
        if error.facts.get("status") != 404:
            raise
        return False
    return True

"""What happens to a move when something dies in the middle of it: after the retry all is right.

A small catalog and the fault that leaves most behind, a killed scheduler. `HERMIT_TEST_FAULT_OBJECTS` sets
the size of the catalog, the specification says a million, and has every fault happen.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from typing import Any

import psutil
import pytest

from hermit.digest import combine
from hermit.embedded import services
from hermit.embedded.postgres import EmbeddedPostgres
from hermit.migration import progress
from hermit.migration.protocol import Direction
from tests.airflow.machine import Machine, wait_for
from tests.processes import above, is_running

pytestmark = [pytest.mark.slow, pytest.mark.airflow, pytest.mark.timeout(3000)]

_ALL = "HERMIT_TEST_FAULT_OBJECTS" in os.environ
_OBJECTS = int(os.environ.get("HERMIT_TEST_FAULT_OBJECTS", "4000"))
# So long that nothing is over before it is hit.
_STAGING_S = 15 if _OBJECTS < 100_000 else 90


@pytest.fixture(scope="module")
def catalog(machine: Machine) -> str:
    organization_id = str(uuid.uuid4())
    machine.must("generate", "--objects", str(_OBJECTS), "--organization-id", organization_id)
    return organization_id


def staging_processes(machine: Machine) -> list[psutil.Process]:
    """The staging job: spark-submit, its JVM, its Python driver and workers."""
    found = []
    for process in services.processes(machine.settings()):
        with contextlib.suppress(psutil.Error):
            if is_running(process, "stage_snapshot"):
                found += [process, *process.children(recursive=True)]
    return list(dict.fromkeys(found))


def kill(processes: list[psutil.Process]) -> None:
    assert processes
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def kill_python_worker(machine: Machine) -> None:
    """What Spark runs the partitions in."""
    kill([one for one in staging_processes(machine) if is_running(one, "pyspark.daemon")])


def kill_worker(machine: Machine) -> None:
    """The task, the job that it submitted, everything."""
    job = staging_processes(machine)
    parents = {parent for one in job for parent in above(one)}
    workers = [one for one in parents if is_running(one, "LocalExecutor")]
    kill([*workers, *job])


def restart_postgres(machine: Machine) -> None:
    server = EmbeddedPostgres(machine.home / "postgres")
    server.stop()
    server.start()
    server.release(keep_running=True)


def kill_scheduler(machine: Machine) -> None:
    """And start everything anew, as whoever is on call would."""
    running = services.running(machine.settings())
    assert running is not None
    scheduler = psutil.Process(running.pids["scheduler"][0])
    workers = scheduler.children(recursive=True)
    kill([scheduler])
    machine.must("up")
    # What a dead scheduler leaves behind holds its locks on the runs: nobody would ever schedule them.
    assert [one for one in workers if one.is_running()] == []


def facts(machine: Machine, organization_id: str) -> tuple[str, Any]:
    stores = machine.stores(organization_id)
    truth = stores.state().truth.store.value
    with {"stash": stores.stash, "persist": stores.persist}[truth].inspect() as view:
        return truth, combine(view.digests().values())


_FAULTS = [
    (Direction.MIGRATE, kill_scheduler),
    (Direction.ROLLBACK, kill_worker),
    (Direction.MIGRATE, restart_postgres),
    (Direction.ROLLBACK, kill_python_worker),
]


@pytest.mark.parametrize(("direction", "fault"), _FAULTS if _ALL else _FAULTS[:1])
def test_a_fault_in_the_middle_of_a_move_is_over_after_the_retry(
    machine: Machine, catalog: str, direction: Direction, fault: Any
) -> None:
    if facts(machine, catalog)[0] != direction.source.value:
        (other,) = set(Direction) - {direction}
        machine.must(other, *of(catalog))
    _, digest = facts(machine, catalog)
    dag, location = f"{direction}_catalog", machine.stores(catalog).location
    # Some partitions, so that even a small catalog is staged by Spark's workers.
    limits = {"rows_per_partition": digest.rows // 6, "max_rows_per_second": digest.rows // _STAGING_S}
    conf = {"organization_id": catalog, **limits}
    run = machine.api().trigger(dag, conf)

    def half_way() -> bool | None:
        return any(one.rows_done > 0 for one in progress.running(location)) or None

    wait_for(half_way)
    assert machine.stores(catalog).state().truth.store is direction.source
    fault(machine)
    api = machine.api()
    state = wait_for(lambda: found if (found := api.run_state(dag, run)) in ("success", "failed") else None)
    assert facts(machine, catalog)[1] == digest
    if state == "failed":
        machine.must(direction, *of(catalog))
    assert facts(machine, catalog) == (direction.target.value, digest)


def of(organization_id: str) -> tuple[str, str]:
    return ("--organization-id", organization_id)

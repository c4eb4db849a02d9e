"""One running Airflow for all tests that need one: it takes the better part of a minute to start."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.airflow.machine import Machine

# What takes long without telling much more than the other tests; it has to be asked for.
collect_ignore = [] if "HERMIT_TEST_FAULT_OBJECTS" in os.environ else ["test_full_disk.py"]


@pytest.fixture(scope="session")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """An Airflow whose migrations have a schedule, as backfills need."""
    machine = Machine(tmp_path_factory.mktemp("running") / "home", HERMIT_MIGRATE_SCHEDULE="@daily")
    with machine.is_up():
        # The scheduler's own first run is for this machine's own catalog, which no test uses.
        machine.api().call("PATCH", "/api/v2/dags/migrate_catalog", {"is_paused": False})
        yield machine

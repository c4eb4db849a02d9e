"""A real Airflow, with its scheduler and API: approvals, backfills, assets and maintenance."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections import Counter
from typing import Any
from urllib.parse import quote

import psutil
import pytest

from hermit.embedded import services
from hermit.embedded.postgres import EmbeddedPostgres
from hermit.embedded.runs import AirflowApi
from hermit.migration.history import History
from tests.airflow.machine import Machine, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.airflow, pytest.mark.timeout(1800)]

# The specification says ten; each costs half a minute of both cores.
_BACKFILL_DAYS = int(os.environ.get("HERMIT_TEST_BACKFILL_DAYS", "2"))


@pytest.fixture
def catalog(machine: Machine) -> str:
    """A catalog of its own, in the stash."""
    organization_id = str(uuid.uuid4())
    machine.must("generate", "--objects", "50", "--organization-id", organization_id)
    return organization_id


def finished(api: AirflowApi, dag_id: str, run_id: str) -> str:
    def look() -> str | None:
        state = api.run_state(dag_id, run_id)
        return state if state in ("success", "failed") else None

    return wait_for(look)


def decide(api: AirflowApi, run_id: str, option: str) -> dict[str, Any]:
    """Answer the run as often as it asks, until it has ended; give what it asked.

    Airflow asks again when the answer came before it had put the task that asked away.
    """
    asked: dict[str, Any] = {}

    def look() -> dict[str, Any] | None:
        if api.call("GET", gate(run_id))["state"] == "awaiting_input":
            asked.update(api.call("GET", f"{gate(run_id)}/-1/hitlDetails"))
            if not asked["response_received"]:
                answer(api, run_id, option)
        return asked if has_ended(api, run_id) else None

    return wait_for(look)


def gate(run_id: str) -> str:
    return f"/api/v2/dags/migrate_catalog/dagRuns/{quote(run_id)}/taskInstances/approve"


def answer(api: AirflowApi, run_id: str, option: str) -> None:
    api.call("PATCH", f"{gate(run_id)}/-1/hitlDetails", {"chosen_options": [option], "params_input": {}})


def has_ended(api: AirflowApi, run_id: str) -> bool:
    return api.run_state("migrate_catalog", run_id) in ("success", "failed")


def approve_too_early(machine: Machine, api: AirflowApi, run_id: str, times: int) -> None:
    """Answer while the scheduler does not yet know that the task waits; it then takes the task for lost."""
    running = services.running(machine.settings())
    assert running is not None
    scheduler = psutil.Process(running.pids["scheduler"][0])
    for number in range(1, times + 1):

        def asks(number: int = number) -> bool | None:
            task = api.call("GET", gate(run_id))
            tries = (task["state"] in ("running", "awaiting_input"), task["try_number"] >= number)
            return True if all(tries) or has_ended(api, run_id) else None

        wait_for(asks, every_s=0.05)
        if has_ended(api, run_id):
            return
        scheduler.suspend()
        try:
            wait_for(lambda: api.call("GET", gate(run_id))["state"] == "awaiting_input" or None, every_s=0.05)
            time.sleep(2)  # until the process that asked has gone, which nothing tells
            answer(api, run_id, "Approve")
        finally:
            scheduler.resume()


def test_a_rejected_cut_over_leaves_the_truth_and_an_approved_one_moves_it(
    machine: Machine, catalog: str
) -> None:
    api, stores = machine.api(), machine.stores(catalog)
    conf = {"organization_id": catalog, "approve_cut_over": True}
    rejected = api.trigger("migrate_catalog", conf)
    asked = decide(api, rejected, "Reject")
    assert "| items | " in asked["body"]
    assert catalog in asked["subject"]
    assert outcome(api, rejected, api.run_state("migrate_catalog", rejected)) == "rejected"
    report = api.xcom("migrate_catalog", rejected, "report")
    assert report["source_of_truth"] == "stash"
    assert stores.stash.tombstone() is None

    approved = api.trigger("migrate_catalog", conf)
    approve_too_early(machine, api, approved, times=4)
    decide(api, approved, "Approve")
    assert outcome(api, approved, api.run_state("migrate_catalog", approved)) == "moved"
    report = api.xcom("migrate_catalog", approved, "report")
    assert report["source_of_truth"] == "persist"
    assert report["approval"]["by"] == "admin"
    assert report["decision"]["next"] == "verify"
    assert [one["outcome"] for one in History(stores.location).list()] == ["moved", "rejected"]
    assert all(
        step["seconds"] is not None for step in report["steps"] if step["step"] not in ("snapshot", "replace")
    )

    (event,) = asset_events(api, catalog)
    assert event["extra"]["source_of_truth"] == "persist"
    assert event["extra"]["digest"] == report["staged"]["digest"]
    assert event["extra"]["epochs"]["persist"] == report["epochs"]["persist"]["after"]


def asset_events(api: AirflowApi, organization_id: str) -> list[dict[str, Any]]:
    """What was published about a catalog."""
    path = "/api/v2/assets/events?source_dag_id=migrate_catalog&source_task_id=set_tombstone&limit=1000"
    events = api.call("GET", path)["asset_events"]
    return [event for event in events if event["uri"] == f"hermit://catalog/{organization_id}"]


def test_a_backfill_during_a_manual_run_moves_the_catalog_once(machine: Machine, catalog: str) -> None:
    api, stores = machine.api(), machine.stores(catalog)
    conf = {"organization_id": catalog}
    manual = api.trigger("migrate_catalog", conf)
    machine.airflow(
        *("backfill", "create", "--dag-id", "migrate_catalog", "--max-active-runs", "3"),
        *("--from-date", "2026-02-01", "--to-date", f"2026-02-{_BACKFILL_DAYS:02}"),
        *("--dag-run-conf", json.dumps(conf)),
    )

    def ended() -> list[dict[str, Any]] | None:
        runs = api.call("GET", "/api/v2/dags/migrate_catalog/dagRuns?limit=100")["dag_runs"]
        mine = [run for run in runs if run["conf"].get("organization_id") == catalog]
        done = all(run["state"] in ("success", "failed") for run in mine)
        return mine if done and len(mine) == _BACKFILL_DAYS + 1 else None

    runs = {run["dag_run_id"]: run["state"] for run in wait_for(ended)}
    assert manual in runs
    outcomes = Counter(outcome(api, run_id, state) for run_id, state in runs.items())
    assert set(outcomes) <= {"moved", "nothing to do", "fenced"}
    assert outcomes["moved"] == 1
    assert stores.state().truth.store == "persist"
    with stores.stash.inspect() as stash, stores.persist.inspect() as persist:
        assert stash.digests() == persist.digests()
    assert len(asset_events(api, catalog)) == 1


def outcome(api: AirflowApi, run_id: str, state: str) -> str:
    """What the report says, or `fenced`, if the task that failed says that another run took over."""
    if state == "success":
        return str(api.xcom("migrate_catalog", run_id, "report")["outcome"])
    path = f"/api/v2/dags/migrate_catalog/dagRuns/{quote(run_id)}/taskInstances"
    (task,) = [one for one in api.call("GET", path)["task_instances"] if one["state"] == "failed"]
    log = api.call("GET", f"{path}/{task['task_id']}/logs/{task['try_number']}")
    return "fenced" if "another run took over" in json.dumps(log) else f"{task['task_id']} failed: {log}"


def test_maintenance_and_upgrade_check_run_as_dags(machine: Machine, catalog: str) -> None:
    api, stores = machine.api(), machine.stores(catalog)
    before = stores.stash.epoch()
    only = api.trigger("maintain_catalog", {"organization_id": catalog, "actions": ["verify"]})
    check = api.trigger("upgrade_check", {"organization_id": catalog})
    assert finished(api, "maintain_catalog", only) == "success"
    states = dict(api.task_states("maintain_catalog", only))
    assert states == {
        "consolidate": "skipped",
        "compact": "skipped",
        "vacuum": "skipped",
        "verify": "success",
    }
    assert api.xcom("maintain_catalog", only, "verify")["truth"] == "stash"
    assert finished(api, "upgrade_check", check) == "success"
    assert api.xcom("upgrade_check", check, "check_open")["store"] == "stash"
    assert stores.stash.epoch() == before


@pytest.mark.stops_everything
def test_a_running_airflow_is_used_until_it_is_stopped(machine: Machine, catalog: str) -> None:
    started = machine.must("up")
    assert "http://127.0.0.1:" in started
    assert "admin / " in started
    machine.must("migrate", "--organization-id", catalog)
    assert len(asset_events(machine.api(), catalog)) == 1
    # Commands that ended have not stopped what Airflow goes on to use.
    assert EmbeddedPostgres(machine.home / "postgres").is_running()
    assert "stopped" in machine.must("down")
    assert not EmbeddedPostgres(machine.home / "postgres").is_running()
    status = json.loads(machine.must("status", "--json", "--organization-id", catalog))
    assert status["source_of_truth"] == "persist"
    assert "nothing was running" in machine.must("down")

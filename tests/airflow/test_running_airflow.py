"""A real Airflow, with its scheduler and API: approvals, assets and maintenance."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from hermit.embedded.runs import AirflowApi
from hermit.migration.history import History
from tests.airflow.machine import Machine, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.airflow, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    machine = Machine(tmp_path_factory.mktemp("running") / "home")
    with machine.is_up():
        yield machine


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


def answer(api: AirflowApi, run_id: str, option: str) -> dict[str, Any]:
    """Wait until the run asks, answer, and give what was asked."""
    path = f"/api/v2/dags/migrate_catalog/dagRuns/{quote(run_id)}/taskInstances/approve"
    wait_for(lambda: api.call("GET", path)["state"] == "awaiting_input" or None)
    asked = api.call("GET", f"{path}/-1/hitlDetails")
    api.call("PATCH", f"{path}/-1/hitlDetails", {"chosen_options": [option], "params_input": {}})
    return dict(asked)


def test_a_rejected_cut_over_leaves_the_truth_and_an_approved_one_moves_it(
    machine: Machine, catalog: str
) -> None:
    api, stores = machine.api(), machine.stores(catalog)
    conf = {"organization_id": catalog, "approve_cut_over": True}
    rejected = api.trigger("migrate_catalog", conf)
    asked = answer(api, rejected, "Reject")
    assert "| items | " in asked["body"]
    assert catalog in asked["subject"]
    assert finished(api, "migrate_catalog", rejected) == "success"
    report = api.xcom("migrate_catalog", rejected, "report")
    assert (report["outcome"], report["source_of_truth"]) == ("rejected", "stash")
    assert stores.stash.tombstone() is None

    approved = api.trigger("migrate_catalog", conf)
    answer(api, approved, "Approve")
    assert finished(api, "migrate_catalog", approved) == "success"
    report = api.xcom("migrate_catalog", approved, "report")
    assert (report["outcome"], report["source_of_truth"]) == ("moved", "persist")
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

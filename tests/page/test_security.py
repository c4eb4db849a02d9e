"""Every endpoint, without a login and in every role: what the server itself allows and refuses."""

from __future__ import annotations

import json

import pytest

from tests.page.machine import ROLES, Machine
from tests.page.states import STATES, Made

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.timeout(1800)]

_MARK = {"X-Hermit-Page": "1"}


def _endpoints(organization_id: str) -> list[str]:
    one = f"/hermit/api/catalogs/{organization_id}"
    return [
        "/hermit/",
        "/hermit/static/main.js",
        "/hermit/static/style.css",
        "/hermit/api/catalogs",
        "/hermit/api/protocols",
        one,
        f"{one}/contents",
        "/hermit/api/runs/migrate_catalog/manual__1",
        "/hermit/api/no-such-thing",
        "/hermit/openapi.json",
        "/hermit/docs",
    ]


def test_without_a_login_every_endpoint_refuses(machine: Machine) -> None:
    organization_id = str(machine.organization_id)
    start = f"/hermit/api/catalogs/{organization_id}/runs"
    for path in _endpoints(organization_id):
        assert (path, machine.call(None, "GET", path).status) == (path, 401)
    assert machine.call(None, "POST", start, {"action": "migrate"}, _MARK).status == 401
    assert machine.call(None, "GET", "/hermit/", headers={"Authorization": "Bearer x"}).status in (401, 403)
    assert machine.call(None, "GET", "/hermit/", headers={"Cookie": "_token=x"}).status in (401, 403)


@pytest.mark.parametrize("role", ROLES)
def test_every_role_may_look(machine: Machine, role: str) -> None:
    for path in _endpoints(str(machine.organization_id))[:7]:
        assert (path, machine.call(role, "GET", path).status) == (path, 200)
    for path in _endpoints(str(machine.organization_id))[7:]:
        assert (path, machine.call(role, "GET", path).status) == (path, 404)


def test_a_viewer_can_start_nothing_and_is_told_so(machine: Machine, made: dict[str, Made]) -> None:
    one = f"/hermit/api/catalogs/{made['single-absent'].organization_id}"
    for action in machine.call("viewer", "GET", one).json["actions"]:
        assert "your role may not trigger" in action["disabled"]
        answer = machine.call("viewer", "POST", f"{one}/runs", {"action": action["action"]}, _MARK)
        assert answer.status == 403


@pytest.mark.parametrize("role", ["user", "op", "admin"])
def test_whoever_may_trigger_the_dag_may_start_a_move(
    machine: Machine, made: dict[str, Made], role: str
) -> None:
    one = f"/hermit/api/catalogs/{made['single-absent'].organization_id}"
    buttons = {action["action"]: action for action in machine.call(role, "GET", one).json["actions"]}
    assert buttons["migrate"]["disabled"] is None
    # A rollback is not possible here: the right to start it is there, the state is not.
    answer = machine.call(role, "POST", f"{one}/runs", {"action": "rollback"}, _MARK)
    assert (answer.status, answer.json["detail"]) == (409, buttons["rollback"]["disabled"])


def test_an_operator_starts_a_verification_and_the_audit_log_says_who(
    machine: Machine, made: dict[str, Made]
) -> None:
    organization_id = made["single-true"].organization_id
    one = f"/hermit/api/catalogs/{organization_id}"
    started = machine.call("op", "POST", f"{one}/runs", {"action": "verify"}, _MARK)
    assert started.status == 201, started.text
    run = machine.call("viewer", "GET", one).json["moves"][0]
    assert (run["dag_id"], run["run_id"], run["by"]) == ("maintain_catalog", started.json["run_id"], "op")
    log = machine.call("admin", "GET", "/api/v2/eventLogs?dag_id=maintain_catalog&order_by=-when").json
    entry = next(entry for entry in log["event_logs"] if entry["run_id"] == run["run_id"])
    assert (entry["event"], entry["owner"]) == ("trigger_dag_run", "op")
    assert json.loads(entry["extra"]) == {"conf": {"organization_id": organization_id, "actions": ["verify"]}}


def test_a_start_that_another_site_forged_is_refused(machine: Machine, made: dict[str, Made]) -> None:
    start = f"/hermit/api/catalogs/{made['single-absent'].organization_id}/runs"
    cookie = {"Cookie": f"_token={machine.token('admin')}"}
    body = {"action": "rollback"}
    genuine = {**cookie, **_MARK, "Origin": machine.url}
    forged = (
        cookie,
        {**cookie, **_MARK, "Origin": "http://evil.example"},
        {**cookie, **_MARK, "Sec-Fetch-Site": "cross-site"},
        {**cookie, **_MARK, "Sec-Fetch-Site": "same-site"},
        {**cookie, "Origin": machine.url},
    )
    assert machine.call(None, "POST", start, body, genuine).status == 409
    for headers in forged:
        assert (headers, machine.call(None, "POST", start, body, headers).status) == (headers, 403)


def test_a_start_takes_nothing_but_what_a_button_sends(machine: Machine) -> None:
    start = f"/hermit/api/catalogs/{machine.organization_id}/runs"
    for body in (
        {"action": "drop"},
        {"action": "migrate", "conf": {}},
        {"action": "migrate", "protocol": "x"},
        {},
    ):
        assert machine.call("admin", "POST", start, body, _MARK).status == 422


def test_no_answer_holds_anything_of_a_connection(machine: Machine, made: dict[str, Made]) -> None:
    secrets = [machine.stash_url, str(machine.home / "postgres"), "postgresql://", "password", machine.shards]
    for organization_id in (str(machine.organization_id), made["double-true-true"].organization_id):
        for path in _endpoints(organization_id)[3:]:
            text = machine.call("admin", "GET", path).text
            for secret in secrets:
                assert secret not in text, (path, secret)


def test_the_page_may_be_framed_by_airflow_only_and_loads_nothing_from_elsewhere(machine: Machine) -> None:
    policy = machine.call("viewer", "GET", "/hermit/").headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'self'" in policy


def test_the_plugin_is_registered_once_and_without_errors(machine: Machine) -> None:
    plugins = machine.call("admin", "GET", "/api/v2/plugins").json["plugins"]
    ours = [plugin for plugin in plugins if plugin["name"] == "hermit"]
    assert len(ours) == 1
    assert {view["destination"] for view in ours[0]["external_views"]} == {"nav", "dag", "dag_run"}
    assert [app["url_prefix"] for app in ours[0]["fastapi_apps"]] == ["/hermit"]
    assert machine.call("admin", "GET", "/api/v2/plugins/importErrors").json["total_entries"] == 0


def test_every_state_is_listed_as_its_protocol_sees_it(machine: Machine, made: dict[str, Made]) -> None:
    found = machine.call("viewer", "GET", "/hermit/api/catalogs").json["catalogs"]
    lines = {line["organization_id"]: line for line in found}
    assert set(made) == set(STATES)
    for one in made.values():
        line, state = lines[one.organization_id], one.stores.state()
        assert (line["protocol"], line["state"]) == (one.protocol, one.state)
        assert (line["source_of_truth"], line["why"]) == (state.truth.store, state.truth.why)
        assert line["reachable"] == state.truth.reachable


def test_what_a_stopped_move_would_do_next_is_told(machine: Machine, made: dict[str, Made]) -> None:
    def look(name: str) -> dict[str, object]:
        found = machine.call("viewer", "GET", f"/hermit/api/catalogs/{made[name].organization_id}").json
        direction = found["half_way"]["direction"]
        return {"direction": direction, "next": found["next"][direction]["next"], "staged": found["staged"]}

    staged = look("double-true-absent")
    assert (staged["direction"], staged["next"]) == ("migrate", "replace")
    assert "the next migrate goes on from it" in staged["staged"][0]["held_by"]  # type: ignore[index]
    assert look("double-true-true")["next"] == "verify"
    assert look("double-false-false") == {"direction": "rollback", "next": "snapshot", "staged": []}

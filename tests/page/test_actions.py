"""Which buttons work in which state, with which conf, and what the others say."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

import pytest

from hermit.migration.protocol import DOUBLE, SINGLE, Protocol, Tombstones
from hermit_airflow.page.actions import Action, Situation, actions, describe
from hermit_airflow.page.names import DAGS

N, T, F = None, True, False
_CALM = Situation(
    organization_id=uuid.UUID("5eed0000-0000-4000-8000-000000000001"),
    protocol=SINGLE,
    tombstones=Tombstones(N, N),
    is_default_place=True,
    dags={dag_id: {"paused": False, "broken": False} for dag_id in DAGS},
    permitted=frozenset(DAGS),
    active=(),
)


def _in(protocol: Protocol, stash: bool | None, persist: bool | None, **fields: Any) -> Situation:
    return replace(_CALM, protocol=protocol, tombstones=Tombstones(stash, persist), **fields)


def _working(situation: Situation) -> set[str]:
    return {action["action"] for action in actions(situation) if action["disabled"] is None}


@pytest.mark.parametrize(
    ("situation", "moves"),
    [
        (_in(SINGLE, N, N), {"migrate"}),
        (_in(SINGLE, T, N), {"rollback"}),
        (_in(SINGLE, F, N), {"migrate"}),
        (_in(DOUBLE, N, N), {"migrate", "rollback"}),
        (_in(DOUBLE, T, N), {"migrate", "rollback"}),
        (_in(DOUBLE, F, N), {"migrate"}),
        (_in(DOUBLE, T, F), {"rollback"}),
        (_in(DOUBLE, F, F), {"migrate", "rollback"}),
        (_in(DOUBLE, F, T), {"migrate"}),
        (_in(DOUBLE, T, T), {"migrate", "rollback"}),
    ],
)
def test_a_move_can_be_started_wherever_it_would_write_something(
    situation: Situation, moves: set[str]
) -> None:
    assert _working(situation) == {*moves, "dry_run", "verify"}


def test_an_unreachable_state_allows_no_move_and_says_so() -> None:
    situation = _in(DOUBLE, N, T)
    assert _working(situation) == {"verify"}
    assert "cannot reach" in describe(situation, Action.MIGRATE)["disabled"]


def test_each_button_starts_its_dag_with_the_right_conf() -> None:
    organization_id = str(_CALM.organization_id)
    move = {"organization_id": organization_id, "protocol": "single", "dry_run": False}
    found = {action["action"]: (action["dag_id"], action["conf"]) for action in actions(_CALM)}
    assert found == {
        "migrate": ("migrate_catalog", move),
        "rollback": ("rollback_catalog", move),
        "dry_run": ("migrate_catalog", {**move, "dry_run": True}),
        "verify": ("maintain_catalog", {"organization_id": organization_id, "actions": ["verify"]}),
    }


def test_a_dry_run_rehearses_the_move_away_from_the_truth() -> None:
    assert describe(_in(SINGLE, T, N), Action.DRY_RUN)["dag_id"] == "rollback_catalog"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"permitted": frozenset()}, "your role may not trigger migrate_catalog"),
        ({"dags": {}}, "has no DAG migrate_catalog"),
        ({"dags": {"migrate_catalog": {"paused": True, "broken": False}}}, "is paused"),
        ({"dags": {"migrate_catalog": {"paused": False, "broken": True}}}, "import errors"),
        ({"is_default_place": False}, "default connections"),
        ({"active": [{"dag_id": "rollback_catalog", "state": "running"}]}, "rollback_catalog is running"),
    ],
)
def test_a_disabled_button_says_why(fields: dict[str, Any], words: str) -> None:
    assert words in describe(replace(_CALM, **fields), Action.MIGRATE)["disabled"]


def test_maintenance_and_a_move_do_not_stand_in_each_others_way() -> None:
    maintained = replace(_CALM, active=[{"dag_id": "maintain_catalog", "state": "running"}])
    moved = replace(_CALM, active=[{"dag_id": "migrate_catalog", "state": "queued"}])
    assert _working(maintained) == {"migrate", "dry_run"}
    assert _working(moved) == {"verify"}


def test_where_the_truth_is_already_the_reason_says_why_it_is_there() -> None:
    reason = describe(_in(SINGLE, T, N), Action.MIGRATE)["disabled"]
    assert reason == "the truth is persist already: a migration completed, and no rollback has since"

"""The buttons: which DAG each starts with which conf, and, where it may not, the reason in words. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from uuid import UUID

from hermit.migration.protocol import Direction, Protocol, Store, Tombstones
from hermit_airflow.page.names import MAINTAIN


class Action(StrEnum):
    """What the page can start."""

    MIGRATE = "migrate"
    ROLLBACK = "rollback"
    DRY_RUN = "dry_run"
    VERIFY = "verify"


@dataclass(frozen=True)
class Situation:
    """All that decides about the buttons."""

    organization_id: UUID
    protocol: Protocol
    tombstones: Tombstones
    is_default_place: bool
    dags: Mapping[str, Mapping[str, Any]]
    """Of the DAGs that Airflow knows: `paused`, `broken`."""
    permitted: frozenset[str]
    """The DAGs that this user may trigger."""
    active: Sequence[Mapping[str, Any]]
    """Runs on this catalog that have not ended."""


def actions(situation: Situation) -> list[dict[str, Any]]:
    """Every button with its DAG, its conf, and why it is disabled (None: it is not)."""
    return [describe(situation, action) for action in Action]


def describe(situation: Situation, action: Action) -> dict[str, Any]:
    """One button."""
    dag_id, conf = _start(situation, action)
    reason = _why_not_dag(situation, dag_id) or _why_not_state(situation, action)
    return {"action": action.value, "dag_id": dag_id, "conf": conf, "disabled": reason}


def _start(situation: Situation, action: Action) -> tuple[str, dict[str, Any]]:
    organization_id = str(situation.organization_id)
    if action is Action.VERIFY:
        return MAINTAIN, {"organization_id": organization_id, "actions": ["verify"]}
    direction = _direction(situation, action)
    conf = {
        "organization_id": organization_id,
        "protocol": situation.protocol.name,
        "dry_run": action is Action.DRY_RUN,
    }
    return f"{direction}_catalog", conf


def _direction(situation: Situation, action: Action) -> Direction:
    """A dry run rehearses the move that would take the truth to the other store."""
    if action is not Action.DRY_RUN:
        return Direction(action.value)
    truth = situation.protocol.truth(situation.tombstones).store
    return Direction.MIGRATE if truth is Store.STASH else Direction.ROLLBACK


def _why_not_dag(situation: Situation, dag_id: str) -> str | None:
    dag = situation.dags.get(dag_id)
    if dag_id not in situation.permitted:
        return f"your role may not trigger {dag_id}"
    if dag is None:
        return f"this Airflow has no DAG {dag_id}"
    if dag["broken"]:
        return f"{dag_id} has import errors"
    if dag["paused"]:
        return f"{dag_id} is paused"
    if not situation.is_default_place:
        return "the DAGs work on the default connections, and this catalog is behind others"
    return None


def _why_not_state(situation: Situation, action: Action) -> str | None:
    for run in situation.active:
        # Maintenance may run beside a move, but neither beside its like.
        if (run["dag_id"] == MAINTAIN) == (action is Action.VERIFY):
            return f"{run['dag_id']} is {run['state']} on this catalog"
    protocol, tombstones = situation.protocol, situation.tombstones
    if action is Action.VERIFY:
        return None
    if not protocol.truth(tombstones).reachable:
        return f"the {protocol.name}-tombstone protocol cannot reach this state; find out who wrote it"
    direction = _direction(situation, action)
    announce = protocol.plans[direction].announce
    after = tombstones.with_(announce) if announce else tombstones
    if after == tombstones and protocol.is_done(direction, tombstones):
        return f"the truth is {direction.target} already: {protocol.truth(tombstones).why}"
    return None

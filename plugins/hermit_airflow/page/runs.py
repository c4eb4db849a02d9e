"""Airflow's own records of the moves: runs of our DAGs, their tasks and times, and their reports."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from airflow.api.common.trigger_dag import trigger_dag
from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.models.log import Log
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from airflow.utils.session import create_session
from airflow.utils.state import DagRunState
from airflow.utils.types import DagRunTriggeredByType
from sqlalchemy import select

from hermit_airflow.page.names import DAGS, MOVES, REPORT, order

_ACTIVE = (DagRunState.QUEUED, DagRunState.RUNNING)
_LOOKED_AT_MAX = 500


def dag_facts() -> dict[str, dict[str, Any]]:
    """Of each of our DAGs: whether it is there, paused, or broken."""
    columns = (DagModel.dag_id, DagModel.is_paused, DagModel.is_stale, DagModel.has_import_errors)
    with create_session() as session:
        rows = session.execute(select(*columns).where(DagModel.dag_id.in_(DAGS))).all()
    return {
        dag_id: {"paused": paused, "broken": bool(broken)}
        for dag_id, paused, stale, broken in rows
        if not stale
    }


def recent(organization_id: UUID, dag_ids: Iterable[str], limit: int) -> list[dict[str, Any]]:
    """The newest runs on this catalog, each with its tasks in the order in which they started."""
    with create_session() as session:
        query = select(DagRun).where(DagRun.dag_id.in_(tuple(dag_ids)))
        newest = session.scalars(query.order_by(DagRun.id.desc()).limit(_LOOKED_AT_MAX))
        runs = [run for run in newest if organization_of(run.conf) == str(organization_id)][:limit]
        tasks = _tasks(session, runs)
        return [_run(run, tasks.get((run.dag_id, run.run_id), [])) for run in runs]


def active(dag_ids: Iterable[str]) -> dict[str, list[dict[str, Any]]]:
    """The runs that are queued or under way, by organization."""
    with create_session() as session:
        query = select(DagRun).where(DagRun.dag_id.in_(tuple(dag_ids)), DagRun.state.in_(_ACTIVE))
        found: dict[str, list[dict[str, Any]]] = {}
        for run in session.scalars(query.order_by(DagRun.id)):
            found.setdefault(organization_of(run.conf) or "", []).append(_summary(run))
        return found


def one(dag_id: str, run_id: str) -> dict[str, Any] | None:
    """One run with its tasks and, if it came that far, its report."""
    with create_session() as session:
        run = session.scalar(select(DagRun).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id))
        if run is None:
            return None
        found = _run(run, _tasks(session, [run]).get((dag_id, run_id), []))
        return {**found, "organization_id": organization_of(run.conf), "report": _report(session, run)}


def organization_of(conf: Any) -> str | None:
    """The catalog that a run is about: what its conf says, or else what the DAG's param defaults to."""
    given = conf.get("organization_id") if isinstance(conf, dict) else None
    return str(given or os.environ.get("HERMIT_ORGANIZATION_ID") or "") or None


def _report(session: Any, run: DagRun) -> Any:
    query = XComModel.get_many(
        key="return_value", dag_ids=run.dag_id, run_id=run.run_id, task_ids=REPORT, limit=1
    )
    row = session.execute(query).scalars().first()
    return XComModel.deserialize_value(row) if row is not None else None


def _tasks(session: Any, runs: Sequence[DagRun]) -> dict[tuple[str, str], list[dict[str, Any]]]:
    columns = (
        TaskInstance.dag_id,
        TaskInstance.run_id,
        TaskInstance.task_id,
        TaskInstance.state,
        TaskInstance.start_date,
        TaskInstance.end_date,
        TaskInstance.try_number,
    )
    query = select(*columns).where(
        TaskInstance.dag_id.in_({run.dag_id for run in runs}),
        TaskInstance.run_id.in_({run.run_id for run in runs}),
    )
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for dag_id, run_id, task_id, state, start, end, tries in session.execute(query):
        task = {"task": task_id, "state": state, "start": _iso(start), "end": _iso(end), "tries": tries}
        found.setdefault((dag_id, run_id), []).append(task)
    for (dag_id, _), tasks in found.items():
        places = order(dag_id)
        tasks.sort(key=lambda task: (places.get(task["task"], len(places)), task["start"] or "9"))
    return found


def _summary(run: DagRun) -> dict[str, Any]:
    return {"dag_id": run.dag_id, "run_id": run.run_id, "state": str(run.state)}


def _run(run: DagRun, tasks: list[dict[str, Any]]) -> dict[str, Any]:
    conf = run.conf if isinstance(run.conf, dict) else {}
    return {
        **_summary(run),
        "direction": MOVES[run.dag_id].value if run.dag_id in MOVES else None,
        "dry_run": bool(conf.get("dry_run")),
        "protocol": conf.get("protocol"),
        "queued": _iso(run.queued_at),
        "start": _iso(run.start_date),
        "end": _iso(run.end_date),
        "by": run.triggering_user_name,
        "tasks": tasks,
    }


def _iso(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment is not None else None


def trigger(dag_id: str, conf: dict[str, Any], user: str) -> dict[str, Any]:
    """Start a run in the user's name, and say so in the audit log. Who may was decided before."""
    with create_session() as session:
        run = trigger_dag(
            dag_id,
            triggered_by=DagRunTriggeredByType.UI,
            triggering_user_name=user,
            conf=conf,
            session=session,
        )
        run_id = run.run_id if run is not None else None
        entry = {"dag_id": dag_id, "run_id": run_id, "extra": json.dumps({"conf": conf})}
        session.add(Log(event="trigger_dag_run", owner=user, owner_display_name=user, **entry))
    return {"dag_id": dag_id, "run_id": run_id}

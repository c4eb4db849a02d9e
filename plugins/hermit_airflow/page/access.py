"""Who may use the page: Airflow's login and Airflow's permissions, on every route, and no way around.

Airflow checks nothing for a plugin's app, so that the app itself refuses whatever it is not told to
allow: looking takes the right to see plugins and to read the runs of a move, starting takes the right to
trigger that very DAG. A request that changes something must moreover come from the page itself: with a header
that a form on another site cannot send, and, where the browser tells, from the same origin.
"""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import urlsplit

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import AccessView, DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_view
from airflow.configuration import conf
from airflow.models.dag import DagModel
from fastapi import Depends, Header, HTTPException, Request, status

from hermit_airflow.page.names import DAGS, MOVES

HEADER = "X-Hermit-Page"

may_see_plugins = Depends(requires_access_view(AccessView.PLUGINS))


def may(user: Any, method: str, dag_id: str) -> bool:
    """Whether Airflow lets this user do that to runs of this DAG."""
    return bool(
        get_auth_manager().is_authorized_dag(
            method=method,  # type: ignore[arg-type]
            access_entity=DagAccessEntity.RUN,
            details=DagDetails(id=dag_id, team_name=DagModel.get_team_name(dag_id)),
            user=user,
        )
    )


def triggerable(user: Any) -> frozenset[str]:
    """The DAGs that this user may trigger."""
    return frozenset(dag_id for dag_id in DAGS if may(user, "POST", dag_id))


def require_reading(user: GetUserDep) -> None:
    """Catalogs are shown to whoever may read the runs of both moves."""
    if not all(may(user, "GET", dag_id) for dag_id in MOVES):
        raise HTTPException(status.HTTP_403_FORBIDDEN, "Forbidden")


may_read = Depends(require_reading)


def require_same_origin(request: Request, marked: Annotated[str | None, Header(alias=HEADER)] = None) -> None:
    """Refuse what another site made the browser send."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None:
        is_own = site == "same-origin"
    else:
        # Older browsers, and plain HTTP: there the origin must be the host that was asked.
        is_own = origin is None or urlsplit(origin).netloc in _own_hosts(request)
    if marked is None or not is_own:
        raise HTTPException(status.HTTP_403_FORBIDDEN, "only the page itself may start a run")


def _own_hosts(request: Request) -> set[str]:
    return {request.headers.get("host", ""), urlsplit(conf.get("api", "base_url", fallback="")).netloc} - {""}


from_the_page = Depends(require_same_origin)

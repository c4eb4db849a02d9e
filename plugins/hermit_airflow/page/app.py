"""The page's routes, under `/hermit`: an HTML page, its files, and JSON under `/hermit/api`.

Every route, the static files included, asks for Airflow's login first; see `access.py`. Nothing that a
connection holds is ever part of an answer, and errors of the stores are told without their details.
"""

from __future__ import annotations

import contextlib
import logging
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import APIRouter, FastAPI, HTTPException, Query, Request, status
from fastapi.responses import FileResponse, JSONResponse, Response
from pydantic import BaseModel, ConfigDict, PositiveInt

from hermit.errors import HermitError, InvalidInput, Unavailable
from hermit.migration.history import History
from hermit.migration.protocol import PROTOCOLS
from hermit_airflow.page import runs
from hermit_airflow.page.access import from_the_page, may, may_read, may_see_plugins, triggerable
from hermit_airflow.page.actions import Action, Situation, actions, describe
from hermit_airflow.page.catalogs import Catalogs, NoSuchCatalog, Sighting, summary
from hermit_airflow.page.detail import detail
from hermit_airflow.page.diagram import diagram
from hermit_airflow.page.names import DAGS
from hermit_airflow.page.places import places

PREFIX = "/hermit"
_STATIC = Path(__file__).parent / "static"
_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_HEADERS = {
    "Cache-Control": "no-cache",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    # Everything comes from here, and only Airflow's own pages may frame it.
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'self'; base-uri 'none'",
}
_log = logging.getLogger(__name__)

api = APIRouter(prefix="/api", dependencies=[may_read])


@cache
def catalogs() -> Catalogs:
    """What all requests share."""
    return Catalogs(places)


class Start(BaseModel):
    """What a button sends."""

    model_config = ConfigDict(extra="forbid")

    action: Action
    protocol: Literal[tuple(PROTOCOLS)] | None = None  # type: ignore[valid-type]
    approve_cut_over: bool = False
    max_rows_per_second: PositiveInt | None = None

    def asked(self, conf: dict[str, Any]) -> dict[str, Any]:
        """The button's conf with what was chosen beside it; a verification takes no choices."""
        if self.action is Action.VERIFY:
            return conf
        chosen: dict[str, Any] = {"protocol": self.protocol} if self.protocol else {}
        if self.max_rows_per_second:
            chosen["max_rows_per_second"] = self.max_rows_per_second
        return {**conf, **chosen, "approve_cut_over": self.approve_cut_over}


@api.get("/catalogs")
def list_catalogs() -> dict[str, Any]:
    """Every configured catalog, one line each."""
    found, silent = catalogs().list()
    active = runs.active(DAGS)
    return {
        "catalogs": [
            {**summary(sighting), "active": active.get(str(sighting.organization_id), [])}
            for sighting in found
        ],
        "silent": silent,
    }


@api.get("/protocols")
def protocols() -> dict[str, Any]:
    """The diagrams of all protocols."""
    return {name: diagram(name) for name in PROTOCOLS}


@api.get("/catalogs/{organization_id}")
def one_catalog(
    organization_id: str, user: GetUserDep, history: Annotated[int, Query(ge=0, le=50)] = 10
) -> dict[str, Any]:
    """All of one catalog, except for its contents."""
    sighting = catalogs().find(organization_id)
    found = detail(catalogs(), sighting, history)
    return {**found, "actions": actions(_situation(sighting, user))}


@api.get("/catalogs/{organization_id}/contents")
def contents(organization_id: str, digest: bool = False) -> dict[str, Any]:
    """Rows and bytes per collection and digest of both sides; `digest` asks for one of many rows."""
    return catalogs().sizes(catalogs().find(organization_id), ask=digest)


@api.post(
    "/catalogs/{organization_id}/runs", status_code=status.HTTP_201_CREATED, dependencies=[from_the_page]
)
def start(organization_id: str, body: Start, user: GetUserDep) -> dict[str, Any]:
    """Start what a button stands for, if the user may and the state allows it."""
    situation = _situation(catalogs().find(organization_id), user)
    wanted = describe(situation, body.action)
    if wanted["dag_id"] not in situation.permitted:
        raise HTTPException(status.HTTP_403_FORBIDDEN, wanted["disabled"])
    if wanted["disabled"] is not None:
        raise HTTPException(status.HTTP_409_CONFLICT, wanted["disabled"])
    return runs.trigger(wanted["dag_id"], body.asked(wanted["conf"]), str(user.get_name()))


@api.get("/runs/{dag_id}/{run_id:path}")
def one_run(dag_id: str, run_id: str, user: GetUserDep) -> dict[str, Any]:
    """A run with its steps and its report."""
    if dag_id not in DAGS:
        raise HTTPException(status.HTTP_404_NOT_FOUND, f"{dag_id} is none of Hermit's DAGs")
    if not may(user, "GET", dag_id):
        raise HTTPException(status.HTTP_403_FORBIDDEN, "Forbidden")
    found = runs.one(dag_id, run_id)
    if found is None:
        raise HTTPException(status.HTTP_404_NOT_FOUND, "no such run")
    if found["report"] is None and found["organization_id"]:
        with contextlib.suppress(HermitError):
            location = catalogs().find(found["organization_id"]).location
            found["report"] = History(location).read(run_id)
    return found


def _situation(sighting: Sighting, user: Any) -> Situation:
    return Situation(
        organization_id=sighting.organization_id,
        protocol=sighting.protocol,
        tombstones=sighting.tombstones,
        is_default_place=sighting.place.is_default,
        dags=runs.dag_facts(),
        permitted=triggerable(user),
        active=runs.active(DAGS).get(str(sighting.organization_id), []),
    )


files = APIRouter()


@files.get("/")
def page() -> Response:
    """The page: the list of catalogs, one catalog, or the tab of a DAG or a run."""
    return _file("index.html")


@files.get("/static/{name}")
def static(name: str) -> Response:
    """One of the page's own files."""
    return _file(name)


@files.get("/{path:path}")
def nothing_else(path: str) -> Response:
    """Whatever is not there, to whoever is logged in; the others do not even learn that."""
    raise HTTPException(status.HTTP_404_NOT_FOUND, "not found")


def _file(name: str) -> Response:
    path = _STATIC / name
    if path.suffix not in _TYPES or path.parent != _STATIC or not path.is_file():
        raise HTTPException(status.HTTP_404_NOT_FOUND, "not found")
    return FileResponse(path, media_type=_TYPES[path.suffix], headers=_HEADERS)


def _tell(request: Request, error: Exception) -> Response:
    """An error of the stores, in words that hold nothing of a connection."""
    if isinstance(error, NoSuchCatalog):
        return JSONResponse({"detail": str(error)}, status.HTTP_404_NOT_FOUND)
    if isinstance(error, InvalidInput):
        return JSONResponse({"detail": str(error)}, status.HTTP_422_UNPROCESSABLE_CONTENT)
    _log.warning("%s: %s", request.url.path, error)
    code = status.HTTP_503_SERVICE_UNAVAILABLE
    what = (
        "does not answer"
        if isinstance(error, Unavailable)
        else "cannot be read; the API server's log says why"
    )
    return JSONResponse({"detail": f"a store of this catalog {what}"}, code)


def build() -> FastAPI:
    """The app that Airflow mounts."""
    app = FastAPI(
        title="Hermit", docs_url=None, redoc_url=None, openapi_url=None, dependencies=[may_see_plugins]
    )
    app.include_router(api)
    app.include_router(files)
    app.add_exception_handler(HermitError, _tell)
    return app

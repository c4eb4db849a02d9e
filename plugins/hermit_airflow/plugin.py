"""Registers the page "Catalogs" with Airflow: its app, its place in the navigation, two tabs.

Airflow finds this class by the entry point `airflow.plugins`, in every one of its processes. Only the API
server asks for the app, so that the others do not pay for building it.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

from airflow.configuration import conf
from airflow.plugins_manager import AirflowPlugin


def _href(query: str = "") -> str:
    """An address of ours, also where Airflow lives below a path of its own."""
    root = urlsplit(conf.get("api", "base_url", fallback="")).path.rstrip("/")
    return f"{root}/hermit/{query}"


def _view(**fields: Any) -> dict[str, Any]:
    icon = _href("static/crab.svg")
    return {"icon": icon, "icon_dark_mode": _href("static/crab-dark.svg"), **fields}


class HermitPlugin(AirflowPlugin):
    """What Airflow shows of Hermit."""

    name = "hermit"

    external_views = [  # noqa: RUF012 - Airflow takes items out of this very list
        _view(name="Catalogs", href=_href(), destination="nav", url_route="catalogs", nav_top_level=True),
        _view(
            name="Catalogs",
            href=_href("?dag={DAG_ID}"),
            destination="dag",
            url_route="catalogs-dag",
        ),
        _view(
            name="Report",
            href=_href("?dag={DAG_ID}&run={RUN_ID}"),
            destination="dag_run",
            url_route="catalogs-run",
        ),
    ]

    @cached_property
    def fastapi_apps(self) -> list[dict[str, Any]]:
        """The app, built when it is asked for."""
        from hermit_airflow.page.app import PREFIX, build

        return [{"app": build(), "url_prefix": PREFIX, "name": "Hermit"}]

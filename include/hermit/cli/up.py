"""`hermit up`: the embedded PostgreSQL and a real Airflow with its UI."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from hermit.settings import Settings

_DAGS_WITHIN_S = 60

app = typer.Typer(add_completion=False)


@app.command()
def up(
    port: Annotated[int | None, typer.Option(help="Port of the UI; by default 8080, or a free one.")] = None,
) -> None:
    """Start PostgreSQL and Airflow, wait until they are healthy, print the URLs and the login."""
    from hermit import settings as settings_module
    from hermit.cli.demo import make_demo_catalog
    from hermit.embedded import airflow, services
    from hermit.migration.stores import connect

    settings = settings_module.load()
    settings_module.ensure_home(settings.home)
    started = services.up(settings, port, lambda line: typer.echo(f"hermit: {line}", err=True))
    make_demo_catalog(settings, connect(settings.stash_url, settings.shards, settings.organization_id))
    _wait_for_dags(settings, started.url)
    typer.echo(f"Airflow:  {started.url}")
    typer.echo(f"Catalogs: {started.url}/plugin/catalogs")
    typer.echo(f"Login:    {airflow.USER} / {airflow.password(settings)}")
    typer.echo("Stop it:  ./hermit down")


def _wait_for_dags(settings: Settings, url: str) -> None:
    """Airflow is healthy before it has read the DAGs; then every button would be disabled for a while."""
    from hermit.embedded import airflow
    from hermit.embedded.runs import AirflowApi

    api = AirflowApi(url, airflow.USER, airflow.password(settings))
    wanted = {path.stem for path in (settings.root / "dags").glob("*.py")}
    deadline = time.monotonic() + _DAGS_WITHIN_S
    while missing := wanted - api.dags():
        if time.monotonic() > deadline:
            typer.echo(f"hermit: airflow has not read these DAGs yet: {', '.join(sorted(missing))}", err=True)
            return
        time.sleep(0.5)

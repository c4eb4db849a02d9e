"""`hermit up`: the embedded PostgreSQL and a real Airflow with its UI."""

from __future__ import annotations

from typing import Annotated

import typer

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
    typer.echo(f"Airflow:  {started.url}")
    typer.echo(f"Catalogs: {started.url}/plugin/catalogs")
    typer.echo(f"Login:    {airflow.USER} / {airflow.password(settings)}")
    typer.echo("Stop it:  ./hermit down")

"""`hermit migrate`: move a catalog from the stash to persist, through Airflow."""

from __future__ import annotations

from typing import Annotated

import typer

app = typer.Typer(add_completion=False)


@app.command()
def migrate(
    organization_id: Annotated[
        str | None, typer.Option(help="The catalog; by default this home's own.")
    ] = None,
    protocol: Annotated[
        str | None, typer.Option(help="single or double; by default the catalog's own.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing durable anywhere.")] = False,
    approve_cut_over: Annotated[
        bool, typer.Option("--approve-cut-over", help="Wait for a human in the UI before the truth moves.")
    ] = False,
    conf: Annotated[list[str] | None, typer.Option(help="More params of the DAG, as name=value.")] = None,
) -> None:
    """Move a catalog from the stash to persist, and print the run's report."""
    from hermit.cli.moving import move
    from hermit.migration.protocol import Direction

    params = {"protocol": protocol, "dry_run": dry_run, "approve_cut_over": approve_cut_over}
    move(Direction.MIGRATE, organization_id, params, conf or [])

"""`hermit throttle`: how fast a staging job may go, changed while it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from hermit.cli.options import OrganizationId

app = typer.Typer(add_completion=False)


@app.command()
def throttle(
    batch: Annotated[
        str | None, typer.Argument(help="The batch; empty: the one that is being staged.")
    ] = None,
    organization_id: OrganizationId = None,
    max_rows_per_second: Annotated[
        int | None, typer.Option(min=0, help="All partitions together; 0 lifts the limit.")
    ] = None,
    max_parallelism: Annotated[
        int | None, typer.Option(min=0, help="Partitions at once; 0 lifts the limit.")
    ] = None,
) -> None:
    """Change the limits of a move that is being staged, or show them. It takes effect within a second."""
    from hermit import settings as settings_module
    from hermit.errors import InvalidInput
    from hermit.migration import progress
    from hermit.migration import throttle as limits
    from hermit.migration.shelf import Shelf

    location = settings_module.load(organization_id).persist_location
    running = [found.batch for found in progress.running(location)]
    chosen = batch or (running[0] if running else None)
    if chosen is None:
        raise InvalidInput("nothing is being staged", hint="start a move first, or give its limits as params")
    given = {"max_rows_per_second": max_rows_per_second, "max_parallelism": max_parallelism}
    changes = {name: value or None for name, value in given.items() if value is not None}
    found = limits.change(Shelf(location), chosen, **changes)
    for name in given:
        typer.echo(f"{name}: {getattr(found, name) or 'no limit'}")

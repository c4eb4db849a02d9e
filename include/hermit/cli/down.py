"""`hermit down`: stop everything that runs for this home."""

from __future__ import annotations

import typer

app = typer.Typer(add_completion=False)


@app.command()
def down() -> None:
    """Stop Airflow and the embedded PostgreSQL, and whatever they started."""
    from hermit import settings as settings_module
    from hermit.embedded import services

    ended = services.down(settings_module.load())
    typer.echo("stopped" if ended else "nothing was running")

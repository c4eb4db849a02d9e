"""`hermit compose-env`: the secrets of docker-compose.yaml, made on this machine and nowhere else."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(add_completion=False)


@app.command()
def compose_env(
    directory: Annotated[
        Path | None, typer.Option(help="Where docker-compose.yaml is; by default this checkout.")
    ] = None,
    renew_certificates: Annotated[
        bool, typer.Option("--renew-certificates", help="Make new certificates, keep every password.")
    ] = False,
) -> None:
    """Write .env and deploy/secrets: new passwords, keys and certificates. Never overwrites a password."""
    from hermit import settings as settings_module
    from hermit.embedded import compose

    root = directory or settings_module.load().root
    written = compose.renew(root) if renew_certificates else compose.write(root)
    for path in written:
        typer.echo(f"wrote {path}")

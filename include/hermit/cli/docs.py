"""`hermit docs`: the handbook as a site, and the drawings that are made from the code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(add_completion=False, no_args_is_help=True)


@app.command()
def build(
    output: Annotated[Path | None, typer.Option(help="Where to; by default `site` in the checkout.")] = None,
) -> None:
    """Build the site; a broken link or a page that cannot be generated is an error."""
    arguments = ["build", "--strict", "--clean"]
    if output is not None:
        arguments += ["--site-dir", str(output.absolute())]
    raise typer.Exit(_mkdocs(*arguments))


@app.command()
def serve(port: Annotated[int, typer.Option(help="On this machine only.")] = 8000) -> None:
    """Show the site, and build it anew whenever a page changes."""
    raise typer.Exit(_mkdocs("serve", "--dev-addr", f"127.0.0.1:{port}"))


@app.command()
def draw(
    bars: Annotated[
        list[Path] | None, typer.Option(help="New figures: AREA.json, as `bench AREA --json` printed it.")
    ] = None,
) -> None:
    """Write the diagrams of the protocols and the plots of the benchmarks into docs/images."""
    import json

    from hermit.handbook import pages

    docs = _root() / "docs"
    if bars:
        figures = docs / "benchmarks.json"
        known = json.loads(figures.read_text()) if figures.exists() else {}
        known |= {path.stem: json.loads(path.read_text()) for path in bars}
        figures.write_text(json.dumps(dict(sorted(known.items())), indent=1) + "\n")
    for name, drawing in pages.drawings(docs).items():
        (docs / "images" / name).write_text(drawing)
        typer.echo(f"wrote docs/images/{name}")


def _mkdocs(*arguments: str) -> int:
    command = [sys.executable, "-m", "mkdocs", *arguments, "--config-file", str(_root() / "mkdocs.yml")]
    # The theme's own announcements are not about this site.
    return subprocess.call(command, cwd=_root(), env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})


def _root() -> Path:
    from hermit import settings as settings_module
    from hermit.errors import InvalidInput

    root = settings_module.load().root
    if not (root / "mkdocs.yml").exists():
        raise InvalidInput(f"{root} holds no documentation", hint="run this from a checkout")
    return root

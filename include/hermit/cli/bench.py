"""`hermit bench AREA`: every speed bar, measured beside its rival or limit in one run."""

from __future__ import annotations

import importlib
import json
import pkgutil
import shutil
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from hermit.bench import Bar

app = typer.Typer(add_completion=False)


@app.command()
def bench(
    area: Annotated[str, typer.Argument(help="What to measure; 'all' for everything.")],
    quick: Annotated[bool, typer.Option("--quick", help="About a minute an area.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="A list of bars, for programs.")] = False,
) -> None:
    """Measure an area and say which bars hold; exit code 1 if one does not."""
    from hermit import bench as package
    from hermit.errors import InvalidInput

    areas = [
        module.name for module in pkgutil.iter_modules(package.__path__) if not module.name.startswith("_")
    ]
    if area != "all" and area not in areas:
        raise InvalidInput(f"unknown area {area!r}", hint=f"choose one of {', '.join(areas)}, all")
    bars = [bar for name in (areas if area == "all" else [area]) for bar in _run(name, quick)]
    if as_json:
        typer.echo(json.dumps([bar.to_json() for bar in bars], indent=1))
    else:
        for bar in bars:
            sign, mark = ("<=" if bar.at_most else ">="), ("ok  " if bar.holds else "FAIL")
            typer.echo(f"{mark} {bar.ratio:8.2f} {sign} {bar.limit:<6g} {bar.name}")
    if not all(bar.holds for bar in bars):
        raise typer.Exit(1)


def _run(area: str, quick: bool) -> list[Bar]:
    from hermit import settings as settings_module

    settings = settings_module.load()
    settings_module.ensure_home(settings.home)
    parent = settings.home / "bench"
    parent.mkdir(exist_ok=True)
    workdir = Path(tempfile.mkdtemp(prefix=f"{area}-", dir=parent))
    try:
        return list(importlib.import_module(f"hermit.bench.{area}").run(quick, workdir))
    finally:
        shutil.rmtree(workdir, ignore_errors=True)

"""`hermit conformance`: every row of the specification, and whether tests prove it."""

from __future__ import annotations

import json
from typing import Annotated

import typer

app = typer.Typer(add_completion=False)


@app.command()
def conformance(
    as_json: Annotated[bool, typer.Option("--json", help="Counts per seed, for programs.")] = False,
) -> None:
    """Show what the last test run proved, running the tests first if there was none; write the page."""
    from hermit import conformance as table
    from hermit import settings as settings_module
    from hermit.cli.test import results_file, run_pytest

    settings = settings_module.load()
    results = results_file(settings)
    if not results.exists():
        run_pytest(settings, ["-q"], to_stderr=True)
    rows = table.load(settings.root / "tests", results)
    (settings.root / "docs" / "conformance.md").write_text(table.to_markdown(rows))
    if as_json:
        typer.echo(json.dumps(table.summary(rows), indent=1))
        return
    for row in rows:
        typer.echo(f"{row.id:6} {row.state:8} {row.what}")
        for test, passed in sorted(row.tests.items()):
            typer.echo(f"         {'✓' if passed else '✗'} {test}")
        if row.state == "waived":
            typer.echo(f"         {row.waiver}")
    for seed, counts in table.summary(rows).items():
        typer.echo(f"{seed}: " + ", ".join(f"{count} {name}" for name, count in counts.items()))

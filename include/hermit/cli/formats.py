"""`hermit formats`: freeze and check the formats of stored objects."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Annotated

import typer

from hermit.formats.layout import Layout

app = typer.Typer(help="Freeze and check the formats of stored objects.", no_args_is_help=True)

Checkout = Annotated[
    Path | None,
    typer.Option("--root", help="Another checkout than the one that runs.", exists=True, file_okay=False),
]


def _layout(root: Path | None) -> Layout:
    return Layout.here() if root is None else Layout.of_checkout(root)


@app.command()
def check(root: Checkout = None) -> None:
    """Fail if a frozen format was changed, or a version lacks its snapshot or step."""
    from hermit.formats import guard

    layout = _layout(root)
    guard.check(layout)
    constants = layout.constants()
    typer.echo(f"formats {constants['MIN_STASH_VERSION']} to {constants['STASH_VERSION']} are as frozen")


@app.command()
def freeze(
    root: Checkout = None,
    unchanged: Annotated[
        bool, typer.Option("--unchanged", help="A new version for a step that only converts data.")
    ] = False,
) -> None:
    """Make objects.proto a new version: snapshot, version, step and test."""
    from hermit.formats.freeze import freeze

    frozen = freeze(_layout(root), unchanged=unchanged)
    typer.echo(f"objects.proto is now format {frozen.version}; written:")
    for path in frozen.written:
        typer.echo(f"  {path}")
    typer.echo(
        "next: write the step and its test, extend the generators and the oracle, make the golden file"
    )


@app.command()
def seal(root: Checkout = None) -> None:
    """Close the newest step: from now on the guard refuses changes to it."""
    from hermit.formats.freeze import seal

    for path in seal(_layout(root)):
        typer.echo(f"{path.name} is closed")


@app.command()
def generate(root: Checkout = None) -> None:
    """Generate the Python code of all versions from the protos."""
    from hermit.formats import codegen

    codegen.generate(_layout(root))


@app.command("list")
def list_steps(root: Checkout = None) -> None:
    """List the steps between the versions, with what each is for."""
    for version, path in _layout(root).steps().items():
        purpose = (ast.get_docstring(ast.parse(path.read_text())) or "").split("\n")[0]
        typer.echo(f"v{version} to v{version + 1}  {purpose}")

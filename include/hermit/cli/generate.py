"""`hermit generate`: fill the stash with a realistic catalog, of any format version and size."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(add_completion=False)
_OBJECTS = 1_000


@app.command()
def generate(
    objects: Annotated[
        int | None, typer.Option(min=1, help="About how many objects; by default 1,000.")
    ] = None,
    format_version: Annotated[int | None, typer.Option(help="By default the current one.")] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same catalog.")] = 1,
    like: Annotated[Path | None, typer.Option(help="Sizes, as `status --json` prints them.")] = None,
    organization_id: Annotated[
        str | None, typer.Option(help="The catalog; by default this home's own.")
    ] = None,
) -> None:
    """Fill a stash that holds no catalog yet; one that does is left as it is."""
    from hermit import settings as settings_module
    from hermit.errors import InvalidInput
    from hermit.formats.generate import rows
    from hermit.formats.versions import MIN_STASH_VERSION, STASH_VERSION
    from hermit.migration.load import load_rows
    from hermit.migration.stores import connect

    version = STASH_VERSION if format_version is None else format_version
    if not MIN_STASH_VERSION <= version <= STASH_VERSION:
        raise InvalidInput(
            f"there is no format version {version}", hint=f"choose {MIN_STASH_VERSION} to {STASH_VERSION}"
        )
    sizes = _read_sizes(like) if like else None
    if objects is None and sizes is None:
        objects = _OBJECTS
    settings = settings_module.load(organization_id)
    settings_module.ensure_home(settings.home)
    with settings_module.running_stores(settings):
        stores = connect(settings.stash_url, settings.shards, settings.organization_id)
        count = load_rows(stores, rows(objects, seed, version, like=sizes))
    typer.echo(f"wrote {count:,} rows of format version {version} to the stash of {settings.organization_id}")


def _read_sizes(path: Path) -> dict[str, Any]:
    from hermit.errors import InvalidInput

    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{path} holds no metrics: {error}") from error
    if not isinstance(found, dict):
        raise InvalidInput(f"{path} holds no metrics", hint="give what `hermit status --json` prints")
    return found

"""`hermit emergency-stash`: make the stash the truth when persist is lost."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from hermit.cli.options import OrganizationId

app = typer.Typer(add_completion=False)


@app.command()
def emergency_stash(
    organization_id: OrganizationId = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """Make the stash the truth although persist cannot be read; what only persist held is lost."""
    from hermit import settings as settings_module
    from hermit.cli.catalogs import confirm
    from hermit.migration.emergency import emergency_stash as rescue
    from hermit.migration.stores import connect

    settings = settings_module.load(organization_id)
    confirm(
        f"Make the stash the truth of {settings.organization_id}? What only persist holds will be lost.", yes
    )
    settings_module.ensure_home(settings.home)
    with settings_module.running_stores(settings):
        found = rescue(connect(settings.stash_url, settings.shards, settings.organization_id))
    typer.echo(json.dumps(found, indent=1) if as_json else _words(found))


def _words(found: dict[str, Any]) -> str:
    lines = [f"The truth is the stash, at epoch {found['epoch']}, digest {found['digest']}."]
    if not found["persist_fenced"]:
        lines.append("Persist did not answer: end whatever still uses it, for it could not be fenced.")
    differs = found["persist_differs"]
    if differs is None:
        lines.append("What was committed to persist since the last move could not be read, and is lost.")
    elif not differs:
        lines.append("Nothing is lost: persist held the same.")
    else:
        lines.append("Lost is what persist held differently, as rows and digest:")
        lines += [
            f"  {name}: stash {two['stash']}, persist {two['persist']}" for name, two in differs.items()
        ]
    return "\n".join(lines)

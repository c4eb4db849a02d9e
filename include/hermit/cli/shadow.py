"""`hermit shadow`: rehearse a move with the catalog's own traffic, on both kinds of store at once.

Nothing here touches the catalog: it is read, and what it did, or does while the command runs, is done
again on a stash and a shard of their own, which are removed in the end. The first difference, in any
result, error or dump, ends the rehearsal and is shown from both sides.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hermit.cli.catalogs import Json, Location, StashUrl, StoreOption, catalog, catalogs
from hermit.cli.options import OrganizationId

if TYPE_CHECKING:
    from hermit.durable.rehearsal import Report

app = typer.Typer(add_completion=False, no_args_is_help=True, rich_markup_mode=None)

Seconds = Annotated[float, typer.Option(min=0.0, help="How long to follow the catalog.")]
Commits = Annotated[int | None, typer.Option(min=1, help="Stop after so many commits.")]


@app.callback()
def _shadow() -> None:
    """Rehearse a move: the same traffic on both stores, compared."""


@app.command()
def replay(
    file: Annotated[Path | None, typer.Argument(help="Traffic that `record` wrote.")] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="What is committed from now on, instead of the history.")
    ] = False,
    seconds: Seconds = 60.0,
    commits: Commits = None,
    store: StoreOption = None,
    organization_id: OrganizationId = None,
    stash_url: StashUrl = None,
    location: Location = None,
    as_json: Json = False,
) -> None:
    """Do again on a scratch stash and a scratch shard what the catalog did, and compare every answer."""
    from hermit.durable import traffic
    from hermit.durable.rehearsal import rehearse, scratch_catalog

    with contextlib.ExitStack() as opened:
        found = opened.enter_context(catalogs(organization_id, stash_url, location))
        unopened = found.named(store)
        if file is not None:
            source = traffic.read(file)
        elif follow:
            reader = opened.enter_context(unopened.open_read_only())
            source = traffic.follow(reader, seconds, commits)
        else:
            source = traffic.from_history(unopened)
        report = rehearse(opened.enter_context(scratch_catalog(found.stores.stash_url)), source)
    typer.echo(json.dumps(_facts(report)) if as_json else _text(report))


@app.command()
def record(
    file: Annotated[Path, typer.Argument(help="Where to write the traffic to.")],
    seconds: Seconds = 60.0,
    commits: Commits = None,
    store: StoreOption = None,
    organization_id: OrganizationId = None,
    stash_url: StashUrl = None,
    location: Location = None,
) -> None:
    """Write down what is committed from now on, to be replayed later or elsewhere."""
    from hermit.durable import traffic
    from hermit.errors import InvalidInput

    with (
        catalog(store, organization_id, stash_url, location) as unopened,
        unopened.open_read_only() as reader,
    ):
        try:
            count = traffic.write(traffic.follow(reader, seconds, commits), file)
        except OSError as error:
            raise InvalidInput(f"cannot write to {file}: {error.strerror}") from error
    typer.echo(f"recorded {count:,} commits in {file}")


def _facts(report: Report) -> dict[str, object]:
    digests = {name: str(digest) for name, digest in (report.digests or {}).items()}
    return {
        "objects": report.objects,
        "commits": report.commits,
        "changes": report.changes,
        "equal": True,
        "digests": digests,
    }


def _text(report: Report) -> str:
    return (
        f"both stores gave the same answers: {report.objects:,} objects to begin with, "
        f"{report.commits:,} commits with {report.changes:,} changes"
    )

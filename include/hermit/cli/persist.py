"""`hermit persist …`: what an operator does to a location by hand.

Each command takes a location (a directory or an object-store URL), by default the shard of this home's
catalog. Only `unlock`, `compact`, `vacuum` and
`open --wipe-on-version-change` change anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from hermit.persist.client import PersistClient

app = typer.Typer(add_completion=False, no_args_is_help=True)

Location = Annotated[
    str | None, typer.Argument(help="A directory or object-store URL; by default this catalog's shard.")
]
Options = Annotated[
    list[str] | None, typer.Option("--storage-option", help="KEY=VALUE for the object store; repeatable.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


@app.command()
def show(location: Location = None, storage_option: Options = None) -> None:
    """Show version, lock, collections with their frontiers, and staged batches."""
    from hermit.persist.batch import list_staged

    with _open(location, storage_option, "ro") as client:
        state = client.state()
        holder = client.lock_holder()
        locked = f"locked by {holder}" if holder else "not locked"
        typer.echo(f"{client.location}: version {state.version}, {locked}")
        for name, frontier in sorted(state.frontiers.items()):
            files = state.files([name])
            rows, size = sum(file.rows for file in files), sum(file.bytes for file in files)
            typer.echo(f"  {name} {frontier}: {len(files)} files, {rows} updates, {size} bytes")
        for batch, size in list_staged(client.location, _options(storage_option)).items():
            typer.echo(f"  staged batch {batch}: {size} bytes")


@app.command()
def verify(location: Location = None, storage_option: Options = None) -> None:
    """Check every log entry, the checkpoint and every byte of every live file. Exit code 1 on damage."""
    from rich.console import Console
    from rich.progress import Progress

    from hermit.persist.storage.open import open_storage
    from hermit.persist.verify import verify as check

    storage = open_storage(_location(location), _options(storage_option))
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("verifying", total=None)
        report = check(storage, lambda done, total: bar.update(task, completed=done, total=total))
    for error in report.damage:
        typer.echo(error.message, err=True)
    typer.echo(
        f"{storage.location}: version {report.version}, {report.commits} commits, {report.files} files, "
        f"{report.rows} updates, {report.bytes} bytes verified, {report.unnamed_files} files unnamed"
    )
    if not report.is_sound:
        raise typer.Exit(1)


@app.command("open")
def open_(
    location: Location = None,
    storage_option: Options = None,
    wipe_on_version_change: Annotated[
        bool, typer.Option(help="Delete everything if another release wrote it in an unknown encoding.")
    ] = False,
) -> None:
    """Open a location to write, as a service does, and say whether this release can use it."""
    from hermit.persist.client import PersistClient
    from hermit.persist.storage.open import open_storage
    from hermit.persist.wipe import wipe_if_unknown

    storage = open_storage(_location(location), _options(storage_option))
    wiped = wipe_if_unknown(storage) if wipe_on_version_change else None
    if wiped is not None:
        typer.echo(str(wiped))
    with PersistClient.open(storage.location, storage=storage) as client:
        typer.echo(f"{client.location}: version {client.state().version}")


@app.command()
def unlock(location: Location = None, storage_option: Options = None, yes: Yes = False) -> None:
    """Break the write lock, after its holder is gone for good."""
    with _open(location, storage_option, "rw") as client:
        holder = client.lock_holder()
        if holder is None:
            typer.echo(f"{client.location} is not locked")
            return
        if not yes:
            typer.confirm(f"{client.location} is locked by {holder}. Is it gone for good?", abort=True)
        client.break_lock()
        typer.echo(f"broke the lock of {holder}")


@app.command()
def compact(location: Location = None, storage_option: Options = None) -> None:
    """Fold history up to since and merge files, in this process."""
    with _open(location, storage_option, "rw") as client:
        before = len(client.files())
        state = client.compact()
        typer.echo(f"{client.location}: {before} files became {len(state.live)} at version {state.version}")


@app.command()
def vacuum(
    location: Location = None,
    storage_option: Options = None,
    retention_hours: Annotated[float, typer.Option(help="Keep what was removed since then.")] = 24.0,
    dry_run: Annotated[bool, typer.Option(help="Only say what would go.")] = False,
) -> None:
    """Delete files that neither contents nor readers of the last hours need."""
    with _open(location, storage_option, "rw") as client:
        done = client.vacuum(retention_s=retention_hours * 3600, dry_run=dry_run)
        verb = "would delete" if dry_run else "deleted"
        typer.echo(
            f"{client.location}: {verb} {len(done.files)} files, {done.bytes} bytes, "
            f"{done.log_entries} log entries"
        )


def _open(location: str | None, options: list[str] | None, mode: str) -> PersistClient:
    from hermit.errors import NotInitialized
    from hermit.persist.client import PersistClient

    client = PersistClient.open(
        _location(location), mode="rw" if mode == "rw" else "ro", storage_options=_options(options)
    )
    if not client.is_initialized:
        raise NotInitialized(f"{client.location} does not exist", hint="check the path")
    return client


def _location(location: str | None) -> str:
    if location is not None:
        return location
    from hermit import settings

    return settings.load().persist_location


def _options(options: list[str] | None) -> dict[str, str] | None:
    from hermit.errors import InvalidInput

    parsed = {}
    for option in options or ():
        key, separator, value = option.partition("=")
        if not separator:
            raise InvalidInput(f"storage option {option!r} is not of the form KEY=VALUE")
        parsed[key] = value
    return parsed or None

"""`hermit debug`: look into a catalog, and mend it by hand. Also installed as `catalog-debug`.

Everything goes through the interface of the durable catalog, so that it works the same on the stash, on
persist and on a shadow of both. Looking never disturbs a running catalog. Changing one takes it over, as
any opener does; it is refused while somebody holds the catalog, tried in memory first, and asks.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hermit.cli.catalogs import (
    Json,
    Location,
    StashUrl,
    StoreOption,
    Yes,
    catalog,
    catalogs,
    confirm,
)
from hermit.cli.options import OrganizationId

if TYPE_CHECKING:
    from hermit.durable.abc import DurableCatalogState, UnopenedCatalogState
    from hermit.objects import Kind
    from hermit.rows import Update

app = typer.Typer(add_completion=False, no_args_is_help=True, rich_markup_mode=None)

_LOOKS = 10
_LOOK_AGAIN_S = 0.05

Target = Annotated[Path | None, typer.Argument(help="A file to write to; by default standard output.")]
KindArgument = Annotated[str, typer.Argument(metavar="KIND", help="The object type, as `dump` names it.")]
KeyArgument = Annotated[str, typer.Argument(metavar="KEY-JSON", help="The key, as `dump` shows it.")]
Fence = Annotated[
    bool, typer.Option("--fence", help="Go on although somebody holds the catalog, and fence it out.")
]


@app.callback()
def _debug() -> None:
    """Look into a catalog, and mend it by hand."""


@app.command()
def dump(
    target: Target = None,
    consolidate: Annotated[
        bool, typer.Option("--consolidate", help="What the updates sum to, instead of each one.")
    ] = False,
    ignore: Annotated[
        list[str] | None, typer.Option("--ignore", metavar="KIND", help="Leave this out; may be repeated.")
    ] = None,
    ignore_large_collections: Annotated[
        bool, typer.Option("--ignore-large-collections", help="Leave out what is not kept in memory.")
    ] = False,
    stats_only: Annotated[bool, typer.Option("--stats-only", help="Only how much there is.")] = False,
    store: StoreOption = None,
    organization_id: OrganizationId = None,
    stash_url: StashUrl = None,
    location: Location = None,
    as_json: Json = False,
) -> None:
    """Show everything that is stored: key and value as JSON, the way that edit and delete take them.

    Works on any format, also on one that was never upgraded, and beside a running catalog.
    """
    from hermit.cli import debug_views as views
    from hermit.durable.dump import updates_by_collection

    kinds = _kinds(ignore or [], ignore_large_collections)
    with catalog(store, organization_id, stash_url, location) as unopened, unopened.inspect() as found:
        updates = updates_by_collection(found.snapshot_unconsolidated())
    shown = {name: updates.get(name, []) for name in kinds}
    if stats_only:
        _emit(views.stats_json(shown) if as_json else views.stats_table(shown), target)
    else:
        shown = {name: _consolidated(rows) if consolidate else rows for name, rows in shown.items()}
        as_json = as_json or (target is not None and target.suffix == ".json")
        _emit(views.dump_json(shown, consolidate) if as_json else views.dump_text(shown, consolidate), target)


@app.command()
def edit(
    kind: KindArgument,
    key: KeyArgument,
    value: Annotated[str, typer.Argument(metavar="VALUE-JSON", help="The value that the object gets.")],
    fence: Fence = False,
    store: StoreOption = None,
    organization_id: OrganizationId = None,
    stash_url: StashUrl = None,
    location: Location = None,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Give one object another value, or make it; prints the previous value."""
    with catalog(store, organization_id, stash_url, location) as unopened:
        _change(unopened, kind, key, value, fence=fence, yes=yes, as_json=as_json)


@app.command()
def delete(
    kind: KindArgument,
    key: KeyArgument,
    fence: Fence = False,
    store: StoreOption = None,
    organization_id: OrganizationId = None,
    stash_url: StashUrl = None,
    location: Location = None,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Remove one object; prints what it was."""
    with catalog(store, organization_id, stash_url, location) as unopened:
        _change(unopened, kind, key, None, fence=fence, yes=yes, as_json=as_json)


@app.command()
def epoch(
    target: Target = None,
    store: StoreOption = None,
    organization_id: OrganizationId = None,
    stash_url: StashUrl = None,
    location: Location = None,
    as_json: Json = False,
) -> None:
    """Show the epoch that is stored. Nothing is fenced by it."""
    with catalog(store, organization_id, stash_url, location) as unopened:
        stored, name = unopened.epoch(), unopened.store
    facts = {"store": name, "epoch": stored}
    _emit(json.dumps(facts) if as_json else "none" if stored is None else str(stored), target)


@app.command("upgrade-check")
def upgrade_check(
    cluster_replica_sizes: Annotated[
        Path | None, typer.Option(help="The valid sizes: a JSON list, or an object with sizes as keys.")
    ] = None,
    store: StoreOption = None,
    organization_id: OrganizationId = None,
    stash_url: StashUrl = None,
    location: Location = None,
    as_json: Json = False,
) -> None:
    """Say whether this build could open the catalog, without disturbing or changing it."""
    sizes = None if cluster_replica_sizes is None else _sizes(cluster_replica_sizes)
    with catalog(store, organization_id, stash_url, location) as unopened:
        check, name = unopened.check_open(replica_sizes=sizes), unopened.store
    if as_json:
        typer.echo(json.dumps({"store": name, **check._asdict()}))
    elif check.found == check.current:
        typer.echo(
            f"the {name} catalog is at format {check.current} already; {check.objects:,} objects are sound"
        )
    else:
        typer.echo(
            f"the {name} catalog can be upgraded from format {check.found} to {check.current}; "
            f"all {check.objects:,} objects are sound afterwards"
        )


@app.command()
def diff(
    organization_id: OrganizationId = None,
    stash_url: StashUrl = None,
    location: Location = None,
    as_json: Json = False,
) -> None:
    """Compare the contents of stash and persist, object by object; exit code 1 if they differ."""
    from hermit.cli import debug_views as views
    from hermit.durable.diff import diff_rows

    with (
        catalogs(organization_id, stash_url, location) as found,
        found.stash.inspect() as stash,
        found.persist.inspect() as persist,
    ):
        differences = diff_rows(stash.snapshot(), persist.snapshot())
    typer.echo(views.diff_json(differences) if as_json else views.diff_text(differences))
    if differences:
        raise typer.Exit(1)


# Changing


def _change(
    unopened: UnopenedCatalogState,
    kind_name: str,
    key_json: str,
    value_json: str | None,
    *,
    fence: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Check everything that can be checked, ask, and only then take the catalog over."""
    from hermit.durable.transaction import kind_named
    from hermit.formats import codec

    kind = kind_named(kind_name)
    key = codec.from_json(kind, "key", _parse("key", key_json))
    value = None if value_json is None else codec.from_json(kind, "value", _parse("value", value_json))
    _refuse_unless_ready(unopened)
    if not fence:
        _refuse_if_held(unopened)
    with unopened.open_savepoint() as rehearsal:
        _apply(rehearsal, kind, key, value)
    retired = ", which is retired," if unopened.tombstone() else ""
    verb = "delete" if value is None else "edit"
    confirm(
        f"{verb} {kind.name} {key_json} in the {unopened.store} catalog{retired} "
        f"and take it over from epoch {unopened.epoch()}?",
        yes,
    )
    with unopened.open() as opened:
        previous = _apply(opened, kind, key, value)
        facts = {
            "kind": kind.name,
            "key": codec.to_json(kind, key),
            "previous": None if previous is None else codec.to_json(kind, previous),
            "value": None if value is None else codec.to_json(kind, value),
            "epoch": opened.epoch,
        }
    typer.echo(json.dumps(facts, ensure_ascii=False) if as_json else _change_text(facts))


def _apply(opened: DurableCatalogState, kind: Kind, key: Any, value: Any) -> Any:
    with opened.transaction() as transaction:
        table = transaction.table(kind.name)
        previous = table.delete(key) if value is None else table.set(key, value)
        opened.commit_transaction(transaction)
    return previous


def _refuse_unless_ready(unopened: UnopenedCatalogState) -> None:
    """An edit neither initializes a catalog nor upgrades one."""
    from hermit.durable.errors import UpgradeNeeded
    from hermit.errors import NotInitialized
    from hermit.formats.versions import STASH_VERSION

    found = unopened.format_version()
    if found is None:
        raise NotInitialized(
            f"the {unopened.store} catalog is not initialized", hint="there is nothing to edit"
        )
    if found != STASH_VERSION:
        raise UpgradeNeeded(
            f"the {unopened.store} catalog is at format {found}, and this build edits format {STASH_VERSION}",
            hint="use the build that last opened it, or let this one open it first",
            found=found,
            current=STASH_VERSION,
        )


def _refuse_if_held(unopened: UnopenedCatalogState) -> None:
    from hermit.durable.errors import Held

    # A server takes a moment to notice that a session has ended: whoever just let go holds nothing.
    holder = unopened.holder()
    for _ in range(_LOOKS):
        if holder is None:
            return
        time.sleep(_LOOK_AGAIN_S)
        holder = unopened.holder()
    if holder is not None:
        raise Held(
            f"the {unopened.store} catalog is held open by {holder}, at epoch {unopened.epoch()}; "
            "nothing was changed",
            hint="stop it first, or pass --fence to fence it out",
            holder=holder,
        )


def _parse(part: str, text: str) -> Any:
    from hermit.errors import InvalidInput

    try:
        return json.loads(text)
    except ValueError as error:
        raise InvalidInput(
            f"the {part} is not JSON: {error}", hint="quote it for the shell, as in '{...}'"
        ) from error


def _change_text(facts: dict[str, Any]) -> str:
    if facts["previous"] is None:
        return f"there was no such object; it was made (epoch {facts['epoch']})"
    previous = json.dumps(facts["previous"], ensure_ascii=False)
    gone = "deleted" if facts["value"] is None else "edited"
    return f"{gone} (epoch {facts['epoch']}); the previous value was:\n{previous}"


# Around the views


def _kinds(ignored: list[str], ignore_large: bool) -> list[str]:
    from hermit.durable.transaction import kind_named
    from hermit.objects import KINDS

    left_out = {kind_named(name).name for name in ignored}
    return [
        name
        for name, kind in KINDS.items()
        if name not in left_out and not (ignore_large and not kind.cached)
    ]


def _consolidated(updates: list[Update]) -> list[Update]:
    from hermit.rows import Update as Row
    from hermit.rows import consolidate

    return [Row(*row, 0, diff) for row, diff in sorted(consolidate(updates).items())]


def _emit(text: str, target: Path | None) -> None:
    from hermit.errors import InvalidInput

    if target is None:
        typer.echo(text)
        return
    try:
        target.write_text(text + "\n")
    except OSError as error:
        raise InvalidInput(f"cannot write to {target}: {error.strerror}") from error


def _sizes(path: Path) -> set[str]:
    from hermit.errors import InvalidInput

    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InvalidInput(f"cannot read the replica sizes in {path}: {error}") from error
    if not isinstance(found, list | dict) or not all(isinstance(size, str) for size in found):
        raise InvalidInput(
            f"{path} holds no replica sizes", hint='["small", "large"] or {"small": ..., "large": ...}'
        )
    return set(found)

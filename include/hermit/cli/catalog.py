"""`hermit catalog`: look at the versions of the catalog service, and at how they are written.

Nothing here fences anybody: the log is read from wherever the truth is, beside whoever serves it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hermit.cli.catalogs import Json, Location, StashUrl, StoreOption, aligned

if TYPE_CHECKING:
    from hermit.service.catalog import Catalog
    from hermit.service.log import LogContents

app = typer.Typer(help="Look at the versions of the catalog service.", no_args_is_help=True)

OrganizationId = Annotated[str | None, typer.Option(help="The catalog; by default this home's own.")]


@app.command()
def versions(
    organization_id: OrganizationId = None,
    store: StoreOption = None,
    stash_url: StashUrl = None,
    location: Location = None,
    as_json: Json = False,
) -> None:
    """List the versions that are available, when they became active, and what changed in them."""
    with _log(organization_id, store, stash_url, location) as contents:
        found = _versions(contents)
    if as_json:
        typer.echo(json.dumps(found, indent=1))
        return
    rows: list[tuple[str, ...]] = [("version", "active since", "changes")]
    rows += [(str(each["version"]), each["active_since"], ", ".join(each["changes"])) for each in found]
    typer.echo(aligned(rows) if found else "the catalog service has never been used here")


@app.command()
def show(
    version: Annotated[int | None, typer.Argument(help="By default the newest.")] = None,
    organization_id: OrganizationId = None,
    store: StoreOption = None,
    stash_url: StashUrl = None,
    location: Location = None,
    as_json: Json = False,
) -> None:
    """List every object of the catalog at a version."""
    from hermit.service.clock import HybridClock
    from hermit.service.follower import Follower

    with _log(organization_id, store, stash_url, location) as contents:
        follower = Follower(HybridClock())
        follower.adopt(contents)
    found = _objects(follower.catalog_at(version))
    if as_json:
        typer.echo(json.dumps(found, indent=1))
        return
    rows: list[tuple[str, ...]] = [("type", "id", "name", "changed")]
    rows += [(each["type"], str(each["id"]), each["name"], each["changed"]) for each in found]
    typer.echo(aligned(rows))


@app.command()
def serializers(as_json: Json = False) -> None:
    """List the serializers of the log: type, version, and the release that first wrote it."""
    from hermit.service.wire.registry import default_registry

    found = [
        {"type": each.type.name, "type_id": int(each.type), "version": each.version, "since": each.since}
        for each in default_registry()
    ]
    if as_json:
        typer.echo(json.dumps(found, indent=1))
        return
    rows: list[tuple[str, ...]] = [("type", "number", "version", "since")]
    rows += [
        (str(each["type"]), str(each["type_id"]), str(each["version"]), str(each["since"])) for each in found
    ]
    typer.echo(aligned(rows))


@app.command()
def release() -> None:
    """Record what the serializers of this release write, so that they can never change. For developers."""
    from hermit.service.wire import guard
    from hermit.service.wire.registry import unchecked_registry
    from hermit.service.wire.samples import sample

    registry, released = unchecked_registry(), guard.read_released()
    recorded = guard.release(registry, sample, released)
    guard.check_bytes(registry, recorded)
    guard.check_sources(registry, recorded)
    guard.RELEASED.write_text(json.dumps(recorded, indent=1) + "\n")
    for name in recorded:
        if name not in released:
            typer.echo(f"{name} is released")


@contextmanager
def _log(
    organization_id: str | None, store: Any, stash_url: str | None, location: str | None
) -> Iterator[LogContents]:
    from hermit.cli.catalogs import catalog
    from hermit.service.log import UpdateLog
    from hermit.service.wire.marshaller import UpdateLogMarshaller

    with (
        catalog(store, organization_id, stash_url, location) as found,
        found.open_read_only(preload=False) as state,
    ):
        yield UpdateLog(state, UpdateLogMarshaller()).read()


def _versions(contents: LogContents) -> list[dict[str, Any]]:
    base = contents.base()
    found = []
    if base.version:
        found.append({"version": base.version, "active_since": _time(base.time), "changes": ["snapshot"]})
    for update in contents.updates(base.version):
        changes = [entry.marshalled_type.name.lower() for entry in update.entries]
        found.append({"version": update.version, "active_since": _time(update.time), "changes": changes})
    return found


def _objects(catalog: Catalog) -> list[dict[str, Any]]:
    found = [catalog.object_by_id(id_) for id_ in sorted(catalog.homes)]
    return [
        {
            "type": each.object_type.word,
            "id": each.id,
            "name": catalog.path(each),
            "changed": _time(each.updated),
        }
        for each in found
        if each is not None
    ]


def _time(timestamp: Any) -> str:
    from hermit.service.clock import physical_ms

    return datetime.fromtimestamp(physical_ms(timestamp) / 1000, UTC).isoformat(timespec="milliseconds")

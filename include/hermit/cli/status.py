"""`hermit status`: where the truth is, and why."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

app = typer.Typer(add_completion=False)


@app.command()
def status(
    organization_id: Annotated[
        str | None, typer.Option(help="The catalog; by default this home's own.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
    as_prometheus: Annotated[
        bool, typer.Option("--prometheus", help="Metrics in Prometheus' text format.")
    ] = False,
) -> None:
    """Say where the truth is and why, with both stores side by side."""
    from hermit import settings as settings_module
    from hermit.migration.status import status as read_status
    from hermit.migration.stores import connect

    settings = settings_module.load(organization_id)
    settings_module.ensure_home(settings.home)
    with settings_module.running_stores(settings):
        stores = connect(settings.stash_url, settings.shards, settings.organization_id)
        found = read_status(stores, settings.home / "caches" / "digests")
    if as_prometheus:
        from hermit.migration.metrics import prometheus

        typer.echo(prometheus(found), nl=False)
    else:
        typer.echo(json.dumps(found, indent=1) if as_json else _table(found))


_ROWS = ("initialized", "epoch", "tombstone", "format_version", "rows", "bytes", "digest")


def _table(found: dict[str, Any]) -> str:
    stores = ("stash", "persist")
    table: list[tuple[str, ...]] = [("", *stores)]
    for name in _ROWS:
        table.append((name.replace("_", " "), *(_text(name, found[store][name]) for store in stores)))
    widths = [max(len(row[column]) for row in table) for column in range(3)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    ]
    persist = found["persist"]
    return "\n".join(
        [
            f"Catalog {found['organization_id']}, {found['protocol']}-tombstone protocol",
            f"The truth is {found['source_of_truth']}: {found['why']}.",
            "",
            *lines,
            "",
            f"shard {persist['shard_id']}: "
            + ", ".join(
                f"{name} {_text(name, persist[name])}" for name in ("delta_version", "since", "upper")
            ),
            *(line for store in stores for line in _upgrade(store, found[store]["last_upgrade"])),
        ]
    )


def _upgrade(store: str, upgrade: dict[str, Any] | None) -> Iterator[str]:
    """The last upgrade of a store: sizes of all collections together around each step."""
    if upgrade is None:
        return
    at = datetime.fromtimestamp(upgrade["at_ms"] / 1000, UTC).isoformat(" ", "seconds")
    yield ""
    yield f"{store} upgraded from format {upgrade['found']} to {upgrade['current']}, {at}:"
    for step in upgrade["steps"]:
        sizes = step["collections"].values()
        rows, size = (
            " -> ".join(f"{sum(size[f'{unit}_{when}'] for size in sizes):,}" for when in ("before", "after"))
            for unit in ("rows", "bytes")
        )
        yield f"  v{step['from']} to v{step['to']}: {rows} rows, {size} bytes"


def _text(name: str, value: object) -> str:
    if name == "tombstone":
        return {None: "absent", True: "true", False: "false"}[value]  # type: ignore[index]
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)

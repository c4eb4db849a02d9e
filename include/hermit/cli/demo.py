"""The demo catalog: what `migrate` finds on an untouched machine, so that there is something to move."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from hermit.migration.stores import Stores
    from hermit.settings import Settings

_OBJECTS = 1_000
_SEED = 1


def make_demo_catalog(settings: Settings, stores: Stores) -> None:
    """Fill the embedded stash of a catalog that nobody ever opened. A configured stash is left alone."""
    if not settings.stash_is_embedded or stores.stash.is_initialized() or stores.persist.is_initialized():
        return
    from hermit.formats.generate import rows
    from hermit.migration.load import load_rows

    typer.echo(f"hermit: this stash is new; filling it with a demo catalog of {_OBJECTS:,} objects", err=True)
    load_rows(stores, rows(_OBJECTS, _SEED))

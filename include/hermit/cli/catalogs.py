"""How commands find the catalog that they are about: by settings, or by what was given."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from hermit.durable.abc import UnopenedCatalogState
    from hermit.durable.persist import UnopenedPersistCatalog
    from hermit.durable.stash import UnopenedStashCatalog
    from hermit.migration.stores import Stores
    from hermit.settings import Settings


class StoreName(StrEnum):
    """Where a catalog may be looked for."""

    STASH = "stash"
    PERSIST = "persist"
    SHADOW = "shadow"


StoreOption = Annotated[
    StoreName | None, typer.Option("--store", help="By default the one that holds the truth.")
]
StashUrl = Annotated[
    str | None, typer.Option("--stash-url", help="PostgreSQL, as libpq takes it; by default from settings.")
]
Location = Annotated[
    str | None, typer.Option("--location", help="The shard's directory or URI; by default from settings.")
]
Json = Annotated[bool, typer.Option("--json", help="For programs.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


@dataclass(frozen=True)
class Catalogs:
    """Both stores of one catalog, neither opened."""

    stores: Stores

    @property
    def stash(self) -> UnopenedStashCatalog:
        return self.stores.stash

    @property
    def persist(self) -> UnopenedPersistCatalog:
        return self.stores.persist

    def truth(self) -> StoreName:
        """Which store holds the truth."""
        return StoreName(self.stores.state().truth.store.value)

    def named(self, store: StoreName | None) -> UnopenedCatalogState:
        """The catalog on this store, or, if none is named, on the one that holds the truth."""
        from hermit.durable import init_shadow_catalog_state

        name = store or self.truth()
        if name is StoreName.SHADOW:
            return init_shadow_catalog_state(self.stash, self.persist)
        return self.stash if name is StoreName.STASH else self.persist


@contextlib.contextmanager
def catalogs(
    organization_id: str | None, stash_url: str | None, location: str | None, *, needs_stash: bool = True
) -> Iterator[Catalogs]:
    """Both stores, with the embedded PostgreSQL running where it is needed."""
    from hermit import settings as settings_module
    from hermit.migration.stores import connect_at

    settings = settings_module.load(organization_id)
    if stash_url is not None:
        settings = replace(settings, configured_stash_url=stash_url)
    shard = settings.persist_location if location is None else location
    with _running(settings) if needs_stash else contextlib.nullcontext():
        yield Catalogs(connect_at(settings.stash_url, shard, settings.organization_id))


@contextlib.contextmanager
def catalog(
    store: StoreName | None, organization_id: str | None, stash_url: str | None, location: str | None
) -> Iterator[UnopenedCatalogState]:
    """One catalog, not opened."""
    needs_stash = store is not StoreName.PERSIST
    with catalogs(organization_id, stash_url, location, needs_stash=needs_stash) as found:
        yield found.named(store)


@contextlib.contextmanager
def _running(settings: Settings) -> Iterator[None]:
    from hermit import settings as settings_module

    if settings.stash_is_embedded:
        settings_module.ensure_home(settings.home)
    with settings_module.running_stores(settings):
        yield


def confirm(question: str, yes: bool) -> None:
    """Ask before something is changed. Whoever cannot answer has not agreed."""
    from hermit.errors import HermitError

    if yes:
        return
    try:
        agreed = typer.confirm(question, err=True)
    except typer.Abort:
        agreed = False
    if not agreed:
        raise HermitError("not confirmed: nothing was changed", hint="--yes skips the question")


def aligned(rows: list[tuple[str, ...]]) -> str:
    """Lines of columns that are as wide as their widest cell, the last one never cut nor padded."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )

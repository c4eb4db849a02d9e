"""Small catalogs and commands to test with."""

from __future__ import annotations

from hermit.service.accept import expand
from hermit.service.catalog import Catalog
from hermit.service.clock import HybridTimestamp, hybrid
from hermit.service.commands import (
    CatalogCommand,
    ColumnDefinition,
    CreateIndex,
    CreateSchema,
    CreateSequence,
    CreateTable,
    CreateView,
    CreateZone,
    SetDefaultZone,
)
from hermit.service.types import ColumnType
from hermit.service.update import VersionedUpdate


def at_ms(ms: int) -> HybridTimestamp:
    return hybrid(ms)


def after(catalog: Catalog, *commands: CatalogCommand) -> Catalog:
    """The next version."""
    return update(catalog, *commands).apply(catalog)


def update(catalog: Catalog, *commands: CatalogCommand) -> VersionedUpdate:
    """What the next version would be recorded as."""
    time = hybrid((catalog.version + 1) * 1000)
    entries, _ = expand(catalog, commands, time)
    return VersionedUpdate(catalog.version + 1, time, entries)


def column(name: str, type_: ColumnType = ColumnType.INT32, **fields: object) -> ColumnDefinition:
    return ColumnDefinition(name=name, type=type_, **fields)  # type: ignore[arg-type]


def table(name: str, *columns: ColumnDefinition, **fields: object) -> CreateTable:
    """A table with a key, and the columns given."""
    fields.setdefault("schema", "shop")
    key = column("id", ColumnType.INT64, nullable=False)
    return CreateTable(name=name, columns=(key, *columns), primary_key=("id",), **fields)  # type: ignore[arg-type]


def beginning() -> Catalog:
    """A schema `shop`, a default zone `warm` and nothing else."""
    return after(Catalog(), CreateZone(name="warm"), SetDefaultZone(name="warm"), CreateSchema(name="shop"))


def shop() -> Catalog:
    """One object of every type: table `orders`, index `by_amount`, view `large`, sequence `numbers`."""
    return after(
        beginning(),
        table("orders", column("amount"), column("note", ColumnType.STRING, length=20)),
        CreateIndex(schema="shop", name="by_amount", table="orders", columns=("amount",)),
        CreateView(schema="shop", name="large", query="select 1", depends_on=(("shop", "orders"),)),
        CreateSequence(schema="shop", name="numbers"),
        CreateZone(name="cold", replicas=3),
    )

"""Commands: what each does, and the rule behind every refusal."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hermit.service import errors
from hermit.service.catalog import Catalog
from hermit.service.clock import hybrid
from hermit.service.commands import (
    AlterSequence,
    AlterView,
    AlterZone,
    CatalogCommand,
    CreateIndex,
    CreateSchema,
    CreateSequence,
    CreateView,
    CreateZone,
    DropIndex,
    DropSchema,
    DropSequence,
    DropTable,
    DropView,
    DropZone,
    RenameIndex,
    RenameSchema,
    RenameSequence,
    RenameTable,
    RenameView,
    RenameZone,
    SetDefaultZone,
)
from hermit.service.descriptors import Collation, IndexKind
from tests.service.world import after, beginning, column, shop, table, update

SHOP = {"schema": "shop"}


@pytest.mark.row("I-6")
def test_a_command_is_built_and_validated_apart_from_any_catalog() -> None:
    command = table("orders")
    assert command.plan(beginning())
    with pytest.raises(errors.InvalidCommand):
        table("")


CREATIONS: list[CatalogCommand] = [
    CreateZone(name="warm", if_not_exists=True),
    CreateSchema(name="shop", if_not_exists=True),
    table("orders", if_not_exists=True),
    CreateIndex(**SHOP, name="by_amount", table="orders", columns=("amount",), if_not_exists=True),
    CreateView(**SHOP, name="large", query="select 1", if_not_exists=True),
    CreateSequence(**SHOP, name="numbers", if_not_exists=True),
]


@pytest.mark.parametrize("command", CREATIONS, ids=lambda each: type(each).__name__)
def test_creating_what_exists_is_refused_unless_asked_for_if_it_does_not(command: CatalogCommand) -> None:
    from dataclasses import replace

    assert command.plan(shop()) == []
    with pytest.raises(errors.ObjectExists):
        replace(command, if_not_exists=False).plan(shop())  # type: ignore[type-var]


def test_if_not_exists_does_not_take_another_type_for_the_object() -> None:
    with pytest.raises(errors.ObjectExists, match="it is a table"):
        CreateView(**SHOP, name="orders", query="select 1", if_not_exists=True).plan(shop())


@pytest.mark.parametrize("name", ["orders", "by_amount", "large", "numbers"])
def test_all_objects_of_a_schema_share_one_space_of_names(name: str) -> None:
    for command in (
        table(name),
        CreateIndex(**SHOP, name=name, table="orders", columns=("amount",)),
        CreateView(**SHOP, name=name, query="select 1"),
        CreateSequence(**SHOP, name=name),
    ):
        with pytest.raises(errors.ObjectExists):
            command.plan(shop())


RENAMES: list[tuple[CatalogCommand, Callable[[Catalog, str], object]]] = [
    (RenameZone(name="cold", new_name="new"), lambda c, n: c.zone(n)),
    (RenameSchema(name="shop", new_name="new"), lambda c, n: c.schema(n)),
    (RenameTable(**SHOP, name="orders", new_name="new"), lambda c, n: c.table("shop", n)),
    (RenameIndex(**SHOP, name="by_amount", new_name="new"), lambda c, n: c.index("shop", n)),
    (RenameView(**SHOP, name="large", new_name="new"), lambda c, n: c.view("shop", n)),
    (RenameSequence(**SHOP, name="numbers", new_name="new"), lambda c, n: c.sequence("shop", n)),
]


@pytest.mark.parametrize(("command", "find"), RENAMES, ids=lambda each: type(each).__name__)
def test_renaming_keeps_the_object_and_frees_its_name(
    command: CatalogCommand, find: Callable[[Catalog, str], object]
) -> None:
    from dataclasses import replace

    before = shop()
    name: str = command.name  # type: ignore[attr-defined]
    later = after(before, command)
    assert find(later, name) is None
    assert find(later, "new").id == find(before, name).id  # type: ignore[attr-defined]
    with pytest.raises(errors.ObjectNotFound):
        command.plan(later)
    assert replace(command, if_exists=True).plan(later) == []  # type: ignore[type-var]
    with pytest.raises(errors.ObjectExists):
        replace(command, new_name=name).plan(before)  # type: ignore[type-var]


DROPS: list[CatalogCommand] = [
    DropZone(name="cold"),
    DropIndex(**SHOP, name="by_amount"),
    DropView(**SHOP, name="large"),
    DropSequence(**SHOP, name="numbers"),
]


@pytest.mark.parametrize("command", DROPS, ids=lambda each: type(each).__name__)
def test_dropping_ends_an_object_once(command: CatalogCommand) -> None:
    from dataclasses import replace

    later = after(shop(), command)
    assert len(later) == len(shop()) - 1
    with pytest.raises(errors.ObjectNotFound):
        command.plan(later)
    assert replace(command, if_exists=True).plan(later) == []  # type: ignore[type-var]


def test_a_table_is_dropped_with_its_indexes_but_not_while_a_view_reads_it() -> None:
    with pytest.raises(errors.ObjectInUse, match=r"view shop\.large") as refused:
        DropTable(**SHOP, name="orders").plan(shop())
    assert refused.value.dependents == ("view shop.large",)
    later = after(shop(), DropView(**SHOP, name="large"), DropTable(**SHOP, name="orders"))
    assert later.index("shop", "by_amount") is None
    assert later.table("shop", "orders") is None


def test_a_schema_with_contents_is_dropped_only_with_them() -> None:
    with pytest.raises(errors.ObjectInUse, match="holds 4 objects"):
        DropSchema(name="shop").plan(shop())
    later = after(shop(), DropSchema(name="shop", cascade=True))
    assert later.schema("shop") is None
    assert {each.name for each in later.zones} == {"warm", "cold"}
    assert len(later) == 2


def test_a_schema_is_not_dropped_under_a_view_elsewhere() -> None:
    catalog = after(
        shop(),
        CreateSchema(name="reports"),
        CreateView(schema="reports", name="daily", query="select 1", depends_on=(("shop", "orders"),)),
    )
    with pytest.raises(errors.ObjectInUse, match=r"view reports\.daily"):
        DropSchema(name="shop", cascade=True).plan(catalog)


def test_dropping_a_schema_that_is_not_there() -> None:
    assert DropSchema(name="nowhere", if_exists=True).plan(shop()) == []
    with pytest.raises(errors.ObjectNotFound):
        DropSchema(name="nowhere").plan(shop())


def test_a_command_in_a_schema_that_is_not_there_names_the_schema() -> None:
    for command in (
        table("t", schema="nowhere"),
        DropTable(schema="nowhere", name="t"),
        RenameTable(schema="nowhere", name="t", new_name="u"),
        CreateSequence(schema="nowhere", name="s"),
    ):
        with pytest.raises(errors.ObjectNotFound, match="no schema 'nowhere'"):
            command.plan(shop())
    assert DropTable(schema="nowhere", name="t", if_exists=True).plan(shop()) == []


def test_dropping_an_object_as_another_type_says_what_it_is() -> None:
    with pytest.raises(errors.ObjectNotFound, match=r"shop\.large is a view, not a table"):
        DropTable(**SHOP, name="large", if_exists=True).plan(shop())


# Zones


def test_a_zone_in_use_or_by_default_is_not_dropped() -> None:
    with pytest.raises(errors.ObjectInUse, match="default zone"):
        DropZone(name="warm").plan(shop())
    catalog = after(shop(), SetDefaultZone(name="cold"))
    with pytest.raises(errors.ObjectInUse, match=r"table shop\.orders"):
        DropZone(name="warm").plan(catalog)


def test_a_table_goes_to_the_zone_that_it_names_or_to_the_default() -> None:
    catalog = after(shop(), table("a", zone="cold"), table("b"))
    found = {each.id: each.name for each in catalog.zones}
    assert found[catalog.table("shop", "a").zone_id] == "cold"  # type: ignore[union-attr]
    assert found[catalog.table("shop", "b").zone_id] == "warm"  # type: ignore[union-attr]
    with pytest.raises(errors.ObjectNotFound, match="no zone 'hot'"):
        table("c", zone="hot").plan(catalog)
    with pytest.raises(errors.ObjectNotFound, match="no default zone"):
        table("c").plan(after(Catalog(), CreateSchema(name="shop")))


def test_a_zone_changes_what_is_given_and_nothing_else() -> None:
    catalog = after(shop(), AlterZone(name="cold", replicas=5))
    cold = catalog.zone("cold")
    assert cold is not None
    assert (cold.replicas, cold.partitions) == (5, 25)
    assert AlterZone(name="cold", replicas=5).plan(catalog) == []
    assert AlterZone(name="hot", replicas=5, if_exists=True).plan(catalog) == []
    with pytest.raises(errors.ObjectNotFound):
        AlterZone(name="hot", replicas=5).plan(catalog)
    assert SetDefaultZone(name="warm").plan(catalog) == []


@pytest.mark.parametrize(
    "fields",
    [
        {"partitions": 0},
        {"partitions": 65_001},
        {"replicas": 0},
        {"replicas": 1_001},
        {"filter": " "},
        {"storage_profiles": ()},
        {"storage_profiles": ("a", "a")},
        {"name": ""},
    ],
    ids=str,
)
def test_a_zone_that_makes_no_sense_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(errors.InvalidCommand):
        CreateZone(**{"name": "zone", **fields})  # type: ignore[arg-type]


# Indexes


def test_an_index_is_sorted_when_it_has_collations_and_hashed_otherwise() -> None:
    catalog = after(
        shop(),
        CreateIndex(
            **SHOP,
            name="sorted",
            table="orders",
            columns=("note", "amount"),
            collations=(Collation.ASC_NULLS_LAST, Collation.DESC_NULLS_FIRST),
        ),
    )
    index = catalog.index("shop", "sorted")
    assert index is not None
    assert index.kind is IndexKind.SORTED
    assert [part.column_id for part in index.columns] == [3, 2]
    assert catalog.index("shop", "by_amount").kind is IndexKind.HASH  # type: ignore[union-attr]


def test_an_index_needs_columns_of_its_table() -> None:
    with pytest.raises(errors.ColumnNotFound):
        CreateIndex(**SHOP, name="i", table="orders", columns=("nothing",)).plan(shop())
    with pytest.raises(errors.ObjectNotFound):
        CreateIndex(**SHOP, name="i", table="large", columns=("amount",)).plan(shop())
    for fields in (
        {"columns": ()},
        {"columns": ("a", "a")},
        {"columns": ("a", "b"), "collations": (Collation.ASC_NULLS_LAST,)},
        {"columns": ("a",), "collations": (Collation.NONE,)},
    ):
        with pytest.raises(errors.InvalidCommand):
            CreateIndex(**SHOP, name="i", table="orders", **fields)  # type: ignore[arg-type]


def test_a_unique_index_holds_the_columns_by_which_rows_are_spread() -> None:
    with pytest.raises(errors.InvalidCommand, match="colocation"):
        CreateIndex(**SHOP, name="i", table="orders", columns=("amount",), is_unique=True).plan(shop())
    assert CreateIndex(**SHOP, name="i", table="orders", columns=("amount", "id"), is_unique=True).plan(
        shop()
    )


# Views


def test_a_view_names_relations_that_exist() -> None:
    with pytest.raises(errors.ObjectNotFound):
        CreateView(**SHOP, name="v", query="q", depends_on=(("shop", "numbers"),)).plan(shop())
    with pytest.raises(errors.InvalidCommand):
        CreateView(**SHOP, name="v", query=" ")
    with pytest.raises(errors.InvalidCommand):
        CreateView(**SHOP, name="v", query="q", depends_on=(("shop", "orders"), ("shop", "orders")))


def test_views_never_depend_on_themselves() -> None:
    catalog = after(shop(), CreateView(**SHOP, name="top", query="q", depends_on=(("shop", "large"),)))
    with pytest.raises(errors.InvalidCommand, match="itself"):
        AlterView(**SHOP, name="large", query="q", depends_on=(("shop", "top"),)).plan(catalog)
    with pytest.raises(errors.ObjectInUse):
        DropView(**SHOP, name="large").plan(catalog)


def test_altering_a_view_moves_its_dependencies() -> None:
    catalog = after(shop(), AlterView(**SHOP, name="large", query="select 2"))
    assert catalog.view("shop", "large").query == "select 2"  # type: ignore[union-attr]
    assert after(catalog, DropTable(**SHOP, name="orders")).table("shop", "orders") is None
    assert AlterView(**SHOP, name="large", query="select 2").plan(catalog) == []
    assert AlterView(**SHOP, name="none", query="select 2", if_exists=True).plan(catalog) == []


# Sequences


@pytest.mark.parametrize(
    "fields",
    [
        {"increment": 0},
        {"minimum": 5, "maximum": 5},
        {"start": 0},
        {"maximum": 2**63},
        {"minimum": -(2**63) - 1},
        {"maximum": 10, "increment": 10},
    ],
    ids=str,
)
def test_a_sequence_that_cannot_run_is_refused(fields: dict[str, int]) -> None:
    with pytest.raises(errors.InvalidCommand):
        CreateSequence(**SHOP, name="s", **fields)  # type: ignore[arg-type]


def test_a_sequence_changes_within_the_same_rules() -> None:
    catalog = after(shop(), AlterSequence(**SHOP, name="numbers", maximum=100, cycle=True))
    numbers = catalog.sequence("shop", "numbers")
    assert numbers is not None
    assert (numbers.maximum, numbers.cycle, numbers.start) == (100, True, 1)
    with pytest.raises(errors.InvalidCommand):
        AlterSequence(**SHOP, name="numbers", minimum=2).plan(catalog)
    assert AlterSequence(**SHOP, name="numbers", maximum=100).plan(catalog) == []
    assert AlterSequence(**SHOP, name="none", maximum=100, if_exists=True).plan(catalog) == []


# Names


@pytest.mark.parametrize("name", ["", "x" * 256, " a", "a ", "a\0b", "a\nb"])
def test_a_name_that_people_could_not_type_is_refused(name: str) -> None:
    for build in (
        lambda: CreateSchema(name=name),
        lambda: RenameSchema(name="shop", new_name=name),
        lambda: table(name),
        lambda: column(name),
        lambda: CreateZone(name=name),
        lambda: CreateSequence(**SHOP, name=name),
    ):
        with pytest.raises(errors.InvalidCommand):
            build()


# Several at once


def test_commands_of_one_request_build_on_each_other_and_give_one_version() -> None:
    catalog = after(
        beginning(),
        table("a", column("x")),
        CreateIndex(**SHOP, name="i", table="a", columns=("x",)),
        RenameTable(**SHOP, name="a", new_name="b"),
    )
    assert catalog.version == 2
    assert catalog.time == hybrid(2000)
    assert catalog.index("shop", "i").table_id == catalog.table("shop", "b").id  # type: ignore[union-attr]


@pytest.mark.row("I-8")
def test_applying_the_entries_to_the_version_before_gives_the_version_exactly() -> None:
    base = beginning()
    found = update(base, table("a"), CreateSequence(**SHOP, name="s"))
    catalog = found.apply(base)
    assert catalog == found.apply(base)
    assert (catalog.version, catalog.time) == (found.version, found.time)
    assert catalog.next_id == base.next_id + 2
    assert catalog.table("shop", "a").updated == found.time  # type: ignore[union-attr]

"""Commands at the edges: of types, of names, of sizes, and of what was there a moment ago."""

from __future__ import annotations

from typing import Any

import pytest

from hermit.service import errors, log
from hermit.service.accept import expand
from hermit.service.catalog import Catalog
from hermit.service.commands import (
    AddColumns,
    AlterColumn,
    AlterView,
    CatalogCommand,
    ColumnDefinition,
    CreateIndex,
    CreateSchema,
    CreateSequence,
    CreateTable,
    CreateView,
    CreateZone,
    DropSchema,
    DropTable,
    RenameSchema,
    RenameTable,
)
from hermit.service.types import ColumnType, Constant
from tests.service.conftest import Cluster
from tests.service.world import after, beginning, column, shop, table

SHOP = {"schema": "shop"}


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (CreateSchema, {"name": 5}),
        (CreateSchema, {"name": b"shop"}),
        (CreateSchema, {"name": None}),
        (CreateSchema, {"name": "s", "if_not_exists": "yes"}),
        (CreateZone, {"name": "z", "replicas": "3"}),
        (CreateZone, {"name": "z", "replicas": True}),
        (CreateZone, {"name": "z", "storage_profiles": "default"}),
        (CreateZone, {"name": "z", "filter": "\ud800"}),
        (CreateSequence, {**SHOP, "name": "s", "start": 1.5}),
        (CreateView, {**SHOP, "name": "v", "query": "half \udc00"}),
        (CreateView, {**SHOP, "name": "v", "query": "q", "depends_on": ("orders",)}),
        (CreateView, {**SHOP, "name": "v", "query": "q", "depends_on": (("a", "b", "c"),)}),
        (CreateIndex, {**SHOP, "name": "i", "table": "orders", "columns": "amount"}),
        (CreateTable, {**SHOP, "name": "t", "columns": (column("id", nullable=False),), "primary_key": "id"}),
        (CreateTable, {**SHOP, "name": "t", "columns": ("id",), "primary_key": ("id",)}),
        (ColumnDefinition, {"name": "c", "type": 4}),
        (ColumnDefinition, {"name": "c", "type": ColumnType.STRING, "default": "plain text"}),
        (ColumnDefinition, {"name": "c", "type": ColumnType.STRING, "default": Constant("\ud800")}),
        (AlterColumn, {**SHOP, "name": "orders", "column": "amount", "default": 5}),
    ],
)
def test_what_is_of_another_type_than_declared_is_refused_when_it_is_built(
    kind: type[Any], given: dict[str, Any]
) -> None:
    with pytest.raises(errors.InvalidCommand):
        kind(**given)


def test_lists_become_tuples_so_that_nobody_changes_them_later(stash_cluster: Cluster) -> None:
    profiles, columns = ["a", "b"], [column("id", nullable=False)]
    zone = CreateZone(name="z", storage_profiles=profiles)  # type: ignore[arg-type]
    made = CreateTable(schema="public", name="t", columns=columns, primary_key=["id"])  # type: ignore[arg-type]
    view = CreateView(schema="public", name="v", query="q", depends_on=[["public", "t"]])  # type: ignore[arg-type, list-item]
    profiles.append("c")
    columns.clear()
    one, two = stash_cluster.node(), stash_cluster.node()
    stash_cluster.result(one.execute([zone, made, view]))
    stash_cluster.until(lambda: two.catalog_latest().version == 2)
    # What the executing node made itself is what the others read from the log.
    assert one.catalog_latest() == two.catalog_latest()
    found = two.catalog_latest().zone("z")
    assert found is not None
    assert found.storage_profiles == ("a", "b")


@pytest.mark.parametrize("given", [[], ["text"], "text", [None], [CreateSchema(name="s"), 5], [[]]])
def test_what_is_no_command_is_refused_and_nothing_is_written(stash_cluster: Cluster, given: Any) -> None:
    node = stash_cluster.node()
    with pytest.raises(errors.InvalidCommand):
        stash_cluster.result(node.execute(given))
    assert stash_cluster.result(node.execute(CreateSchema(name="t"))).version == 2


def test_names_are_told_apart_letter_by_letter() -> None:
    names = [
        "Orders",
        "orders",
        "ORDERS",
        "größe",
        "grösse",
        "GRÖSSE",
        "表",
        "emoji 🦀",
        "caf\u00e9",
        "cafe\u0301",
    ]
    catalog = after(beginning(), *(table(name) for name in names))
    ids = {name: catalog.table("shop", name).id for name in names}  # type: ignore[union-attr]
    assert len(set(ids.values())) == len(names)
    catalog = after(catalog, RenameTable(**SHOP, name="orders", new_name="oRDERS"))
    assert catalog.table("shop", "orders") is None
    assert catalog.table("shop", "Orders") is not None


@pytest.mark.parametrize(
    "command",
    [
        table("t"),
        CreateSequence(**SHOP, name="s"),
        CreateView(**SHOP, name="v", query="q"),
        DropTable(**SHOP, name="orders"),
        AddColumns(**SHOP, name="orders", columns=(column("c"),)),
        CreateIndex(**SHOP, name="i", table="orders", columns=("amount",)),
    ],
)
def test_nothing_is_done_in_a_schema_that_was_dropped_a_moment_ago(command: CatalogCommand) -> None:
    dropped = after(shop(), DropSchema(name="shop", cascade=True))
    with pytest.raises(errors.ObjectNotFound, match="no schema 'shop'"):
        command.plan(dropped)
    # Within one request too, and then none of it happens.
    with pytest.raises(errors.ObjectNotFound, match="no schema 'shop'"):
        after(shop(), DropSchema(name="shop", cascade=True), command)


def test_a_schema_made_anew_is_another_one() -> None:
    before = shop()
    catalog = after(before, DropSchema(name="shop", cascade=True), CreateSchema(name="shop"), table("orders"))
    old, new = before.table("shop", "orders"), catalog.table("shop", "orders")
    assert old is not None
    assert new is not None
    assert new.id > old.id
    assert new.schema_id > old.schema_id
    assert catalog.object_by_id(old.id) is None
    assert [each.name for each in catalog.schema("shop").members()] == ["orders"]  # type: ignore[union-attr]


def test_names_are_exchanged_within_one_version() -> None:
    catalog = after(beginning(), CreateSchema(name="other"), table("a"), table("b"))
    ids = [catalog.table("shop", name).id for name in "ab"]  # type: ignore[union-attr]
    with pytest.raises(errors.ObjectExists):
        after(catalog, RenameTable(**SHOP, name="a", new_name="b"))
    exchanged = after(
        catalog,
        RenameTable(**SHOP, name="a", new_name="c"),
        RenameTable(**SHOP, name="b", new_name="a"),
        RenameTable(**SHOP, name="c", new_name="b"),
        RenameSchema(name="shop", new_name="tmp"),
        RenameSchema(name="other", new_name="shop"),
        RenameSchema(name="tmp", new_name="other"),
    )
    assert [exchanged.table("other", name).id for name in "ba"] == ids  # type: ignore[union-attr]
    assert exchanged.schema("shop").is_empty  # type: ignore[union-attr]


def test_a_name_that_is_freed_in_the_same_request_can_be_taken() -> None:
    catalog = after(shop(), RenameTable(**SHOP, name="orders", new_name="old"), table("orders"))
    assert catalog.table("shop", "orders") is not None
    with pytest.raises(errors.ObjectExists):
        after(shop(), table("orders"), RenameTable(**SHOP, name="orders", new_name="old"))


def test_views_upon_views_are_dropped_with_their_schema_however_deep() -> None:
    catalog, depth = after(beginning(), table("v0")), 1_500
    views = [
        CreateView(**SHOP, name=f"v{number}", query="q", depends_on=(("shop", f"v{number - 1}"),))
        for number in range(1, depth)
    ]
    catalog = after(catalog, *views)
    with pytest.raises(errors.InvalidCommand, match="depend on itself"):
        AlterView(**SHOP, name="v1", query="q", depends_on=(("shop", f"v{depth - 1}"),)).plan(catalog)
    with pytest.raises(errors.ObjectInUse):
        DropTable(**SHOP, name="v0").plan(catalog)
    entries, left = expand(catalog, [DropSchema(name="shop", cascade=True)], catalog.time)
    assert len(entries) == depth + 1
    assert list(left.schemas) == []


def test_a_request_of_thousands_of_commands_is_one_version(stash_cluster: Cluster) -> None:
    node, other = stash_cluster.node(), stash_cluster.node()
    many = [CreateSchema(name=f"s{number}") for number in range(3_000)]
    assert stash_cluster.result(node.execute(many)).version == 2
    stash_cluster.until(lambda: other.catalog_latest().version == 2)
    assert len(other.catalog_latest().schemas) == 3_001
    assert other.catalog_latest() == node.catalog_latest()


def test_an_update_that_fits_no_row_is_stored_in_several(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "ROW_BYTES_MAX", 300)
    node, other = cluster.node(), cluster.node()
    cluster.result(node.execute([table(f"t{number}", schema="public") for number in range(50)]))
    cluster.until(lambda: other.catalog_latest().version == 2)
    assert _parts(node) > 3
    cluster.result(other.execute(CreateSchema(name="s")))
    late = cluster.node()
    assert late.catalog_at(2) == other.catalog_at(2) == node.catalog_at(2)
    assert len(late.catalog_at(2).schema("public").tables) == 50  # type: ignore[union-attr]
    # Compaction removes them all, also those of the version that the snapshot takes the place of.
    for stopped in (other, late):
        stopped.stop()
    monkeypatch.undo()
    cluster.until(lambda: node.catalog_latest().version == 3, node)
    assert node.compact().earliest == 3
    assert _parts(node) == 0
    assert cluster.node().catalog_latest() == node.catalog_latest()


def test_a_part_of_an_update_that_is_lost_is_noticed(
    stash_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "ROW_BYTES_MAX", 300)
    node = stash_cluster.node()
    stash_cluster.result(node.execute([table(f"t{number}", schema="public") for number in range(50)]))
    for lost in (1, _parts(node)):
        found = node.wait_for(node.ask(lambda log: log.read()))
        rows = {key: row for key, row in found.rows.items() if key != f"catalog.update.2.part.{lost}"}
        with pytest.raises(errors.WireError):
            log.LogContents(rows, found.marshaller).update(2)


def test_requests_that_are_large_together_become_durable_in_several_commits(stash_cluster: Cluster) -> None:
    node = stash_cluster.node(update_bytes_max=1_000)
    before = node.wait_for(node.ask(lambda log: log.state.content_version()))
    futures = [
        node.execute([table(f"t{number}_{each}", schema="public") for each in range(20)])
        for number in range(4)
    ]
    assert [stash_cluster.result(future).version for future in futures] == [2, 3, 4, 5]
    assert node.wait_for(node.ask(lambda log: log.state.content_version())) == before + 2


def test_an_empty_catalog_takes_no_table_without_a_zone() -> None:
    bare = after(Catalog(), CreateSchema(name="shop"))
    with pytest.raises(errors.ObjectNotFound, match="no default zone"):
        table("t").plan(bare)


def _parts(node: Any) -> int:
    found = node.wait_for(node.ask(lambda log: log.read()))
    return sum(".part." in key for key in found.rows)

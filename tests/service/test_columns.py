"""Columns: adding, dropping, renaming and changing them while the table keeps its rows."""

from __future__ import annotations

import pytest

from hermit.service import errors
from hermit.service.catalog import Catalog
from hermit.service.commands import AddColumns, AlterColumn, CreateTable, DropColumns, RenameColumn
from hermit.service.descriptors import TableDescriptor
from hermit.service.types import ColumnType, Constant, FunctionCall
from tests.service.world import after, beginning, column, shop, table

ORDERS = {"schema": "shop", "name": "orders"}


def orders(catalog: Catalog) -> TableDescriptor:
    found = catalog.table("shop", "orders")
    assert found is not None
    return found


def test_added_columns_get_identifiers_that_no_column_had_before() -> None:
    catalog = after(shop(), DropColumns(**ORDERS, columns=("note",)))
    catalog = after(catalog, AddColumns(**ORDERS, columns=(column("more"),)))
    assert [(each.id, each.name) for each in orders(catalog).columns] == [
        (1, "id"),
        (2, "amount"),
        (4, "more"),
    ]


def test_each_change_gives_the_table_a_schema_version_and_keeps_the_former_columns() -> None:
    catalog = after(shop(), AddColumns(**ORDERS, columns=(column("a"), column("b"))))
    catalog = after(catalog, RenameColumn(**ORDERS, column="a", new_name="c"))
    found = orders(catalog)
    assert found.schema_version == 3
    names = [[each.name for each in found.columns_at(number) or ()] for number in (1, 2, 3)]
    assert names == [
        ["id", "amount", "note"],
        ["id", "amount", "note", "a", "b"],
        ["id", "amount", "note", "c", "b"],
    ]
    assert found.columns_at(0) is None
    assert found.columns_at(4) is None


def test_adding_a_column_that_exists() -> None:
    with pytest.raises(errors.ColumnExists):
        AddColumns(**ORDERS, columns=(column("amount"),)).plan(shop())
    both = AddColumns(**ORDERS, columns=(column("amount"), column("new")), if_not_exists=True)
    assert [each.name for each in orders(after(shop(), both)).columns][-1] == "new"
    assert AddColumns(**ORDERS, columns=(column("amount"),), if_not_exists=True).plan(shop()) == []
    missing = AddColumns(schema="shop", name="none", columns=(column("a"),), if_table_exists=True)
    assert missing.plan(shop()) == []


def test_a_new_column_must_have_a_value_for_rows_that_exist() -> None:
    with pytest.raises(errors.InvalidCommand, match="no default"):
        AddColumns(**ORDERS, columns=(column("a", nullable=False),))
    assert AddColumns(**ORDERS, columns=(column("a", nullable=False, default=Constant(1)),)).plan(shop())


def test_a_column_of_the_key_or_of_an_index_is_not_dropped() -> None:
    with pytest.raises(errors.ColumnInUse, match="primary key"):
        DropColumns(**ORDERS, columns=("id",)).plan(shop())
    with pytest.raises(errors.ColumnInUse, match="by_amount"):
        DropColumns(**ORDERS, columns=("amount",)).plan(shop())


def test_dropping_a_column_that_is_not_there() -> None:
    with pytest.raises(errors.ColumnNotFound, match="it has id, amount, note"):
        DropColumns(**ORDERS, columns=("none",)).plan(shop())
    assert DropColumns(**ORDERS, columns=("none",), if_exists=True).plan(shop()) == []
    assert DropColumns(schema="shop", name="none", columns=("a",), if_table_exists=True).plan(shop()) == []
    for columns in ((), ("a", "a")):
        with pytest.raises(errors.InvalidCommand):
            DropColumns(**ORDERS, columns=columns)


def test_an_index_follows_a_renamed_column() -> None:
    catalog = after(shop(), RenameColumn(**ORDERS, column="amount", new_name="total"))
    index = catalog.index("shop", "by_amount")
    assert index is not None
    assert index.columns[0].column_id == orders(catalog).column("total").id  # type: ignore[union-attr]
    with pytest.raises(errors.ColumnExists):
        RenameColumn(**ORDERS, column="amount", new_name="note").plan(shop())
    with pytest.raises(errors.ColumnNotFound):
        RenameColumn(**ORDERS, column="none", new_name="new").plan(shop())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (ColumnType.INT8, ColumnType.INT16),
        (ColumnType.INT8, ColumnType.INT64),
        (ColumnType.INT32, ColumnType.INT64),
        (ColumnType.FLOAT, ColumnType.DOUBLE),
    ],
)
def test_a_type_may_widen(old: ColumnType, new: ColumnType) -> None:
    catalog = after(beginning(), table("orders", column("x", old)))
    catalog = after(catalog, AlterColumn(**ORDERS, column="x", type=new))
    assert orders(catalog).column("x").type is new  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (ColumnType.INT64, ColumnType.INT32),
        (ColumnType.DOUBLE, ColumnType.FLOAT),
        (ColumnType.INT32, ColumnType.STRING),
        (ColumnType.INT64, ColumnType.DOUBLE),
        (ColumnType.STRING, ColumnType.BYTES),
    ],
)
def test_a_type_that_might_not_hold_what_is_stored_is_refused(old: ColumnType, new: ColumnType) -> None:
    catalog = after(beginning(), table("orders", column("x", old)))
    with pytest.raises(errors.ColumnChangeRefused, match=f"from {old.name} to {new.name}"):
        AlterColumn(**ORDERS, column="x", type=new).plan(catalog)


def test_changing_a_column_of_a_table_that_is_not_there() -> None:
    missing = {"schema": "shop", "name": "none"}
    for command in (
        RenameColumn(**missing, column="a", new_name="b", if_table_exists=True),
        AlterColumn(**missing, column="a", nullable=True, if_table_exists=True),
    ):
        assert command.plan(shop()) == []
    for refused in (
        RenameColumn(**missing, column="a", new_name="b"),
        AlterColumn(**missing, column="a", nullable=True),
    ):
        with pytest.raises(errors.ObjectNotFound):
            refused.plan(shop())


def test_columns_are_found_by_name_and_by_identifier() -> None:
    found = orders(shop())
    amount = found.column("amount")
    assert amount is not None
    assert found.column_by_id(amount.id) is amount
    assert found.column_by_id(99) is None


def test_sizes_only_grow() -> None:
    decimal = column("d", ColumnType.DECIMAL, precision=5, scale=2)
    catalog = after(shop(), AddColumns(**ORDERS, columns=(decimal,)))
    grown = after(
        catalog,
        AlterColumn(**ORDERS, column="note", length=30),
        AlterColumn(**ORDERS, column="d", precision=7),
    )
    assert orders(grown).column("note").length == 30  # type: ignore[union-attr]
    assert orders(grown).column("d").precision == 7  # type: ignore[union-attr]
    for command in (
        AlterColumn(**ORDERS, column="note", length=10),
        AlterColumn(**ORDERS, column="d", precision=4),
    ):
        with pytest.raises(errors.ColumnChangeRefused, match="cannot shrink"):
            command.plan(catalog)
    unbounded = after(beginning(), table("orders", column("x", ColumnType.STRING)))
    with pytest.raises(errors.ColumnChangeRefused):
        AlterColumn(**ORDERS, column="x", length=10).plan(unbounded)


def test_a_column_may_come_to_allow_nulls_but_not_stop() -> None:
    catalog = after(beginning(), table("orders", column("x", nullable=False), column("y")))
    catalog = after(catalog, AlterColumn(**ORDERS, column="x", nullable=True))
    assert orders(catalog).column("x").nullable  # type: ignore[union-attr]
    with pytest.raises(errors.ColumnChangeRefused, match="nulls"):
        AlterColumn(**ORDERS, column="y", nullable=False).plan(catalog)


def test_a_default_is_set_and_taken_away() -> None:
    catalog = after(shop(), AlterColumn(**ORDERS, column="amount", default=Constant(5)))
    assert orders(catalog).column("amount").default == Constant(5)  # type: ignore[union-attr]
    assert AlterColumn(**ORDERS, column="amount", nullable=True).plan(catalog) == []
    catalog = after(catalog, AlterColumn(**ORDERS, column="amount", default=None))
    assert orders(catalog).column("amount").default is None  # type: ignore[union-attr]


def test_a_key_column_may_change_nothing_but_its_default() -> None:
    with pytest.raises(errors.ColumnChangeRefused, match="primary key"):
        AlterColumn(**ORDERS, column="id", nullable=True).plan(shop())
    assert AlterColumn(**ORDERS, column="id", default=Constant(7)).plan(shop())


@pytest.mark.parametrize(
    ("type_", "fields"),
    [
        (ColumnType.INT32, {"length": 5}),
        (ColumnType.INT32, {"precision": 5}),
        (ColumnType.INT32, {"scale": 5}),
        (ColumnType.STRING, {"length": 0}),
        (ColumnType.STRING, {"length": 65_537}),
        (ColumnType.DECIMAL, {"precision": 0}),
        (ColumnType.DECIMAL, {"precision": 5, "scale": 6}),
        (ColumnType.TIMESTAMP, {"precision": 10}),
        (ColumnType.INT8, {"default": Constant(128)}),
        (ColumnType.INT8, {"default": Constant(True)}),
        (ColumnType.INT64, {"default": Constant("1")}),
        (ColumnType.BOOLEAN, {"default": Constant(1)}),
        (ColumnType.DOUBLE, {"default": Constant(float("nan"))}),
        (ColumnType.STRING, {"length": 2, "default": Constant("abc")}),
        (ColumnType.UUID, {"default": Constant("no uuid")}),
        (ColumnType.DATE, {"default": Constant("2024-13-01")}),
        (ColumnType.DECIMAL, {"default": Constant("1,5")}),
        (ColumnType.INT64, {"default": FunctionCall("gen_random_uuid")}),
        (ColumnType.UUID, {"default": FunctionCall("uuid")}),
    ],
    ids=str,
)
def test_a_column_that_makes_no_sense_is_refused(type_: ColumnType, fields: dict[str, object]) -> None:
    with pytest.raises(errors.InvalidCommand):
        column("x", type_, **fields)


@pytest.mark.parametrize(
    ("type_", "fields"),
    [
        (ColumnType.INT8, {"default": Constant(-128)}),
        (ColumnType.DECIMAL, {"precision": 5, "scale": 5, "default": Constant("0.12345")}),
        (ColumnType.TIMESTAMP, {"precision": 9, "default": FunctionCall("current_timestamp")}),
        (ColumnType.TIME, {"precision": 0, "default": Constant("12:30:00")}),
        (ColumnType.UUID, {"default": FunctionCall("gen_random_uuid")}),
        (ColumnType.BYTES, {"length": 2, "default": Constant(b"ab")}),
        (ColumnType.BOOLEAN, {"default": Constant(False)}),
    ],
    ids=str,
)
def test_a_column_that_makes_sense_is_not(type_: ColumnType, fields: dict[str, object]) -> None:
    assert AddColumns(**ORDERS, columns=(column("x", type_, **fields),)).plan(shop())


@pytest.mark.parametrize(
    "fields",
    [
        {"columns": ()},
        {"columns": (column("a", nullable=False), column("a"))},
        {"primary_key": ()},
        {"primary_key": ("a", "a")},
        {"primary_key": ("b",)},
        {"primary_key": ("none",)},
        {"colocation": ("b",)},
        {"colocation": ("a", "a")},
        {"zone": ""},
    ],
    ids=str,
)
def test_a_table_that_makes_no_sense_is_refused(fields: dict[str, object]) -> None:
    given = {"columns": (column("a", nullable=False), column("b")), "primary_key": ("a",), **fields}
    with pytest.raises(errors.InvalidCommand):
        CreateTable(schema="shop", name="t", **given)  # type: ignore[arg-type]


def test_a_table_has_at_most_a_thousand_columns() -> None:
    many = tuple(column(f"c{number}") for number in range(999))
    catalog = after(beginning(), table("orders", *many))
    with pytest.raises(errors.InvalidCommand, match="1000"):
        AddColumns(**ORDERS, columns=(column("one_more"),)).plan(catalog)

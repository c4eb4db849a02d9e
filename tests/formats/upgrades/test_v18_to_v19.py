"""v18 to v19: the key of an item changes its shape, its value does not change at all."""

from __future__ import annotations

import pytest

from hermit.formats.errors import CannotConvert, DuplicateKey
from hermit.formats.gen import objects_v18_pb2 as v18
from hermit.formats.gen import objects_v19_pb2 as v19
from hermit.formats.upgrades.v18_to_v19 import upgrade
from tests.formats import frozen
from tests.formats.old_catalog import OldCatalog

_ITEM = v18.ItemValue(
    schema_id=v18.SchemaId(user=1), name="i", owner_id=v18.RoleId(user=1), item_type=v18.ITEM_TYPE_VIEW
)


def _items(*identifiers: str) -> OldCatalog:
    return OldCatalog(v18, {"items": [(v18.ItemKey(id=each), _ITEM) for each in identifiers]})


@pytest.mark.row("F-7")
def test_text_becomes_namespace_and_number() -> None:
    new = _items("u12", "s3", "u18446744073709551615", "u0").after(upgrade, v19)["items"]
    assert {key.gid.SerializeToString() for key, _ in new} == {
        v19.GlobalId(user=12).SerializeToString(),
        v19.GlobalId(system=3).SerializeToString(),
        v19.GlobalId(user=(1 << 64) - 1).SerializeToString(),
        v19.GlobalId(user=0).SerializeToString(),
    }


def test_values_keep_their_bytes() -> None:
    store = _items("u12").run(upgrade)
    assert [value for _, value in store.read("items")] == [frozen.seal(_ITEM)]


@pytest.mark.row("F-32")
def test_two_spellings_of_one_identifier_are_a_duplicate() -> None:
    old = _items("u7", "u07")
    before = old.store.rows()
    with pytest.raises(DuplicateKey) as failure:
        old.run(upgrade)
    assert failure.value.collection == "items"
    assert failure.value.key == frozen.seal(v19.ItemKey(gid=v19.GlobalId(user=7)))
    assert old.store.rows() == before


@pytest.mark.parametrize("text", ["", "12", "x12", "u", "u1x", "u18446744073709551616", "u１２"])
def test_text_that_is_no_identifier_stops_the_upgrade(text: str) -> None:
    with pytest.raises(CannotConvert, match="no identifier"):
        _items(text).run(upgrade)

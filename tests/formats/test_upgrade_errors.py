"""What can be wrong with a catalog has a name, and leaves the catalog as it was."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from hermit.errors import CorruptData, HermitError, InvariantViolation
from hermit.formats import config
from hermit.formats.actions import Action, Delete, Insert, Old
from hermit.formats.errors import (
    CannotConvert,
    DuplicateKey,
    FormatFromTheFuture,
    FormatTooOld,
    UnexplainedCount,
    UnsupportedFormat,
)
from hermit.formats.gen import objects_v16_pb2 as v16
from hermit.formats.gen import objects_v20_pb2 as v20
from hermit.formats.gen import objects_v21_pb2 as v21
from hermit.formats.generate import GENERATED, rows
from hermit.formats.metrics import Size
from hermit.formats.upgrade import upgrade
from hermit.formats.versions import MIN_STASH_VERSION, STASH_VERSION
from hermit.rows import Row
from tests.formats import frozen
from tests.formats.old_catalog import OldCatalog
from tests.formats.store import MemoryStore

_SETTING = (v20.SettingKey(name="a"), v20.SettingValue(value="1"))


def _claiming(version: int) -> MemoryStore:
    store = MemoryStore(row for row in rows(100, seed=1) if row.collection != "config")
    store.contents[Row("config", config.encode_key(config.USER_VERSION), config.encode_value(version))] += 1
    return store


def _refused(store: MemoryStore, error: type[HermitError]) -> HermitError:
    """The upgrade fails with this error, and the catalog is unchanged."""
    before = store.rows()
    with pytest.raises(error) as failure:
        store.upgrade()
    assert store.rows() == before
    assert failure.value.hint
    return failure.value


@pytest.mark.row("F-26")
@pytest.mark.parametrize("version", [0, 1, MIN_STASH_VERSION - 1])
def test_a_version_below_the_minimum_is_too_old(version: int) -> None:
    error = _refused(_claiming(version), FormatTooOld)
    assert "Deprecated stash version!" in str(error)
    assert error.facts == {"found": version, "minimum": MIN_STASH_VERSION, "current": STASH_VERSION}


@pytest.mark.row("F-25")
@pytest.mark.parametrize("version", [STASH_VERSION + 1, 2**63, 2**64 - 1])
def test_a_version_above_the_current_one_is_from_the_future(version: int) -> None:
    error = _refused(_claiming(version), FormatFromTheFuture)
    assert "Traveled to the future!" in str(error)
    assert error.facts == {"found": version, "minimum": MIN_STASH_VERSION, "current": STASH_VERSION}
    assert isinstance(error, UnsupportedFormat)


def _damaged(version: int, damage: str) -> Iterator[tuple[Row, MemoryStore]]:
    """A catalog for each collection, whether a step converts it or not, with one damaged value."""
    contents = list(rows(None, seed=5, version=version, like={name: Size(3) for name in GENERATED}))
    for collection in {row.collection for row in contents} - {"config"}:
        row = next(row for row in contents if row.collection == collection)
        value = row.value
        broken = {
            "garbage": b"\x00\xff garbage",
            "truncated": value[:-1],
            "empty": b"",
            "bit flip": bytes([value[0] ^ 0x10]) + value[1:],
        }[damage]
        store = MemoryStore(contents)
        del store.contents[row]
        store.contents[row._replace(value=broken)] += 1
        yield row, store


@pytest.mark.parametrize("damage", ["garbage", "truncated", "empty", "bit flip"])
@pytest.mark.parametrize("version", range(MIN_STASH_VERSION, STASH_VERSION))
def test_damaged_bytes_stop_the_upgrade(version: int, damage: str) -> None:
    for row, store in _damaged(version, damage):
        error = _refused(store, CorruptData)
        assert error.facts["collection"] == row.collection


@pytest.mark.parametrize("version", range(15, 21))
def test_every_flipped_bit_of_an_item_stops_the_upgrade(version: int) -> None:
    contents = list(rows(30, seed=5, version=version))
    row = min((row for row in contents if row.collection == "items"), key=lambda row: len(row.value))
    for bit in range(0, 8 * len(row.value), 7):
        value = bytearray(row.value)
        value[bit // 8] ^= 1 << bit % 8
        store = MemoryStore(contents)
        del store.contents[row]
        store.contents[row._replace(value=bytes(value))] += 1
        _refused(store, CorruptData)


def test_a_catalog_that_does_not_say_its_version_is_refused() -> None:
    store = MemoryStore(row for row in rows(50, seed=1, version=20) if row.collection != "config")
    before = store.rows()
    with pytest.raises(CannotConvert, match="does not say"):
        upgrade(20, store.read, store.write)
    assert store.rows() == before


def test_a_catalog_that_says_another_version_is_refused_before_anything_is_written() -> None:
    store = MemoryStore(rows(400, seed=1, version=16))
    with pytest.raises(InvariantViolation, match="its format is 16, not 15"):
        upgrade(15, store.read, store.write)
    assert store.writes == []


def test_damaged_config_stops_the_upgrade() -> None:
    store = MemoryStore(rows(50, seed=1, version=20))
    store.contents[Row("config", b"\x0a\x7fgarbage", b"")] += 1
    before = store.rows()
    with pytest.raises(CorruptData, match="config"):
        upgrade(20, store.read, store.write)
    assert store.rows() == before


@pytest.mark.row("F-32")
def test_a_key_that_exists_already_is_a_duplicate() -> None:
    def insert(old: Old) -> Iterator[Action]:
        yield Insert("settings", v21.SettingKey(name="a"), v21.SettingValue(value="2"))

    old = OldCatalog(v20, {"settings": [_SETTING]})
    with pytest.raises(DuplicateKey, match="two rows of settings"):
        old.run(insert)


@pytest.mark.row("F-32")
def test_a_key_that_is_inserted_twice_is_a_duplicate_before_anything_is_written() -> None:
    def insert_twice(old: Old) -> Iterator[Action]:
        for _ in range(2):
            yield Insert("settings", v21.SettingKey(name="b"), v21.SettingValue(value="2"))

    old = OldCatalog(v20, {"settings": [_SETTING]})
    with pytest.raises(DuplicateKey):
        old.run(insert_twice)
    assert old.store.writes == []


def test_a_key_may_be_taken_over_from_a_row_that_goes_away() -> None:
    def replace(old: Old) -> Iterator[Action]:
        for row in old.messages("settings", v20.SettingKey, v20.SettingValue):
            yield Delete(row)
        yield Insert("settings", v21.SettingKey(name="a"), v21.SettingValue(value="2"))

    ((_, value),) = OldCatalog(v20, {"settings": [_SETTING]}).after(replace, v21)["settings"]
    assert value.value == "2"


@pytest.mark.row("F-4")
def test_an_object_that_every_step_forgot_fails_the_upgrade() -> None:
    """A role of version 16 in a catalog that says 20: parseable, but its membership is missing."""
    left_behind = v16.RoleValue(name="r", attributes=v16.RoleAttributes(create_db=True))
    old = OldCatalog(v20, {"roles": [(v16.RoleKey(id=v16.RoleId(user=1)), left_behind)]})
    error = _refused(old.store, CannotConvert)
    assert "no step has set membership" in str(error)


def test_a_step_that_leaves_an_object_incomplete_is_refused() -> None:
    def incomplete(old: Old) -> Iterator[Action]:
        yield Insert("roles", v21.RoleKey(id=v21.RoleId(user=1)), v21.RoleValue(name="r"))

    with pytest.raises(CannotConvert, match="did not set membership"):
        OldCatalog(v20, {}).run(incomplete)


class _Forgetful(MemoryStore):
    """Loses the first row of every batch of some collection."""

    loses = "settings"

    def write(self, changes: Sequence[tuple[Row, int]]) -> None:
        lost = next((change for change in changes if change[0].collection == self.loses), None)
        super().write([change for change in changes if change is not lost])


class _Eager(MemoryStore):
    """Adds a row to a collection that no step touches."""

    def write(self, changes: Sequence[tuple[Row, int]]) -> None:
        super().write(changes)
        key = v21.TimestampKey(timeline=str(len(self.writes)))
        self.contents[frozen.row("timestamps", key, v21.TimestampValue())] += 1


@pytest.mark.row("F-49")
def test_a_count_that_no_action_explains_fails_the_upgrade() -> None:
    error = _refused(_Forgetful(rows(1000, seed=1, version=19)), UnexplainedCount)
    assert error.facts["collection"] == "settings"
    assert error.facts["found"] == error.facts["expected"] + 1


@pytest.mark.row("F-49")
def test_a_count_of_an_untouched_collection_may_not_change_either() -> None:
    error = _refused(_Eager(rows(1000, seed=1, version=19)), UnexplainedCount)
    assert error.facts["collection"] == "timestamps"

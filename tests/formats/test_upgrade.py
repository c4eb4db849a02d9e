"""The runner: steps of one version, exact retractions, and nothing written without need."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from hermit.errors import InvalidInput, InvariantViolation
from hermit.formats import config, frame, spool
from hermit.formats.actions import Action, Delete, Insert, Old, Update, carry
from hermit.formats.errors import DuplicateKey
from hermit.formats.gen import objects_v15_pb2 as v15
from hermit.formats.gen import objects_v16_pb2 as v16
from hermit.formats.gen import objects_v20_pb2 as v20
from hermit.formats.gen import objects_v21_pb2 as v21
from hermit.formats.generate import rows
from hermit.formats.upgrade import parse_build, upgrade
from hermit.formats.upgrades import Build, Step, nothing, step_from
from hermit.formats.versions import MIN_STASH_VERSION, STASH_VERSION, KnownVersion
from hermit.rows import Row
from tests.formats import frozen
from tests.formats.old_catalog import OldCatalog
from tests.formats.store import MemoryStore

_SETTING = (v20.SettingKey(name="a"), v20.SettingValue(value="1"))


@pytest.mark.row("F-22")
@pytest.mark.row("F-20")
@pytest.mark.parametrize("version", range(MIN_STASH_VERSION, STASH_VERSION + 1))
def test_every_version_is_passed_one_by_one_each_with_its_own_version_write(version: int) -> None:
    store = MemoryStore(rows(300, seed=1, version=version))
    report = store.upgrade()
    key = config.encode_key(config.USER_VERSION)
    written = [
        config.decode_value(row.value)
        for batch in store.writes
        for row, diff in batch
        if row.key == key and diff > 0
    ]
    assert written == list(range(version + 1, STASH_VERSION + 1))
    assert [(step.start, step.end) for step in report.steps] == [(each - 1, each) for each in written]


@pytest.mark.row("F-24")
def test_a_current_catalog_is_neither_read_nor_written() -> None:
    def read(collection: str) -> Iterator[tuple[bytes, bytes]]:
        raise AssertionError(collection)

    assert upgrade(STASH_VERSION, read, pytest.fail).steps == ()


def test_upgrading_twice_changes_nothing_more() -> None:
    store = MemoryStore(rows(300, seed=1, version=15))
    store.upgrade()
    before, writes = store.rows(), len(store.writes)
    store.upgrade()
    assert (store.rows(), len(store.writes)) == (before, writes)


def test_current_code_loads_no_frozen_version() -> None:
    assert step_from(STASH_VERSION, (0, 1)) is None


@pytest.mark.parametrize("version", range(MIN_STASH_VERSION, STASH_VERSION))
def test_what_a_step_does_not_mention_keeps_its_bytes(version: int) -> None:
    store = MemoryStore(rows(800, seed=2, version=version))
    untouched = {"timestamps", "id_allocators", "storage_usage", "system_privileges"}
    before = {row for row in store.rows() if row.collection in untouched}
    store.upgrade()
    after = {row for row in store.rows() if row.collection in untouched}
    assert (before == after) == (version >= 15)


def _odd(message: frozen.Message, unknown: bytes = b"") -> bytes:
    """The same message as another library might have written it: fields backwards, and one too many."""
    fields = _split(message.SerializeToString())
    body = b"".join(reversed(fields)) + unknown + b"\x7d"
    return body + frozen.crc32(body).to_bytes(4, "little")


def _split(data: bytes) -> list[bytes]:
    """The top-level fields of a message whose fields are varints or have a length below 128."""
    fields = []
    while data:
        end = 2 + data[1] if data[0] & 7 == 2 else 1 + next(i for i, b in enumerate(data[1:], 1) if b < 128)
        fields.append(data[:end])
        data = data[end:]
    return fields


def test_retractions_equal_what_is_stored_also_with_unknown_fields_and_another_order() -> None:
    key = v15.ItemKey(id="u1")
    value = v15.ItemValue(schema_id=v15.SchemaId(user=1), name="i", item_type=2, create_sql="c", oid=7)
    unknown = b"\x50\x07"  # Field 10 exists in no version.
    stored = Row("items", _odd(key, unknown), _odd(value, unknown))
    assert stored.value != frozen.seal(value)
    old = OldCatalog(v15, {})
    old.store.contents[stored] += 1
    old.store.upgrade()
    assert (stored, -1) in [change for batch in old.store.writes for change in batch]
    ((_, item),) = (frozen.parse(STASH_VERSION, row) for row in old.store.rows() if row.collection == "items")
    assert (item.name, item.create_sql, item.oid) == ("i", "c", 7)
    assert unknown not in item.SerializeToString()


def test_an_unknown_field_cannot_pass_for_one_of_the_next_version() -> None:
    """Field 7 is nothing in 15, and the owner in 16: a stray one must not become the owner."""
    stray = v21.ItemValue(owner_id=v21.RoleId(user=666)).SerializeToString()
    value = v15.ItemValue.FromString(v15.ItemValue(name="i").SerializeToString() + stray)
    assert carry(value, v16.ItemValue) == v16.ItemValue(name="i")


def test_untouched_rows_with_unknown_fields_are_left_alone() -> None:
    odd = Row("settings", _odd(_SETTING[0], b"\x50\x07"), _odd(_SETTING[1], b"\x50\x07"))
    old = OldCatalog(v20, {})
    old.store.contents[odd] += 1
    old.store.upgrade()
    assert odd in old.store.rows()


def test_an_update_that_yields_the_same_bytes_is_not_written() -> None:
    def same(old: Old) -> Iterator[Action]:
        for row in old.messages("settings", v20.SettingKey, v20.SettingValue):
            yield Update(row, v21.SettingValue(value=row.value.value), v21.SettingKey(name=row.key.name))

    store = OldCatalog(v20, {"settings": [_SETTING]}).run(same)
    assert [row.collection for batch in store.writes for row, _ in batch] == ["config", "config"]


def test_a_step_sees_the_state_before_it_whatever_it_has_yielded() -> None:
    seen = []

    def twice(old: Old) -> Iterator[Action]:
        for _ in range(2):
            for row in old.messages("settings", v20.SettingKey, v20.SettingValue):
                seen.append(row.key.name)
                if len(seen) == 1:
                    yield Delete(row)
                    yield Insert("settings", v21.SettingKey(name="b"), v21.SettingValue())

    new = OldCatalog(v20, {"settings": [_SETTING]}).after(twice, v21)
    assert seen == ["a", "a"]
    assert [key.name for key, _ in new["settings"]] == ["b"]


def _two_collections(old: Old) -> Iterator[Action]:
    for row in old.messages("settings", v20.SettingKey, v20.SettingValue):
        yield Update(row, v21.SettingValue(value="changed"))
    for stamp in old.messages("timestamps", v20.TimestampKey, v20.TimestampValue):
        yield Delete(stamp)


@pytest.mark.row("F-31")
def test_a_step_may_change_several_collections_and_all_of_it_can_be_undone() -> None:
    stamp = (v20.TimestampKey(timeline="t"), v20.TimestampValue(ts_ms=1))
    old = OldCatalog(v20, {"settings": [_SETTING], "timestamps": [stamp]})

    def breaks_at_the_end(catalog: Old) -> Iterator[Action]:
        yield from _two_collections(catalog)
        yield Insert("settings", v21.SettingKey(name="a"), v21.SettingValue(value="again"))

    before = old.store.rows()
    with pytest.raises(DuplicateKey):
        old.run(breaks_at_the_end)
    assert old.store.rows() == before
    new = old.after(_two_collections, v21)
    assert [value.value for _, value in new["settings"]] == ["changed"]
    assert "timestamps" not in new


@pytest.mark.row("F-23")
def test_after_each_step_the_catalog_says_the_version_that_it_has_reached() -> None:
    """A store without transactions, and a failure after two of the steps: the rest can go on from there."""
    store = MemoryStore(rows(300, seed=1, version=16))

    def fails_at_18(version: KnownVersion, build: Build) -> Step | None:
        if version == 18:
            raise RuntimeError("power cut")
        return step_from(version, build)

    with pytest.raises(RuntimeError, match="power cut"):
        upgrade(16, store.read, store.write, arms=fails_at_18)
    assert store.version == 18
    assert upgrade(18, store.read, store.write).steps[0].start == 18
    assert store.version == STASH_VERSION


def test_nothing_is_written_before_the_step_has_ended() -> None:
    def breaks(old: Old) -> Iterator[Action]:
        yield Insert("settings", v21.SettingKey(name="b"), v21.SettingValue())
        raise RuntimeError("halfway")

    old = OldCatalog(v20, {"settings": [_SETTING]})
    with pytest.raises(RuntimeError, match="halfway"):
        old.run(breaks)
    assert old.store.writes == []


@pytest.mark.row("F-5")
def test_changes_far_above_32_mib_are_written_in_small_batches() -> None:
    big = [
        (v20.SettingKey(name=str(number)), v20.SettingValue(value=f"{number}" * 40_000))
        for number in range(100, 500)
    ]

    def rewrite(old: Old) -> Iterator[Action]:
        for row in old.messages("settings", v20.SettingKey, v20.SettingValue):
            yield Update(row, v21.SettingValue(value=row.value.value + "!"))

    store = OldCatalog(v20, {"settings": big}).run(rewrite)
    sizes = [sum(len(row.key) + len(row.value) for row, _ in batch) for batch in store.writes]
    assert sum(sizes) > 64 << 20
    assert max(sizes) <= spool.BATCH_BYTES
    assert max(map(len, store.writes)) <= spool.BATCH_ROWS


def test_a_row_above_the_size_of_a_batch_is_a_batch_of_its_own() -> None:
    value = v20.SettingValue(value="x" * (3 << 20))

    def rewrite(old: Old) -> Iterator[Action]:
        for row in old.messages("settings", v20.SettingKey, v20.SettingValue):
            yield Update(row, v21.SettingValue(value=row.value.value + "!"))

    store = OldCatalog(v20, {"settings": [(v20.SettingKey(name="a"), value)]}).run(rewrite)
    assert [len(batch) for batch in store.writes] == [1, 1, 2]


def _guarded(version: KnownVersion, build: Build) -> Step | None:
    """The arms of the seed's example: a step that only builds before 0.50 need."""

    def drop_settings(old: Old) -> Iterator[Action]:
        for row in old.messages("settings", v20.SettingKey, v20.SettingValue):
            yield Delete(row)

    match version:
        case 20 if build < (0, 50):
            return drop_settings
        case 20:
            return nothing
    return None


@pytest.mark.row("F-27")
@pytest.mark.parametrize(("build", "left"), [("0.49.9", 0), ("0.50", 1), ("0.50.1", 1), ("1.0", 1)])
def test_a_guard_on_the_build_decides_whether_the_step_converts(build: str, left: int) -> None:
    store = OldCatalog(v20, {"settings": [_SETTING]}).store
    store.upgrade(arms=_guarded, build=build)
    assert store.version == 21
    assert len(list(store.read("settings"))) == left


@pytest.mark.parametrize(
    ("text", "build"), [("0.1.0", (0, 1, 0)), ("1.2rc3", (1, 2)), ("0.50.dev1+local", (0, 50))]
)
def test_builds_compare_by_their_numbers(text: str, build: Build) -> None:
    assert parse_build(text) == build
    with pytest.raises(InvalidInput):
        parse_build("v" + text)


def test_a_step_cannot_read_or_write_types_of_another_version() -> None:
    def reads_the_future(old: Old) -> Iterator[Action]:
        yield from (Delete(row) for row in old.messages("settings", v21.SettingKey, v21.SettingValue))

    def writes_the_past(old: Old) -> Iterator[Action]:
        yield Insert("settings", *_SETTING)

    def writes_elsewhere(old: Old) -> Iterator[Action]:
        yield Insert("timestamps", v21.SettingKey(), v21.SettingValue())

    def touches_config(old: Old) -> Iterator[Action]:
        yield Insert("config", v21.ConfigKey(key="a"), v21.ConfigValue())

    for step in (reads_the_future, writes_the_past, writes_elsewhere, touches_config):
        with pytest.raises(InvariantViolation, match="a step"):
            OldCatalog(v20, {"settings": [_SETTING]}).run(step)


@pytest.mark.row("F-49")
def test_each_step_is_logged_with_rows_and_bytes_before_and_after(caplog: pytest.LogCaptureFixture) -> None:
    store = MemoryStore(rows(1000, seed=3, version=19))
    settings = [len(key) + len(value) for key, value in store.read("settings")]
    with caplog.at_level(logging.INFO, logger="hermit.formats.upgrade"):
        report = store.upgrade()
    moved = len(list(store.read("system_configurations")))
    assert f"settings {len(settings)} -> {len(settings) - moved} rows, {sum(settings)} ->" in caplog.text
    assert "v20 to v21: sizes unchanged" in caplog.text
    text = report.to_prometheus()
    labels = 'step="v19_to_v20",when="after",collection="system_configurations"'
    assert f"hermit_upgrade_rows{{{labels}}} {moved}\n" in text
    assert "# TYPE hermit_upgrade_bytes gauge\n" in text
    step = report.to_json()["steps"][0]["collections"]
    assert step["system_configurations"]["inserted"] == step["settings"]["deleted"] == moved


def test_bytes_are_read_by_the_frame_that_wrote_them() -> None:
    read = frame.reader(v15.ItemKey, "items", "key")
    assert read(frame.write(v15.ItemKey(id="u1"))) == v15.ItemKey(id="u1")
    assert frame.write(v15.ItemKey(id="u1")) == frozen.seal(v15.ItemKey(id="u1"))

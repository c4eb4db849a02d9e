"""v19 to v20: one collection becomes two."""

from __future__ import annotations

from hermit.formats.gen import objects_v19_pb2 as v19
from hermit.formats.gen import objects_v20_pb2 as v20
from hermit.formats.upgrades.v19_to_v20 import upgrade
from tests.formats.old_catalog import OldCatalog


def _settings() -> OldCatalog:
    return OldCatalog(
        v19,
        {
            "settings": [
                (v19.SettingKey(name="catalog_content_version"), v19.SettingValue(value="3")),
                (v19.SettingKey(name="max_tables", system_variable=True), v19.SettingValue(value="100")),
                (v19.SettingKey(name="same_name"), v19.SettingValue(value="a")),
                (v19.SettingKey(name="same_name", system_variable=True), v19.SettingValue(value="b")),
            ]
        },
    )


def test_system_variables_move_and_settings_stay() -> None:
    new = _settings().after(upgrade, v20)
    assert {key.name: value.value for key, value in new["settings"]} == {
        "catalog_content_version": "3",
        "same_name": "a",
    }
    assert {key.name: value.value for key, value in new["system_configurations"]} == {
        "max_tables": "100",
        "same_name": "b",
    }


def test_what_stays_is_not_written_again() -> None:
    old = _settings()
    stays = {row for row in old.store.rows() if row.collection == "settings"}
    store = old.run(upgrade)
    touched = {row for batch in store.writes for row, _ in batch}
    assert len(stays & store.rows()) == 2
    assert not touched & store.rows() & stays

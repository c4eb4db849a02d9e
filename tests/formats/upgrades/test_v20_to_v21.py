"""v20 to v21: nothing but the version changes."""

from __future__ import annotations

from hermit.formats import config
from hermit.formats.generate import rows
from hermit.formats.upgrades.v20_to_v21 import upgrade
from hermit.rows import Row
from tests.formats.store import MemoryStore


def test_only_the_version_is_written() -> None:
    store = MemoryStore(rows(2000, seed=4, version=20))
    store.upgrade(arms=lambda version, build: upgrade if version == 20 else None)
    key = config.encode_key(config.USER_VERSION)
    old, new = (Row("config", key, config.encode_value(version)) for version in (20, 21))
    assert store.writes == [[(old, -1), (new, 1)]]

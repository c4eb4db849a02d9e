"""A new catalog starts at the current version, in one step, and only where nothing is."""

from __future__ import annotations

import subprocess
import sys

import pytest

from hermit.formats import codec, config
from hermit.formats.initial import CatalogNotEmpty, initial_rows, initialize
from hermit.formats.versions import STASH_VERSION
from hermit.rows import Row
from tests.formats.store import MemoryStore


@pytest.mark.row("F-36")
@pytest.mark.row("F-37")
@pytest.mark.row("F-19")
def test_a_new_catalog_holds_its_version_and_default_objects() -> None:
    store = MemoryStore([])
    initialize(store.read, store.write, now_ms=5, deploy_generation=3)
    assert store.config() == {"user_version": STASH_VERSION, "deploy_generation": 3}
    names = {
        codec.to_json(row.collection, codec.decode_value(row.collection, row.value)).get("name")
        for row in store.rows()
    }
    assert {"hermit_system", "public", "hermit", "default", "hermit_catalog", "r1"} <= names
    ((_, timestamp),) = store.read("timestamps")
    assert codec.to_json("timestamps", codec.decode_value("timestamps", timestamp))["ts_ms"] == "5"


def test_a_new_catalog_needs_no_upgrade_and_is_written_in_one_batch() -> None:
    store = MemoryStore([])
    initialize(store.read, store.write, now_ms=5)
    assert len(store.writes) == 1
    assert store.config() == {"user_version": STASH_VERSION}
    assert store.upgrade().steps == ()


@pytest.mark.row("F-35")
def test_a_catalog_that_is_not_empty_is_not_initialized() -> None:
    row = Row("timestamps", b"k", b"v")
    store = MemoryStore([row])
    with pytest.raises(CatalogNotEmpty) as failure:
        initialize(store.read, store.write, now_ms=5)
    assert failure.value.collection == "timestamps"
    assert store.rows() == {row}


def test_allocators_go_on_after_the_identifiers_that_are_taken() -> None:
    rows = initial_rows(now_ms=1)
    objects = [
        (
            row.collection,
            codec.decode_key(row.collection, row.key),
            codec.decode_value(row.collection, row.value),
        )
        for row in rows
        if row.collection != "config"
    ]
    following = {key.name: value.next_id for name, key, value in objects if name == "id_allocators"}
    taken = {
        "system_item": [
            *(value.id for name, _, value in objects if name == "system_object_mappings"),
            *(value.index_id for name, _, value in objects if name == "cluster_introspection_source_indexes"),
        ],
        "cluster_replica": [
            key.id.user or key.id.system for name, key, _ in objects if name == "cluster_replicas"
        ],
        "system_role": [key.id.system for name, key, _ in objects if name == "roles"],
        "system_schema": [key.id.system for name, key, _ in objects if name == "schemas"],
        "schema": [key.id.user for name, key, _ in objects if name == "schemas"],
        "database": [key.id.user for name, key, _ in objects if name == "databases"],
        "audit_log": [key.id for name, key, _ in objects if name == "audit_log"],
        "user_cluster": [key.id.user for name, key, _ in objects if name == "clusters"],
        "system_cluster": [key.id.system for name, key, _ in objects if name == "clusters"],
    }
    for name, numbers in taken.items():
        used = [number for number in numbers if number]
        assert len(set(used)) == len(used), name
        assert following[name] == max(used) + 1, name


@pytest.mark.row("F-34")
@pytest.mark.row("F-39")
def test_a_new_catalog_loads_no_step_and_no_frozen_version() -> None:
    code = """
import sys
from hermit.formats.initial import initial_rows
initial_rows(now_ms=1)
sys.exit(any("objects_v" in name or "_to_v" in name for name in sys.modules))
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_config_is_as_it_always_was() -> None:
    row = initial_rows(now_ms=1)[0]
    assert row == Row("config", config.encode_key("user_version"), config.encode_value(STASH_VERSION))

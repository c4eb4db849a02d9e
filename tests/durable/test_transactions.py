"""Transactions: all or nothing, one at a time, unique names, and no copy of the catalog."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tracemalloc
import uuid
from pathlib import Path

import pytest

from hermit.durable.errors import (
    DuplicateKey,
    IdsExhausted,
    TransactionFinished,
    TransactionInProgress,
    UniquenessViolation,
    UnknownKind,
    UnknownObject,
)
from hermit.durable.transaction import CatalogTransaction, Transaction
from hermit.errors import InvalidInput
from hermit.formats.gen import objects_pb2 as pb
from hermit.objects import KINDS

from .conftest import Lab
from .samples import SAMPLES, audit_event, item, role, setting, storage_usage, system_object_mapping


@pytest.mark.row("D-23")
def test_a_transaction_that_is_dropped_changes_nothing(lab: Lab) -> None:
    opened = lab.open()
    before = opened.content_version()
    with opened.transaction() as transaction:
        transaction.roles.insert(*role(1))
    assert opened.get_role_by_id(role(1).key.id) is None
    assert opened.content_version() == before


@pytest.mark.row("D-24", "D-57", "D-61")
def test_a_transaction_over_many_kinds_is_committed_as_one(lab: Lab) -> None:
    opened = lab.open()
    follower = lab.read_only().subscribe()
    with opened.transaction() as transaction:
        for kind, sample in SAMPLES.items():
            transaction.table(kind).insert(*sample(1))
        opened.commit_transaction(transaction)
    (batch,) = follower.poll()
    assert {change.kind for change in batch.objects()} == set(SAMPLES)


@pytest.mark.row("D-62")
def test_a_transaction_does_not_commit_itself() -> None:
    assert not [name for name in dir(Transaction) if "commit" in name]


@pytest.mark.row("D-63")
def test_a_second_transaction_is_refused_while_one_lives(lab: Lab) -> None:
    opened = lab.open()
    first = opened.transaction()
    with pytest.raises(TransactionInProgress):
        opened.transaction()
    with pytest.raises(TransactionInProgress):
        opened.set_tombstone(True)
    first.discard()
    second = opened.transaction()
    del second
    opened.set_tombstone(True)


def test_a_transaction_is_good_for_one_commit_on_its_own_handle(lab: Lab) -> None:
    opened = lab.open()
    other = lab.resume(opened.token)
    transaction = opened.transaction()
    transaction.roles.insert(*role(1))
    with pytest.raises(TransactionFinished):
        other.commit_transaction(transaction)
    opened.commit_transaction(transaction)
    with pytest.raises(TransactionFinished):
        opened.commit_transaction(transaction)
    with pytest.raises(TransactionFinished):
        transaction.roles.items()


def test_a_transaction_sees_its_own_changes_and_nobody_else_does(lab: Lab) -> None:
    opened = lab.open()
    with opened.transaction() as transaction:
        transaction.roles.insert(*role(1))
        assert transaction.roles.get(role(1).key) == role(1).value
        assert role(1) in transaction.roles.items()
        assert opened.get_role_by_id(role(1).key.id) is None
        assert transaction.roles.update(role(1).key, role(1, "other").value) == role(1).value
        assert transaction.roles.delete(role(1).key) == role(1, "other").value
        assert transaction.roles.get(role(1).key) is None


def test_changes_that_cancel_out_are_no_change(lab: Lab) -> None:
    opened = lab.open()
    before = opened.content_version()
    with opened.transaction() as transaction:
        transaction.roles.insert(*role(1))
        transaction.roles.delete(role(1).key)
        transaction.timestamps.set(*opened.get_timestamps()[0])
        opened.commit_transaction(transaction)
    assert opened.content_version() == before


def test_keys_are_unique_and_objects_must_exist(lab: Lab) -> None:
    opened = lab.open()
    opened.set_objects("roles", [role(1)])
    with opened.transaction() as transaction:
        with pytest.raises(DuplicateKey):
            transaction.roles.insert(*role(1))
        with pytest.raises(UnknownObject):
            transaction.roles.update(*role(2))
        with pytest.raises(UnknownObject):
            transaction.roles.delete(role(2).key)
        assert transaction.roles.set(role(2).key, None) is None
        with pytest.raises(UnknownKind):
            transaction.table("nonsense")


def test_append_only_kinds_refuse_a_key_twice_in_one_transaction(lab: Lab) -> None:
    opened = lab.open()
    with opened.transaction() as transaction:
        transaction.audit_log.insert(*audit_event(1))
        with pytest.raises(DuplicateKey):
            transaction.audit_log.insert(*audit_event(1))


@pytest.mark.parametrize("kind", ["clusters", "databases", "items", "roles", "schemas", "cluster_replicas"])
def test_names_are_unique_within_what_they_live_in(lab: Lab, kind: str) -> None:
    opened = lab.open()
    one, two = SAMPLES[kind](1), SAMPLES[kind](2)
    opened.set_objects(kind, [one])
    clash = type(two.value)()
    clash.CopyFrom(one.value)
    with opened.transaction() as transaction:
        table = transaction.table(kind)
        with pytest.raises(UniquenessViolation):
            table.insert(two.key, clash)
        table.insert(*two)
        with pytest.raises(UniquenessViolation):
            table.update(two.key, clash)
        # Once the name is given up, another object may take it, in the same transaction.
        table.delete(one.key)
        table.update(two.key, clash)
        opened.commit_transaction(transaction)
    assert opened.object(kind, two.key) == two._replace(value=clash)
    with pytest.raises(UniquenessViolation):
        opened.set_objects(kind, [one])


def test_the_same_name_in_another_schema_or_name_space_is_no_clash(lab: Lab) -> None:
    opened = lab.open()
    opened.set_objects(
        "items",
        [item(1, "name"), item(2, "name", schema=2), item(3, "name", item_type=pb.ITEM_TYPE_TYPE)],
    )
    with pytest.raises(UniquenessViolation):
        opened.set_objects("items", [item(4, "name", schema=2)])
    assert len(opened.get_items()) == 3


def test_an_incomplete_or_foreign_message_is_refused_before_anything_is_written(lab: Lab) -> None:
    opened = lab.open()
    before = opened.content_version()
    with opened.transaction() as transaction:
        with pytest.raises(InvalidInput):
            transaction.roles.insert(pb.RoleKey(), role(1).value)
        with pytest.raises(InvalidInput):
            transaction.roles.insert(role(1).key, pb.RoleValue(name="x"))
        with pytest.raises(InvalidInput):
            transaction.roles.insert(item(1).key, item(1).value)
    assert opened.content_version() == before


def test_what_a_getter_returned_can_be_changed_without_changing_the_catalog(lab: Lab) -> None:
    opened = lab.open()
    opened.set_objects("roles", [role(1)])
    found = opened.get_role_by_id(role(1).key.id)
    assert found is not None
    found.value.name = "changed"
    opened.get_roles()[0].value.name = "changed"
    assert opened.get_role_by_id(role(1).key.id) == role(1)


# Targeted setters


@pytest.mark.row("D-25", "D-26", "D-58")
def test_setting_twice_leaves_one_row_and_retracts_the_old_one_byte_for_byte(lab: Lab) -> None:
    opened = lab.open()
    first, second = system_object_mapping(1, "old"), system_object_mapping(1, "new")
    opened.set_system_object_mapping([first, system_object_mapping(2)])
    opened.set_system_object_mapping([second])
    assert opened.get_system_object_mapping_by_key(first.key) == second
    updates = [
        update
        for update in opened.snapshot_unconsolidated()
        if update.collection == "system_object_mappings" and b"view_1" in update.key
    ]
    (added, *changed) = sorted(updates, key=lambda update: update.time)
    assert added.diff == 1
    assert sorted(update.diff for update in changed) == [-1, 1]
    assert {update.time for update in changed} != {added.time}
    assert len({update.time for update in changed}) == 1
    assert next(update.value for update in changed if update.diff < 0) == added.value


@pytest.mark.row("D-25", "D-4", "D-5", "D-6")
def test_a_setter_does_what_the_transaction_would_do(lab: Lab) -> None:
    opened = lab.open()
    opened.set_setting("catalog_content_version", "12")
    assert opened.get_setting_by_name("catalog_content_version").value.value == "12"  # type: ignore[union-attr]
    format_version = opened.format_version()
    opened.set_config("something", 3)
    assert opened.get_setting_by_name("catalog_content_version").value.value == "12"  # type: ignore[union-attr]
    assert opened.format_version() == format_version
    opened.set_system_configuration("max_tables", "25")
    opened.set_timestamp("epoch_ms", 99)
    reopened = lab.open()
    assert reopened.get_system_configuration_by_name("max_tables").value.value == "25"  # type: ignore[union-attr]
    assert reopened.get_timestamp_by_timeline("epoch_ms").value.ts_ms == 99  # type: ignore[union-attr]
    for unset in (reopened.set_setting, reopened.set_system_configuration):
        unset("max_tables", None)
    reopened.set_config("something", None)
    assert reopened.get_system_configuration_by_name("max_tables") is None
    assert reopened.get_config_by_key("something") is None


def test_identifiers_are_given_out_once(lab: Lab) -> None:
    opened = lab.open()
    given = opened.allocate_id("item", 3) + opened.allocate_id("item")
    reopened = lab.open()
    given += reopened.allocate_id("item", 2)
    assert given == [1, 2, 3, 4, 5, 6]
    assert reopened.allocate_id("item", 0) == []
    with pytest.raises(UnknownObject):
        reopened.allocate_id("nonsense")
    key = pb.IdAllocatorKey(name="item")
    with reopened.transaction() as transaction:
        transaction.id_allocators.set(key, pb.IdAllocatorValue(next_id=2**64 - 2))
        reopened.commit_transaction(transaction)
    assert reopened.allocate_id("item") == [2**64 - 2]
    for amount in (1, -1):
        with pytest.raises(IdsExhausted):
            reopened.allocate_id("item", amount)


@pytest.mark.row("D-40")
def test_append_only_kinds_are_appended_read_back_and_pruned(lab: Lab) -> None:
    opened = lab.open()
    ids = opened.append_audit_log([audit_event(1).value, audit_event(2).value])
    assert opened.get_audit_event_by_id(ids[1]).value == audit_event(2).value  # type: ignore[union-attr]
    usage = opened.append_storage_usage([storage_usage(number).value for number in (1, 5, 9)])
    assert opened.prune_storage_usage(before_ms=6) == 2
    assert [found.key.id for found in opened.get_storage_usage()] == usage[2:]
    assert opened.prune_storage_usage(before_ms=6) == 0
    assert opened.append_storage_usage([storage_usage(1).value]) == [usage[2] + 1]


# Cost


@pytest.fixture(scope="module")
def rows_of_many() -> dict[str, dict[bytes, bytes]]:
    from hermit.formats.generate import rows

    tables: dict[str, dict[bytes, bytes]] = {name: {} for name in KINDS}
    for row in rows(20_000, 1):
        tables[row.collection][row.key] = row.value
    return tables


@pytest.mark.row("D-64")
def test_a_transaction_on_a_large_catalog_copies_nothing(rows_of_many: dict[str, dict[bytes, bytes]]) -> None:
    from hermit.durable.store import Position
    from hermit.durable.table import Table

    tables = {name: Table(KINDS[name], rows) for name, rows in rows_of_many.items()}
    tables["items"].owner(b"")  # Whoever changes names first pays for their index, once.
    size = sum(len(key) + len(value) for rows in rows_of_many.values() for key, value in rows.items())
    tracemalloc.start()
    try:
        for _ in range(20):
            transaction: CatalogTransaction = Transaction(lambda kind: tables[kind.name], Position(0, 0))
            transaction.items.insert(*item(1_000_000))
            transaction.settings.set(*setting(1))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < size / 100


@pytest.mark.row("D-40")
def test_memory_does_not_grow_with_audit_events(persist: Lab) -> None:
    opened = persist.open()
    events = [audit_event(number).value for number in range(300)]
    for event in events:
        event.user = "someone with a very long name" * 40
    opened.append_audit_log(events)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(10):
            opened.append_audit_log(events)
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    written = 10 * sum(event.ByteSize() for event in events)
    assert grown < written / 4, "what persist caches of its files is bounded, and small beside this"


# A crash in the middle

_WRITER = """
import sys, uuid
from hermit.durable import *
from hermit.formats.gen import objects_pb2 as pb
sides = {
    "stash": lambda: init_stash_catalog_state(sys.argv[2], uuid.UUID(sys.argv[3])),
    "persist": lambda: init_persist_catalog_state(sys.argv[4]),
}
catalog = sides[sys.argv[1]]().open()
number = 0
while True:
    number += 1
    with catalog.transaction() as transaction:
        transaction.settings.set(pb.SettingKey(name="n"), pb.SettingValue(value=str(number)))
        transaction.timestamps.set(pb.TimestampKey(timeline="n"), pb.TimestampValue(ts_ms=number))
        transaction.audit_log.insert(pb.AuditLogKey(id=1_000_000 + catalog.epoch * 100_000 + number),
            pb.AuditLogValue(event_type=1, object_type=1, occurred_at_ms=number,
                             id_name=pb.IdName(id="x", name="y")))
        catalog.commit_transaction(transaction)
    print(number, flush=True)
"""


@pytest.mark.slow
@pytest.mark.row("D-61", "D-57")
@pytest.mark.parametrize("store", ["stash", "persist"])
def test_a_writer_killed_at_any_moment_leaves_whole_transactions(
    store: str,
    request: pytest.FixtureRequest,
    database_url: str,
    organization_id: uuid.UUID,
    tmp_path: Path,
) -> None:
    lab: Lab = request.getfixturevalue(store)
    where = [store, database_url, str(organization_id), str(tmp_path / "shard")]
    for attempt in range(6):
        writer = subprocess.Popen(
            [sys.executable, "-c", _WRITER, *where], stdout=subprocess.PIPE, text=True, env=dict(os.environ)
        )
        assert writer.stdout is not None
        acknowledged = 0
        for line in writer.stdout:
            acknowledged = int(line)
            if acknowledged == 5 + attempt:
                break
        # It is somewhere within the next transaction by now, and elsewhere each time.
        writer.send_signal(signal.SIGKILL)
        acknowledged = max([acknowledged, *map(int, writer.stdout.read().split())])
        writer.wait()
        writer.stdout.close()
        with lab.unopened().open() as opened:
            data = json.loads(opened.dump())
        number = next(int(e["value"]["value"]) for e in data["settings"] if e["key"]["name"] == "n")
        stamp = next(int(e["value"]["ts_ms"]) for e in data["timestamps"] if e["key"]["timeline"] == "n")
        events = [int(e["value"]["occurred_at_ms"]) for e in data["audit_log"]]
        epoch = opened.epoch - 1
        mine = [e for e in data["audit_log"] if int(e["key"]["id"]) > 1_000_000 + epoch * 100_000]
        assert number == stamp == len(mine) in (acknowledged, acknowledged + 1)
        assert number in events

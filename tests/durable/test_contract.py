"""The contract: every method, in every state, on every implementation, on real storage."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest

from hermit.durable.abc import DurableCatalogState, UnopenedCatalogState
from hermit.durable.errors import Closed
from hermit.errors import Fenced, HermitError, NotInitialized, ReadOnly
from hermit.formats import codec
from hermit.formats.versions import STASH_VERSION
from hermit.objects import KINDS

from .conftest import NOW_MS, Lab
from .methods import OPENING, PROPERTIES, READS, UNOPENED, WRITES, public
from .samples import SAMPLES


def test_the_tables_of_this_suite_cover_the_whole_interface() -> None:
    assert {*READS, *WRITES, *PROPERTIES, "close"} == public(DurableCatalogState)
    assert {*UNOPENED, *OPENING, "store", "boot_ts"} == public(UnopenedCatalogState)
    assert set(SAMPLES) == set(KINDS)


# Unopened


@pytest.mark.row("D-10", "D-19", "D-33", "D-34", "D-54", "D-43", "F-38")
def test_an_unopened_catalog_answers_and_changes_nothing(lab: Lab) -> None:
    unopened = lab.unopened()
    assert [call(unopened) for call in UNOPENED.values()] == [False, *[None] * 6]
    assert unopened.boot_ts == NOW_MS
    assert lab.unopened().is_initialized() is False
    for method in {*READS, *WRITES} - {*UNOPENED, "config"}:
        assert not hasattr(unopened, method), (
            "what needs an opened catalog cannot be asked of an unopened one"
        )


@pytest.mark.row("D-10", "D-33", "D-3", "M-9")
def test_an_unopened_state_of_a_running_catalog_tells_its_config_and_disturbs_nobody(lab: Lab) -> None:
    leader = lab.open(deploy_generation=3)
    unopened = lab.unopened()
    assert unopened.is_initialized()
    assert unopened.epoch() == leader.epoch
    assert unopened.format_version() == STASH_VERSION
    assert unopened.deploy_generation() == 3
    assert unopened.tombstone() is None
    leader.set_tombstone(False)
    assert unopened.tombstone() is False
    leader.set_tombstone(True)
    assert (unopened.tombstone(), unopened.config("tombstone")) == (True, 1)
    leader.confirm_leadership()


# Open


@pytest.mark.row("D-1", "D-7", "D-8", "D-11", "M-18", "D-50")
def test_an_open_catalog_answers_every_method(lab: Lab) -> None:
    opened = lab.open()
    for name, call in {**READS, **WRITES}.items():
        call(opened)
        assert lab.unopened().epoch() == opened.epoch, f"{name} moved the epoch"
    assert opened.boot_ts == NOW_MS
    assert opened.is_read_only is False


@pytest.mark.row("D-2", "D-21", "D-24", "D-28")
def test_one_object_of_every_kind_survives_a_reopening(lab: Lab) -> None:
    with lab.unopened().open() as first, first.transaction() as transaction:
        for kind, sample in SAMPLES.items():
            transaction.table(kind).insert(*sample(1))
        first.commit_transaction(transaction)
    second = lab.open()
    dumped = json.loads(second.dump())
    for kind, sample in SAMPLES.items():
        assert sample(1) in second.objects(kind)
        assert getattr(second, f"get_{kind}")() == second.objects(kind)
        shown = {"key": codec.to_json(kind, sample(1).key), "value": codec.to_json(kind, sample(1).value)}
        assert shown in dumped[kind]


@pytest.mark.row("D-22")
def test_a_getter_by_key_finds_what_the_getter_of_all_does(lab: Lab) -> None:
    opened = lab.open()
    for kind, sample in SAMPLES.items():
        if kind not in ("audit_log", "storage_usage"):
            opened.set_objects(kind, [sample(1), sample(2)])
    opened.append_audit_log([SAMPLES["audit_log"](1).value])
    opened.append_storage_usage([SAMPLES["storage_usage"](1).value])
    by_key = {name: call for name, call in READS.items() if "_by_" in name}
    assert len(by_key) == 17
    for name, call in by_key.items():
        assert call(opened) is not None or name in ("get_system_configuration_by_name",), name
    for kind in KINDS:
        for found in opened.objects(kind):
            assert opened.object(kind, found.key) == found
        assert opened.object(kind, SAMPLES[kind](3).key) is None


@pytest.mark.row("M-20")
def test_opening_an_up_to_date_catalog_changes_nothing_but_the_epoch(lab: Lab) -> None:
    with lab.unopened().open() as first:
        before = first.dump(), first.digests(), list(first.snapshot())
    second = lab.open()
    assert (second.dump(), second.digests(), list(second.snapshot())) == before
    assert second.epoch == first.epoch + 1


# Read-only


@pytest.mark.row("D-15", "D-49")
def test_a_read_only_catalog_answers_every_read_and_refuses_every_mutation(lab: Lab) -> None:
    leader = lab.open()
    before = leader.digests(), leader.content_version()
    reader = lab.read_only()
    assert reader.is_read_only is True
    for call in READS.values():
        call(reader)
    for name, call in WRITES.items():
        with pytest.raises(ReadOnly):
            call(reader)
        assert (leader.digests(), leader.content_version()) == before, name
    transaction = leader.transaction()
    with pytest.raises(HermitError):
        reader.commit_transaction(transaction)
    leader.confirm_leadership()


@pytest.mark.row("D-16")
def test_a_catalog_that_nobody_initialized_cannot_be_opened_to_read(lab: Lab) -> None:
    with pytest.raises(NotInitialized):
        lab.read_only()
    assert lab.unopened().is_initialized() is False


def test_a_reader_follows_the_writer_of_its_epoch(lab: Lab) -> None:
    leader = lab.open()
    reader = lab.read_only()
    for number in range(1, 4):
        leader.set_objects("items", [SAMPLES["items"](number)])
        assert reader.get_items() == leader.get_items()
        assert reader.content_version() == leader.content_version()


# Savepoint


def test_a_savepoint_does_everything_and_leaves_no_trace(lab: Lab) -> None:
    leader = lab.open()
    before = leader.digests(), leader.content_version(), leader.dump()
    dry = lab.savepoint()
    for call in {**READS, **WRITES}.values():
        call(dry)
    assert dry.tombstone() is True
    assert dry.get_timestamp_by_timeline("epoch_ms").value.ts_ms == 77  # type: ignore[union-attr]
    assert len(dry.get_audit_log()) == len(leader.get_audit_log()) + 1
    assert (leader.digests(), leader.content_version(), leader.dump()) == before
    leader.confirm_leadership()


def test_a_savepoint_of_an_empty_store_is_initialized_in_memory_only(lab: Lab) -> None:
    dry = lab.savepoint()
    assert dry.get_roles()
    dry.set_tombstone(True)
    assert dry.tombstone() is True
    assert lab.unopened().is_initialized() is False
    assert lab.unopened().epoch() is None


# Fenced


@pytest.mark.row("M-13", "M-14", "M-11")
@pytest.mark.parametrize("mode", ["open", "read_only", "savepoint", "resume"])
def test_a_fenced_catalog_refuses_every_method(lab: Lab, mode: str) -> None:
    leader = lab.open()
    fenced = lab.resume(leader.token) if mode == "resume" else leader
    if mode in ("read_only", "savepoint"):
        fenced = getattr(lab, mode)()
    newer = lab.open()
    before = newer.digests(), newer.content_version()
    calls = dict(READS) if mode == "read_only" else {**READS, **WRITES}
    # Beginning a transaction makes no call to the store; the handle learns with the first call that does.
    calls.pop("transaction", None)
    for name, call in calls.items():
        with pytest.raises(Fenced) as caught:
            call(fenced)
        assert caught.value.epoch == leader.epoch, name
        assert caught.value.current == newer.epoch, name
    assert (newer.digests(), newer.content_version()) == before


def test_each_method_notices_by_itself_that_it_was_fenced(lab: Lab) -> None:
    """Not only because an earlier call had noticed: every method is the first one on its own handle."""
    calls = {**READS, **WRITES}
    del calls["transaction"]
    opener = lab.open()
    handles = {name: lab.resume(opener.token) for name in calls}
    newer = lab.open()
    before = newer.digests()
    for name, call in calls.items():
        with pytest.raises(Fenced):
            call(handles[name])
        handles[name].close()
    assert newer.digests() == before


# Closed


def test_a_closed_catalog_refuses_every_method_and_fences_nobody(lab: Lab) -> None:
    closed = lab.open()
    epoch = closed.epoch
    closed.close()
    closed.close()
    for call in {**READS, **WRITES}.values():
        with pytest.raises(Closed):
            call(closed)
    assert lab.unopened().epoch() == epoch


# After a crash

_CRASH = """
import os, sys, json, uuid
from hermit.durable import *
from hermit.formats.gen import objects_pb2 as pb
sides = {
    "stash": lambda: init_stash_catalog_state(sys.argv[2], uuid.UUID(sys.argv[3])),
    "persist": lambda: init_persist_catalog_state(sys.argv[4]),
}
sides["shadow"] = lambda: init_shadow_catalog_state(sides["stash"](), sides["persist"]())
catalog = sides[sys.argv[1]]().open()
catalog.set_timestamp("crash", 1)
open_transaction = catalog.transaction()
open_transaction.timestamps.set(pb.TimestampKey(timeline="lost"), pb.TimestampValue(ts_ms=1))
print(json.dumps(catalog.token.to_json()), flush=True)
os.kill(os.getpid(), 9)
"""


@pytest.mark.row("M-10", "D-23", "D-61")
def test_after_a_crash_what_was_committed_is_there_and_every_method_works(
    lab: Lab,
    request: pytest.FixtureRequest,
    database_url: str,
    organization_id: uuid.UUID,
    tmp_path: Path,
) -> None:
    where = [request.node.callspec.params["lab"], database_url, str(organization_id), str(tmp_path / "shard")]
    command = [sys.executable, "-c", _CRASH, *where]
    crashed = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ))
    assert crashed.returncode == -signal.SIGKILL, crashed.stderr
    token: dict[str, Any] = json.loads(crashed.stdout)
    assert lab.unopened().epoch() == token["epoch"]
    opened = lab.open()
    assert opened.epoch == token["epoch"] + 1
    timelines = {found.key.timeline for found in opened.get_timestamps()}
    assert "crash" in timelines
    assert "lost" not in timelines
    for call in {**READS, **WRITES}.values():
        call(opened)

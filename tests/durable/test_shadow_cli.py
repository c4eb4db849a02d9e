"""`hermit shadow`: rehearsing with real traffic, without touching the catalog."""

from __future__ import annotations

import json
import tempfile
import threading
import uuid
from pathlib import Path
from typing import Any

import psycopg
import pytest

from hermit.durable.errors import ShadowMismatch
from hermit.durable.rehearsal import rehearse, scratch_catalog
from hermit.durable.traffic import Traffic, from_history
from hermit.formats.generate import rows as generate

from .conftest import Lab, Run, fill
from .samples import SAMPLES, audit_event, item, role


def _traffic(lab: Lab) -> tuple[Any, ...]:
    """Some of everything that a catalog goes through."""
    with lab.unopened().open() as opened:
        opened.set_objects("roles", [role(1), role(2)])
        opened.append_audit_log([audit_event(1).value])
        opened.append_storage_usage([SAMPLES["storage_usage"](1).value])
        with opened.transaction() as transaction:
            transaction.roles.delete(role(1).key)
            transaction.roles.update(role(2).key, role(2, "role_1").value)
            transaction.items.insert(*item(1))
            opened.commit_transaction(transaction)
        opened.prune_storage_usage(before_ms=100)
        opened.set_tombstone(False)
        return opened.epoch, opened.content_version(), opened.dump(), opened.digests()


def _state(lab: Lab) -> tuple[Any, ...]:
    with lab.unopened().open_read_only() as reader:
        return lab.unopened().epoch(), reader.content_version(), reader.dump(), reader.digests()


@pytest.fixture(params=["stash", "persist"])
def lab(request: pytest.FixtureRequest) -> Lab:
    found: Lab = request.getfixturevalue(request.param)
    return found


def test_replaying_the_history_compares_every_commit_and_leaves_no_trace(
    hermit: Run,
    lab: Lab,
    database_url: str,
    organization_id: uuid.UUID,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    before = _traffic(lab)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    result = hermit("shadow", "replay", f"--store={lab.unopened().store}", "--json").json()
    assert (result["commits"], result["equal"]) == (6, True)
    assert result["digests"] == {name: str(digest) for name, digest in before[3].items()}
    assert _state(lab) == before
    assert list((tmp_path / "scratch").iterdir()) == []


def test_the_scratch_catalog_is_gone_afterwards(database_url: str) -> None:
    with scratch_catalog(database_url) as shadow:
        schema = shadow.primary.stash.schema  # type: ignore[attr-defined]
        assert _schema_exists(database_url, schema)
    assert not _schema_exists(database_url, schema)


def _schema_exists(database_url: str, schema: str) -> bool:
    with psycopg.connect(database_url) as connection:
        query = "SELECT count(*) FROM information_schema.schemata WHERE schema_name = %s"
        found = connection.execute(query, [schema]).fetchone()
    return found == (1,)


@pytest.mark.parametrize("version", [14, 18])
def test_a_catalog_of_an_older_format_is_rehearsed_as_it_would_be_upgraded(
    hermit: Run, lab: Lab, version: int
) -> None:
    fill(lab, generate(60, 1, version))
    store = f"--store={lab.unopened().store}"
    assert hermit("shadow", "replay", store, "--json").json()["commits"] == 0
    assert lab.unopened().format_version() == version
    with lab.unopened().open() as opened:
        opened.set_timestamp("epoch_ms", 5)
    assert hermit("shadow", "replay", store, "--json").json()["commits"] == 1


def test_following_a_running_catalog_rehearses_what_it_commits(hermit: Run, lab: Lab, tmp_path: Path) -> None:
    leader = lab.open()
    store = f"--store={lab.unopened().store}"
    stop = threading.Event()

    def serve() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            leader.set_timestamp("epoch_ms", number)

    server = threading.Thread(target=serve)
    server.start()
    try:
        followed = hermit("shadow", "replay", "--follow", "--commits=4", store, "--json").json()
        recorded = hermit("shadow", "record", str(tmp_path / "traffic"), "--commits=3", store)
    finally:
        stop.set()
        server.join()
    leader.confirm_leadership()
    assert followed["commits"] == 4
    assert recorded.code == 0
    lines = [json.loads(line) for line in (tmp_path / "traffic").read_text().splitlines()]
    assert len(lines) == 4
    replayed = hermit("shadow", "replay", str(tmp_path / "traffic"), store, "--json").json()
    assert (replayed["objects"], replayed["commits"]) == (len(lines[0]), 3)
    assert "same answers" in hermit("shadow", "replay", str(tmp_path / "traffic"), store).out


@pytest.mark.parametrize("text", ["", "nonsense", "[]\n{", '[{"kind": "roles"}]', '[{"kind": "no"}]'])
def test_what_is_no_recorded_traffic_gets_one_clear_line(
    hermit: Run, lab: Lab, tmp_path: Path, text: str
) -> None:
    file = tmp_path / "traffic"
    file.write_text(text)
    for path in (file, tmp_path / "missing"):
        result = hermit("shadow", "replay", str(path), f"--store={lab.unopened().store}")
        assert result.code == 2
        assert result.err.count("\n") == 1


def test_a_rehearsal_ends_at_the_first_difference(database_url: str, lab: Lab) -> None:
    _traffic(lab)
    traffic = from_history(lab.unopened())
    with scratch_catalog(database_url) as shadow:
        secondary: Any = shadow.secondary  # type: ignore[attr-defined]

        def commits() -> Any:
            for number, changes in enumerate(traffic.commits):
                if number == 2:
                    secondary.set_timestamp("tampered with", 1)
                yield changes

        with pytest.raises(ShadowMismatch, match="tampered with"):
            rehearse(shadow, Traffic(traffic.contents, commits()))

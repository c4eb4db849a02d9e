"""`hermit debug` through the real command line, on both stores."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from hermit.cli.__main__ import debug_main
from hermit.formats.generate import rows as generate
from hermit.formats.versions import STASH_VERSION
from hermit.objects import KINDS
from hermit.persist.storage.abc import poll
from hermit.rows import Row

from .conftest import Lab, Run, fill
from .samples import SAMPLES, cluster_replica, role


@pytest.fixture(params=["stash", "persist"])
def lab(request: pytest.FixtureRequest) -> Lab:
    found: Lab = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def store(lab: Lab) -> str:
    return f"--store={lab.unopened().store}"


def _json(kind: str, number: int) -> tuple[str, str]:
    from hermit.formats import codec

    key, value = SAMPLES[kind](number)
    return json.dumps(codec.to_json(kind, key)), json.dumps(codec.to_json(kind, value))


# Dump


@pytest.mark.row("D-28", "D-65", "D-73")
def test_dump_shows_every_update_and_consolidated_every_row(hermit: Run, lab: Lab, store: str) -> None:
    with lab.unopened().open() as opened:
        opened.set_timestamp("mine", 1)
        opened.set_timestamp("mine", 2)
    updates = hermit("debug", "dump", store, "--json").json()
    assert set(updates) == set(KINDS)
    mine = [entry for entry in updates["timestamps"] if entry["key"] == {"timeline": "mine"}]
    assert [(entry["value"]["ts_ms"], entry["diff"]) for entry in mine] == [("1", 1), ("1", -1), ("2", 1)]
    assert mine[0]["time"] < mine[1]["time"] == mine[2]["time"]
    rows = hermit("debug", "dump", store, "--json", "--consolidate").json()
    assert {"key": {"timeline": "mine"}, "value": {"ts_ms": "2"}} in rows["timestamps"]
    assert len(rows["timestamps"]) == 2


@pytest.mark.row("D-67")
def test_dump_writes_to_a_target_and_then_prints_nothing(
    hermit: Run, lab: Lab, store: str, tmp_path: Path
) -> None:
    lab.open()
    target = tmp_path / "dump.json"
    printed = hermit("debug", "dump", store, "--json").out
    result = hermit("debug", "dump", store, str(target))
    assert (result.code, result.out) == (0, "")
    assert target.read_text() == printed
    refused = hermit("debug", "dump", store, str(tmp_path / "no" / "such" / "folder"))
    assert refused.code == 2
    assert refused.err.count("\n") == 1


def test_dump_leaves_out_what_is_ignored(hermit: Run, lab: Lab, store: str) -> None:
    lab.open()
    shown = hermit("debug", "dump", store, "--json", "--ignore", "items", "--ignore-large-collections").json()
    assert set(KINDS) - set(shown) == {"items", "audit_log", "storage_usage", "update_log"}
    assert "no object type" in hermit("debug", "dump", store, "--ignore", "nothing").err


def test_dump_can_tell_just_how_much_there_is(hermit: Run, lab: Lab, store: str) -> None:
    opened = lab.open()
    opened.set_timestamp("mine", 1)
    opened.set_timestamp("mine", 2)
    stats = {
        row["collection"]: row for row in hermit("debug", "dump", store, "--stats-only", "--json").json()
    }
    assert stats["timestamps"]["updates"] == 4
    assert stats["timestamps"]["rows"] == 2
    metrics = {metric.name: metric for metric in opened.metrics()}
    for name in KINDS:
        assert (stats[name]["rows"], stats[name]["bytes"]) == metrics[name][1:]
    table = hermit("debug", "dump", store, "--stats-only").out
    assert table.splitlines()[0].split() == ["collection", "updates", "rows", "bytes"]


@pytest.mark.row("D-66")
def test_what_dump_prints_for_people_can_be_pasted_back(hermit: Run, lab: Lab, store: str) -> None:
    with lab.unopened().open() as opened:
        opened.set_objects("roles", [role(7, "grace")])
    text = hermit("debug", "dump", store, "--consolidate").out
    line = next(line for line in text.splitlines() if "grace" in line)
    key, value = line.split("  ", 1)
    assert hermit("debug", "edit", store, "roles", key, value.strip(), "--yes").code == 0
    assert hermit("debug", "delete", store, "roles", key, "--yes").code == 0
    assert "grace" not in hermit("debug", "dump", store, "--consolidate").out


@pytest.mark.row("F-54")
@pytest.mark.parametrize("version", [14, 15, 17, STASH_VERSION - 1])
def test_dump_copes_with_a_catalog_of_an_older_format(
    hermit: Run, lab: Lab, store: str, version: int
) -> None:
    fill(lab, list(generate(60, 1, version)))
    with lab.unopened().inspect() as found:
        stored = list(found.snapshot())
    before = hermit("debug", "dump", store, "--json").json()
    assert lab.unopened().format_version() == version
    with lab.unopened().inspect() as found:
        assert list(found.snapshot()) == stored, "and reading changed nothing"
    assert "$undecodable" not in json.dumps(before)
    with lab.unopened().open():
        pass
    after = hermit("debug", "dump", store, "--json").json()
    assert "$undecodable" not in json.dumps(after)
    older = [entry for kind in after.values() for entry in kind if entry.get("format", 99) < STASH_VERSION]
    assert {entry["diff"] for entry in older} <= {1, -1}
    consolidated = hermit("debug", "dump", store, "--json", "--consolidate").json()
    assert not [entry for kind in consolidated.values() for entry in kind if "format" in entry]


# Edit and delete


@pytest.mark.row("D-66", "D-68", "D-69", "D-74")
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_an_object_of_every_kind_can_be_made_edited_and_deleted(
    hermit: Run, stash: Lab, persist: Lab, kind: str
) -> None:
    lab, store = (stash, "--store=stash") if kind < "i" else (persist, "--store=persist")
    with lab.unopened().open() as opened:
        before = json.loads(opened.dump())
    key, value = _json(kind, 1)
    other = _json(kind, 2)[1]
    made = hermit("debug", "edit", store, kind, key, value, "--yes", "--json").json()
    assert made["previous"] is None
    edited = hermit("debug", "edit", store, kind, key, other, "--yes", "--json").json()
    assert edited["previous"] == json.loads(value)
    assert edited["epoch"] == made["epoch"] + 1
    dumped = hermit("debug", "dump", store, "--consolidate", "--json").json()
    entry = next(entry for entry in dumped[kind] if entry["key"] == json.loads(key))
    assert entry["value"] == json.loads(other)
    dumped[kind].remove(entry)
    assert dumped == before
    deleted = hermit("debug", "delete", store, kind, json.dumps(entry["key"]), "--yes", "--json").json()
    assert deleted["previous"] == json.loads(other)
    assert hermit("debug", "dump", store, "--consolidate", "--json").json() == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("edit", "roles", "{", "{}"), "not JSON"),
        (("edit", "roles", "[]", "{}"), "object"),
        (("edit", "nonsense", "{}", "{}"), "no object type"),
        (("edit", "roles", '{"id":{"user":"9"},"shape":1}', "{}"), "shape"),
        (("edit", "roles", '{"id":{}}', "{}"), "id"),
        (("edit", "roles", '{"id":{"user":"nine"}}', "{}"), "id"),
        (("edit", "roles", '{"id":{"user":"9"}}', '{"name":"x"}'), "membership"),
        (("edit", "roles", *_json("roles", 9)[:1], '{"oid":-1}'), "oid"),
        (("edit", "roles", _json("roles", 8)[0], _json("roles", 7)[1]), "unique"),
        (("delete", "roles", '{"id":{"user":"99"}}'), "no object with this key"),
        (("delete", "roles", "nothing"), "not JSON"),
        (("delete", "settings", '{"name":1}'), "name"),
    ],
)
def test_a_mistake_gets_one_clear_line_and_changes_nothing(
    hermit: Run, lab: Lab, store: str, arguments: tuple[str, ...], message: str
) -> None:
    with lab.unopened().open() as opened:
        opened.set_objects("roles", [role(7)])
        before = opened.epoch, opened.content_version(), opened.dump()
    result = hermit("debug", *arguments, store, "--yes")
    assert result.code != 0
    assert result.out == ""
    assert result.err.count("\n") == 1
    assert message in result.err
    assert "Traceback" not in result.err
    assert lab.unopened().epoch() == before[0]
    reader = lab.read_only()
    assert (reader.content_version(), reader.dump()) == before[1:]


def test_an_edit_is_refused_while_another_process_holds_the_catalog(
    hermit: Run, lab: Lab, store: str
) -> None:
    holder = lab.open()
    before = holder.dump()
    for arguments in (("edit", "roles", *_json("roles", 7)), ("delete", "roles", '{"id":{"system":"1"}}')):
        result = hermit("debug", *arguments, store, "--yes")
        assert result.code == 1
        assert result.err.count("\n") == 1
        assert "held open by" in result.err
        assert "pid" in result.err
    holder.confirm_leadership()
    assert holder.dump() == before


def test_a_fenced_holder_learns_by_whom(hermit: Run, lab: Lab, store: str) -> None:
    holder = lab.open()
    edited = hermit("debug", "edit", "roles", *_json("roles", 7), store, "--yes", "--fence", "--json").json()
    with pytest.raises(Exception, match=rf"epoch {edited['epoch']}.*pid") as caught:
        holder.get_roles()
    assert type(caught.value).__name__ == "Fenced"


def test_a_closed_or_crashed_holder_holds_nothing(hermit: Run, lab: Lab, store: str) -> None:
    with lab.unopened().open() as opened:
        assert lab.unopened().holder() is not None
        assert opened.epoch == 1
    # The server of the stash takes a moment to notice that a session has ended.
    assert poll(lambda: lab.unopened().holder() is None, 60)
    assert hermit("debug", "edit", "roles", *_json("roles", 7), store, "--yes").code == 0


def test_a_change_asks_first_and_no_means_no(
    hermit: Run, lab: Lab, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import io

    with lab.unopened().open() as opened:
        before = opened.epoch
    for answer in ("n\n", ""):
        monkeypatch.setattr(sys, "stdin", io.StringIO(answer))
        result = hermit("debug", "delete", "roles", '{"id":{"system":"1"}}', store)
        assert result.code == 1
        assert "nothing was changed" in result.err
        assert lab.unopened().epoch() == before
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    assert hermit("debug", "delete", "roles", '{"id":{"system":"1"}}', store).code == 0


def test_an_edit_neither_initializes_nor_upgrades(hermit: Run, lab: Lab, store: str) -> None:
    result = hermit("debug", "edit", "roles", *_json("roles", 7), store, "--yes")
    assert "not initialized" in result.err
    assert lab.unopened().is_initialized() is False
    fill(lab, list(generate(40, 1, 17)))
    result = hermit("debug", "edit", "roles", *_json("roles", 7), store, "--yes")
    assert "format 17" in result.err
    assert (lab.unopened().format_version(), lab.unopened().epoch()) == (17, 1)


# Epoch and upgrade-check


def test_epoch_prints_what_is_stored_and_fences_nobody(
    hermit: Run, lab: Lab, store: str, tmp_path: Path
) -> None:
    assert hermit("debug", "epoch", store).out == "none\n"
    holder = lab.open(epoch_min=12)
    assert hermit("debug", "epoch", store).out == "12\n"
    assert hermit("debug", "epoch", store, "--json").json()["epoch"] == 12
    assert hermit("debug", "epoch", store, str(tmp_path / "epoch")).out == ""
    assert (tmp_path / "epoch").read_text() == "12\n"
    holder.confirm_leadership()


@pytest.mark.row("D-70", "D-71", "D-12", "F-48")
def test_upgrade_check_says_whether_an_open_would_work_and_disturbs_nobody(
    hermit: Run, lab: Lab, store: str
) -> None:
    refused = hermit("debug", "upgrade-check", store)
    assert refused.code == 1
    assert "not initialized" in refused.err
    fill(lab, list(generate(80, 1, 15)))
    with lab.unopened().inspect() as found:
        before = list(found.snapshot())
    result = hermit("debug", "upgrade-check", store)
    assert result.code == 0
    assert f"from format 15 to {STASH_VERSION}" in result.out
    with lab.unopened().inspect() as found:
        assert list(found.snapshot()) == before
    assert lab.unopened().epoch() == 1
    leader = lab.open()
    version = leader.content_version()
    assert hermit("debug", "upgrade-check", store, "--json").json()["found"] == STASH_VERSION
    leader.confirm_leadership()
    assert leader.content_version() == version


@pytest.mark.row("D-70", "D-14")
@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (Row("items", b"no", b"object"), "damaged"),
        (Row("config", b"\n\x0cuser_version", b"\x08\x7f"), "future"),
    ],
)
def test_upgrade_check_fails_on_what_cannot_be_opened(
    hermit: Run, lab: Lab, store: str, broken: Row, message: str
) -> None:
    rows = [row for row in generate(40, 1) if (row.collection, row.key) != broken[:2]]
    fill(lab, [*rows, broken])
    result = hermit("debug", "upgrade-check", store)
    assert result.code == 1
    assert message in result.err
    assert result.err.count("\n") == 1


@pytest.mark.row("D-72")
def test_upgrade_check_knows_the_valid_replica_sizes(
    hermit: Run, lab: Lab, store: str, tmp_path: Path
) -> None:
    with lab.unopened().open() as opened:
        opened.set_cluster_replica(cluster_replica(1, size="enormous"))
    sizes = tmp_path / "sizes.json"
    sizes.write_text('["small", "large"]')
    option = f"--cluster-replica-sizes={sizes}"
    assert hermit("debug", "upgrade-check", store).code == 0
    refused = hermit("debug", "upgrade-check", store, option)
    assert refused.code == 1
    assert "enormous" in refused.err
    sizes.write_text('{"small": {}, "enormous": {}}')
    assert hermit("debug", "upgrade-check", store, option).code == 0
    for nonsense in ("{", "7", "[1]"):
        sizes.write_text(nonsense)
        assert hermit("debug", "upgrade-check", store, option).code == 2


# Diff


def test_diff_shows_what_the_stores_do_not_share(hermit: Run, shadow: Lab, stash: Lab, persist: Lab) -> None:
    with shadow.unopened().open() as both:
        both.set_objects("roles", [role(1), role(2)])
    same = hermit("debug", "diff")
    assert (same.code, same.out) == (0, "stash and persist hold the same contents\n")
    with stash.unopened().open() as one, persist.unopened().open() as other:
        one.set_objects("roles", [role(3)])
        one.set_tombstone(True)
        other.set_objects("roles", [role(4), role(2, "renamed")])
    result = hermit("debug", "diff", "--json")
    assert result.code == 1
    found = json.loads(result.out)
    assert set(found) == {"roles"}
    assert [entry["value"]["name"] for entry in found["roles"]["only_stash"]] == ["role_3"]
    assert [entry["value"]["name"] for entry in found["roles"]["only_persist"]] == ["role_4"]
    assert [(e["stash"]["name"], e["persist"]["name"]) for e in found["roles"]["changed"]] == [
        ("role_2", "renamed")
    ]
    text = hermit("debug", "diff").out
    assert "- roles" in text
    assert "renamed" in text


# Which catalog


@pytest.mark.row("D-36")
def test_without_a_store_the_truth_is_meant(hermit: Run, shadow: Lab, stash: Lab) -> None:
    with shadow.unopened().open():
        pass
    assert hermit("debug", "epoch", "--json").json()["store"] == "stash"
    with stash.unopened().open() as opened:
        opened.set_tombstone(True)
    assert hermit("debug", "epoch", "--json").json()["store"] == "persist"


@pytest.mark.row("D-74")
def test_every_command_works_on_a_shadow_of_both(hermit: Run, shadow: Lab) -> None:
    with shadow.unopened().open():
        pass
    key, value = _json("roles", 5)
    assert hermit("debug", "edit", "--store=shadow", "roles", key, value, "--yes").code == 0
    assert hermit("debug", "delete", "--store=shadow", "roles", key, "--yes").code == 0
    assert hermit("debug", "upgrade-check", "--store=shadow").code == 0
    assert hermit("debug", "dump", "--store=shadow", "--consolidate", "--json").json()["roles"]
    assert hermit("debug", "epoch", "--store=shadow").out == "3\n"
    assert hermit("debug", "diff").code == 0


@pytest.mark.row("D-65")
def test_the_tool_is_also_called_catalog_debug(hermit: Run, persist: Lab) -> None:
    persist.open()
    assert hermit("epoch", "--store=persist", main=debug_main).out == "1\n"
    assert hermit("catalog-debug", "epoch", "--store=persist").out == "1\n"

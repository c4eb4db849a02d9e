"""What the last upgrade did is kept by the store that it happened in, and by nothing else."""

from __future__ import annotations

import json
import re
import uuid
from pathlib import Path
from typing import Any

import pytest

from hermit.digest import digest_rows
from hermit.durable import init_persist_catalog_state
from hermit.durable.contents import FENCE
from hermit.durable.last_upgrade import UPGRADE_NOTE, LastUpgrade
from hermit.durable.shard import Shard, upper_of
from hermit.errors import CorruptData, HermitError
from hermit.formats.generate import rows as generate
from hermit.formats.metrics import UpgradeReport
from hermit.formats.versions import MIN_STASH_VERSION, STASH_VERSION
from hermit.identity import shard_id
from hermit.rows import Row
from hermit.stash.notes import read_note

from .conftest import NOW_MS, Lab, fill


@pytest.fixture(params=["stash", "persist"])
def lab(request: pytest.FixtureRequest) -> Lab:
    found: Lab = request.getfixturevalue(request.param)
    return found


def old(version: int = MIN_STASH_VERSION) -> list[Row]:
    return list(generate(200, seed=3, version=version))


def test_an_upgrade_leaves_its_report_and_later_openings_leave_it_alone(lab: Lab) -> None:
    fill(lab, old())
    assert lab.unopened().last_upgrade() is None
    for _ in range(3):
        lab.unopened().open().close()
        found = lab.unopened().last_upgrade()
        assert found is not None
        report = found.report
        assert (found.at_ms, report.found, report.current) == (NOW_MS, MIN_STASH_VERSION, STASH_VERSION)
        assert [step.start for step in found.report.steps] == list(range(MIN_STASH_VERSION, STASH_VERSION))
        before, after = found.report.steps[0].before, found.report.steps[-1].after
    assert before["items"].rows == sum(row.collection == "items" for row in old())
    with lab.unopened().inspect() as view:
        sizes = {size.name: size.live_rows for size in view.metrics()}
    assert {name: size.rows for name, size in after.items()} == sizes


def test_a_catalog_that_began_at_the_current_format_has_none(lab: Lab) -> None:
    assert lab.unopened().last_upgrade() is None
    lab.unopened().open().close()
    assert lab.unopened().last_upgrade() is None


def test_dry_runs_and_upgrades_that_fail_leave_none(lab: Lab) -> None:
    damaged = [row._replace(value=b"garbage") if row.collection == "items" else row for row in old()]
    fill(lab, damaged)
    for opening in (lab.unopened().open, lab.unopened().open_savepoint, lab.unopened().check_open):
        with pytest.raises(HermitError):
            opening()
    assert lab.unopened().last_upgrade() is None


def test_both_stores_report_the_same_of_the_same_catalog_and_contents_know_nothing_of_it(
    stash: Lab, persist: Lab
) -> None:
    for lab in (stash, persist):
        fill(lab, old())
        lab.unopened().open().close()
    assert stash.unopened().last_upgrade() == persist.unopened().last_upgrade()
    with stash.unopened().inspect() as first, persist.unopened().inspect() as second:
        assert first.digests() == second.digests()
        assert digest_rows(first.snapshot()) == digest_rows(second.snapshot())
        assert not any(UPGRADE_NOTE.encode() in row.key for row in first.snapshot())


def test_the_next_upgrade_takes_the_place_of_the_last(stash: Lab, persist: Lab) -> None:
    """Of the shard, whose rows must be retracted, and of the stash, whose note is overwritten."""
    for lab in (stash, persist):
        fill(lab, old())
        opened = lab.unopened().open()
        expected = list(opened.snapshot())
        opened.close()
        _go_back(lab, expected, old(STASH_VERSION - 1))
        lab.unopened().open().close()
        found = lab.unopened().last_upgrade()
        assert found is not None
        assert found.report.found == STASH_VERSION - 1
        assert len(found.report.steps) == 1


def _go_back(lab: Lab, now: list[Row], then: list[Row]) -> None:
    """Make the contents those of an older build, which nobody can do but with the store's own tools."""
    changes = [(row, -1) for row in now] + [(row, 1) for row in then]
    unopened: Any = lab.unopened()
    if unopened.store == "stash":
        unopened.client.open(lambda transaction: transaction.append(changes))[0].close()
    else:
        shard = Shard(unopened.location)
        shard.append(shard.state(), changes, {})


def test_a_damaged_note_is_named_and_keeps_nobody_from_opening(stash: Lab) -> None:
    fill(stash, old())
    stash.unopened().open().close()
    client: Any = stash.unopened().client  # type: ignore[attr-defined]
    _execute(client, "update {schema}.notes set note = '{{}}'")
    with pytest.raises(CorruptData):
        stash.unopened().last_upgrade()
    stash.unopened().open().close()
    _execute(client, "drop table {schema}.notes")
    assert read_note(client, UPGRADE_NOTE) is None


def _execute(client: Any, statement: str) -> None:
    import psycopg
    from psycopg import sql

    with psycopg.connect(client.url, autocommit=True) as connection:
        connection.execute(sql.SQL(statement).format(schema=sql.Identifier(client.schema)))


def test_the_shard_keeps_the_report_beside_its_fence(persist: Lab) -> None:
    fill(persist, old())
    persist.unopened().open().close()
    shard = Shard(persist.unopened().location)  # type: ignore[attr-defined]
    keys = set(shard.rows(FENCE, upper_of(shard.state())))
    assert keys == {b"fence", UPGRADE_NOTE.encode()}


def test_a_report_survives_json() -> None:
    from hermit.formats.upgrade import upgrade

    contents = {name: {} for name in {row.collection for row in old()}}  # type: dict[str, dict[bytes, bytes]]
    for row in old():
        contents[row.collection][row.key] = row.value

    def write(changes: Any) -> None:
        for row, diff in sorted(changes, key=lambda change: change[1]):
            table = contents.setdefault(row.collection, {})
            if diff > 0:
                table[row.key] = row.value
            else:
                del table[row.key]

    report = upgrade(MIN_STASH_VERSION, lambda name: list(contents.get(name, {}).items()), write)
    assert UpgradeReport.from_json(json.loads(json.dumps(report.to_json()))) == report
    assert LastUpgrade.decode(LastUpgrade(5, report).encode()) == LastUpgrade(5, report)


@pytest.mark.row("F-49")
def test_status_shows_the_last_upgrade_as_text_as_json_and_to_prometheus(
    stash: Lab,
    organization_id: uuid.UUID,
    database_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fill(stash, old())
    with stash.unopened().open() as opened:
        opened.set_timestamp("mine", 1)
        opened.set_timestamp("mine", 2)
    monkeypatch.setenv("HERMIT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HERMIT_STASH_URL", database_url)
    monkeypatch.setenv("HERMIT_ORGANIZATION_ID", str(organization_id))
    shard = tmp_path / "home" / "shards" / shard_id(organization_id)
    other = Lab(lambda: init_persist_catalog_state(shard, now=lambda: NOW_MS))
    fill(other, old(STASH_VERSION - 1))
    other.open()
    other.close()

    text = _status()
    assert f"stash upgraded from format {MIN_STASH_VERSION} to {STASH_VERSION}, 2023-11-14 22:13:20" in text
    assert f"persist upgraded from format {STASH_VERSION - 1} to {STASH_VERSION}" in text
    found = json.loads(_status("--json"))
    assert len(found["stash"]["last_upgrade"]["steps"]) == STASH_VERSION - MIN_STASH_VERSION
    stored, live = (found["stash"][name]["timestamps"] for name in ("stored", "collections"))
    assert (stored["rows"], stored["live_rows"]) == (live["rows"] + 2, live["rows"])
    lines = _status("--prometheus").splitlines()
    _check_exposition(lines)
    explained = (Path(__file__).parents[2] / "docs" / "reference" / "metrics.md").read_text()
    assert all(f"`{line.split()[2]}`" in explained for line in lines if line.startswith("# TYPE"))
    items = sum(row.collection == "items" for row in old())
    step = f"v{MIN_STASH_VERSION}_to_v{MIN_STASH_VERSION + 1}"
    for sample in (
        f'upgrade_rows{{ORG,store="stash",step="{step}",when="before",collection="items"}} {items}',
        f'catalog_format_version{{ORG,store="persist"}} {STASH_VERSION}',
        'catalog_is_source_of_truth{ORG,store="stash"} 1',
        f'catalog_rows{{ORG,store="stash",collection="timestamps"}} {live["rows"]}',
        f'stash_rows{{ORG,collection="timestamps"}} {stored["rows"]}',
    ):
        assert "hermit_" + sample.replace("ORG", f'organization="{organization_id}"') in lines


def _check_exposition(lines: list[str]) -> None:
    """Every sample once, in the form that Prometheus reads, after the type of its metric."""
    samples = [line for line in lines if not line.startswith("#")]
    assert all(re.fullmatch(r'[a-z_]+\{([a-z_]+="[^"]*",?)+\} -?\d+', line) for line in samples)
    assert len({line.split(" ")[0] for line in samples}) == len(samples)
    typed = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(set(typed)) == len(typed)
    assert {line.partition("{")[0] for line in samples} <= set(typed)


def _status(*options: str) -> str:
    from typer.testing import CliRunner

    from hermit.cli.status import app

    result = CliRunner().invoke(app, list(options), catch_exceptions=False)
    assert result.exit_code == 0
    return result.output

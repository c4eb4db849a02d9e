"""How the durable catalog sits among the others: constructors, imports, names, words in the documentation."""

from __future__ import annotations

import ast
import uuid
from pathlib import Path

import pytest

import hermit
from hermit.durable import init_persist_catalog_state, init_stash_catalog_state
from hermit.durable.contents import MOVED, is_own_config, moved_rows
from hermit.formats import config
from hermit.formats.generate import rows as generate
from hermit.identity import shard_id
from hermit.objects import KINDS
from hermit.rows import Row

from .conftest import NOW_MS, Lab, fill

PACKAGE = Path(hermit.__file__).parent
ROOT = PACKAGE.parents[1]


def _imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{name.name}" for name in node.names)}
        elif isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
    return found


@pytest.mark.row("D-76")
def test_the_stores_know_nothing_about_upgrades() -> None:
    for room in ("stash", "persist"):
        for path in (PACKAGE / room).rglob("*.py"):
            known = {name for name in _imports(path) if name.startswith("hermit.formats")}
            allowed = {"hermit.formats", "hermit.formats.config", "hermit.formats.codec"}
            assert known <= allowed, f"{path.name} imports {known - allowed}"


@pytest.mark.row("D-35")
def test_nobody_reads_or_changes_objects_but_through_the_interface() -> None:
    """Beside the durable catalog, only what moves whole contents, as bytes, may reach for a store."""
    movers = {"migration", "bench", "stash", "persist", "durable"}
    tools_of_one_store = {"cli/persist.py"}
    for path in PACKAGE.rglob("*.py"):
        relative = path.relative_to(PACKAGE)
        if relative.parts[0] in movers or relative.as_posix() in tools_of_one_store:
            continue
        reached = {name for name in _imports(path) if name.startswith(("hermit.stash", "hermit.persist"))}
        reached -= {name for name in reached if ".errors" in name or ".metrics" in name}
        assert not reached, f"{relative} reaches for {reached}"


@pytest.mark.row("D-30", "D-31", "D-33", "D-43")
def test_constructors_open_nothing_and_write_nothing(
    database_url: str, organization_id: uuid.UUID, tmp_path: Path, stash: Lab, persist: Lab
) -> None:
    leaders = stash.open(), persist.open()
    made = (
        init_stash_catalog_state(database_url, organization_id, now=lambda: NOW_MS),
        init_persist_catalog_state(tmp_path / "shard", now=lambda: NOW_MS),
    )
    for state, leader in zip(made, leaders, strict=True):
        assert state.boot_ts == NOW_MS
        assert state.epoch() == leader.epoch == 1
        leader.confirm_leadership()
    elsewhere = init_persist_catalog_state(tmp_path / "nowhere")
    assert elsewhere.is_initialized() is False
    assert not (tmp_path / "nowhere").exists()


def test_a_constructor_needs_no_server_before_it_is_asked(organization_id: uuid.UUID) -> None:
    state = init_stash_catalog_state("postgresql://nobody@/nothing?host=/nonexistent", organization_id)
    assert state.store == "stash"


@pytest.mark.row("D-41", "D-42")
def test_an_organization_has_one_shard_whose_name_is_not_its_own() -> None:
    one, other = uuid.uuid4(), uuid.uuid4()
    assert shard_id(one) == shard_id(uuid.UUID(str(one)))
    assert shard_id(one) != shard_id(other)
    assert str(one) not in shard_id(one)
    assert uuid.UUID(shard_id(one).removeprefix("s")).version == 4


@pytest.mark.row("D-60")
def test_the_dump_of_the_same_catalog_is_the_same_text_on_both_stores(stash: Lab, persist: Lab) -> None:
    rows = list(generate(300, 3))
    for lab in (stash, persist):
        fill(lab, rows)
    dumps = [lab.open().dump() for lab in (stash, persist)]
    assert dumps[0] == dumps[1]
    assert '"occurred_at_ms"' in dumps[0], "with what is not kept in memory"


def test_what_speaks_about_a_store_is_not_contents() -> None:
    assert set(MOVED) == set(KINDS)
    tombstone = Row("config", config.encode_key("tombstone"), config.encode_value(1))
    version = Row("config", config.encode_key("user_version"), config.encode_value(1))
    assert list(moved_rows([tombstone, version])) == [version]
    assert not is_own_config("settings", tombstone.key)


@pytest.mark.row("D-75")
def test_the_documentation_says_what_an_upgrade_check_needs() -> None:
    text = (ROOT / "docs" / "durable.md").read_text()
    assert "two versions of the tool" in text

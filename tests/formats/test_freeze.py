"""Freezing: one command makes a version, and leaves a test that fails until the step is written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from uuid import UUID

import pytest

from hermit.errors import HermitError, InvalidInput
from hermit.formats import codegen, guard
from hermit.formats.freeze import freeze, seal
from hermit.formats.layout import Layout
from hermit.formats.versions import STASH_VERSION
from tests.formats import mistakes

NEXT = mistakes.NEXT


def _add_field(layout: Layout) -> None:
    text = layout.current.read_text()
    old = "message TimestampValue {\n  uint64 ts_ms = 1;\n"
    assert old in text
    layout.current.write_text(text.replace(old, old + "  string source = 2;\n"))


def _run(layout: Layout, *command: str) -> subprocess.CompletedProcess[str]:
    """Run Python on the scratch copy instead of this checkout."""
    root = layout.formats.parents[2]
    return subprocess.run(
        [sys.executable, *command],
        cwd=root,
        env={"PYTHONPATH": f"{root / 'include'}:{root}", "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.row("F-15")
@pytest.mark.row("F-28")
def test_freezing_makes_a_version_that_passes_the_guard_and_mypy(scratch: Layout) -> None:
    _add_field(scratch)
    frozen = freeze(scratch)
    assert frozen.version == NEXT
    guard.check(scratch)
    assert scratch.snapshot(NEXT).read_bytes() == scratch.current.read_bytes()
    assert scratch.constants()["STASH_VERSION"] == NEXT
    assert all(path.exists() for path in frozen.written)
    assert "Success" in mistakes.mypy(scratch)
    use = f"from hermit.formats.gen import objects_v{NEXT}_pb2 as new; new.TimestampValue(source='x')"
    run = _run(scratch, "-c", use)
    assert run.returncode == 0, run.stderr


@pytest.mark.slow
def test_the_scaffolded_test_fails_until_the_step_is_described(scratch: Layout) -> None:
    _add_field(scratch)
    *_, test = freeze(scratch).written
    arguments = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", "--noconftest")
    run = _run(scratch, *arguments, str(test))
    assert run.returncode == 1
    assert f"say what v{STASH_VERSION} to v{NEXT} must do" in run.stdout


@pytest.mark.slow
def test_a_frozen_step_upgrades_a_catalog(scratch: Layout) -> None:
    """A data-only step: the scaffold itself converts nothing that differs, so only the version moves."""
    freeze(scratch, unchanged=True)
    code = f"""
from hermit.formats.generate import rows
from tests.formats.store import MemoryStore
store = MemoryStore(rows(300, seed=1, version=14))
store.upgrade()
assert store.version == {NEXT}
"""
    run = _run(scratch, "-c", code)
    assert run.returncode == 0, run.stderr


@pytest.mark.slow
@pytest.mark.row("F-47")
def test_a_restart_on_the_next_version_upgrades_what_the_last_one_wrote(
    scratch: Layout, database_url: str, organization_id: UUID
) -> None:
    """The same program before and after a change of the format, on a real stash."""
    program = f"""
from uuid import UUID
from hermit.durable import init_stash_catalog_state
unopened = init_stash_catalog_state({database_url!r}, UUID({str(organization_id)!r}))
print(unopened.format_version())
with unopened.open() as catalog:
    found = catalog.get_setting_by_name("kept")
    catalog.set_setting("kept", "1")
print(unopened.format_version(), found and found.value.value)
"""
    before = _run(scratch, "-c", program)
    assert before.stdout.split() == ["None", str(STASH_VERSION), "None"], before.stderr
    _add_field(scratch)
    freeze(scratch)
    after = _run(scratch, "-c", program)
    assert after.stdout.split() == [str(STASH_VERSION), str(NEXT), "1"], after.stderr
    refused = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "future" in refused.stderr, "the build before the change does not touch it any more"


def test_an_unchanged_proto_is_not_frozen_by_accident(scratch: Layout) -> None:
    with pytest.raises(InvalidInput, match="nothing to freeze"):
        freeze(scratch)


def _files(layout: Layout) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in layout.formats.rglob("*") if path.is_file()}


def test_a_proto_that_does_not_compile_changes_nothing(scratch: Layout) -> None:
    scratch.current.write_text(scratch.current.read_text() + "message {\n")
    before = _files(scratch)
    with pytest.raises(codegen.CodeGenerationFailed, match=r"objects\.proto"):
        freeze(scratch)
    assert _files(scratch) == before


def test_other_mistakes_come_first(scratch: Layout) -> None:
    mistakes.import_in_current(scratch)
    with pytest.raises(guard.ImportInProto):
        freeze(scratch)


def test_freezing_needs_a_checkout(tmp_path: Path, scratch: Layout) -> None:
    _add_field(scratch)
    (tmp_path / "tests").rename(tmp_path / "elsewhere")
    with pytest.raises(InvalidInput, match="no tests"):
        freeze(scratch)


def test_sealing_closes_the_newest_step(scratch: Layout) -> None:
    hashes = guard.read_hashes(scratch)
    newest = scratch.step(STASH_VERSION - 1)
    guard.write_hashes(scratch, {name: each for name, each in hashes.items() if name != newest.name})
    newest.write_text(newest.read_text() + "\n")
    assert seal(scratch) == [newest]
    assert seal(scratch) == []
    newest.write_text(newest.read_text() + "\n")
    with pytest.raises(guard.StepChanged):
        guard.check(scratch)


def test_a_changed_step_cannot_be_sealed(scratch: Layout) -> None:
    mistakes.change_step(scratch)
    with pytest.raises(HermitError, match="finished step"):
        seal(scratch)

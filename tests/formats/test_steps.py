"""The modules of the steps: what they may import, and that each says why it exists."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from hermit.formats import guard
from hermit.formats.layout import Layout

LAYOUT = Layout.here()
INCLUDE = LAYOUT.formats.parents[1]
STEPS = sorted(LAYOUT.steps().items())
# These find the types of a version by its number, at run time: the generator makes catalogs of any
# version, and a dump shows rows of older versions as they were. The list may only shrink.
READS_ANY_VERSION = {"hermit/formats/generate.py", "hermit/durable/dump.py"}


def _imports(path: Path) -> set[str]:
    """Every module that a file imports, wherever in the file."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
            found.add(node.module)
    return found


def _frozen(names: set[str]) -> set[str]:
    return {name for name in names if "objects_v" in name or "legacy_json_objects" in name}


def _types_of(version: int) -> str:
    if version == 14:
        return "hermit.formats.legacy_json_objects"
    return f"hermit.formats.gen.objects_v{version}_pb2"


@pytest.mark.row("F-29")
@pytest.mark.row("F-41")
@pytest.mark.parametrize(("version", "path"), STEPS, ids=[path.stem for _, path in STEPS])
def test_a_step_imports_only_the_two_versions_that_it_joins(version: int, path: Path) -> None:
    assert _frozen(_imports(path)) <= {_types_of(version), _types_of(version + 1)}
    assert "hermit.formats.gen.objects_pb2" not in _imports(path)


@pytest.mark.row("F-29")
@pytest.mark.row("F-41")
def test_nothing_else_imports_a_frozen_version() -> None:
    steps = {path for _, path in STEPS}
    for path in INCLUDE.rglob("*.py"):
        if path not in steps and path.parent != LAYOUT.generated:
            assert not _frozen(_imports(path)), path


def test_only_tools_find_frozen_types_by_number() -> None:
    found = {
        path.relative_to(INCLUDE).as_posix()
        for path in INCLUDE.rglob("*.py")
        if "formats.gen.objects_v" in path.read_text()
        and path.parent not in (LAYOUT.upgrades, LAYOUT.generated)
    }
    assert found - {"hermit/formats/freeze.py"} <= READS_ANY_VERSION


def test_a_step_touches_nothing_but_objects() -> None:
    """Pure: no store, no clock, no file, no network; only types, actions and errors."""
    allowed = ("__future__", "collections", "typing", "re", "google.protobuf", "hermit.formats")
    for _, path in STEPS:
        for name in _imports(path):
            assert name.startswith(allowed), f"{path.name} imports {name}"


@pytest.mark.row("F-30")
@pytest.mark.parametrize("path", [path for _, path in STEPS], ids=lambda path: path.stem)
def test_a_step_says_what_it_does_and_why(path: Path) -> None:
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    assert "TODO" not in path.read_text()
    first, _, rest = text.partition("\n\n")
    assert first
    assert len(rest) > 150, "the second paragraph says why the step exists"


@pytest.mark.row("F-28")
def test_there_is_one_module_one_arm_and_one_test_per_step() -> None:
    constants = LAYOUT.constants()
    versions = list(range(constants["MIN_STASH_VERSION"], constants["STASH_VERSION"]))
    assert [version for version, _ in STEPS] == versions
    assert guard.arms_of(LAYOUT) == set(versions)
    tests = Path(__file__).parent / "upgrades"
    for _, path in STEPS:
        assert (tests / f"test_{path.name}").exists()

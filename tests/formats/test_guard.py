"""The guard: every mistake with the formats, made in a scratch copy, has a message of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hermit.formats import codegen, guard
from hermit.formats.layout import Layout
from hermit.formats.versions import STASH_VERSION
from tests.formats import mistakes


def test_the_formats_are_as_frozen() -> None:
    assert list(guard.mistakes(Layout.here())) == []


def test_a_scratch_copy_without_a_mistake_passes(scratch: Layout) -> None:
    guard.check(scratch)


@pytest.mark.row("F-1")
@pytest.mark.row("F-11")
@pytest.mark.row("F-12")
@pytest.mark.row("F-13")
@pytest.mark.row("F-14")
@pytest.mark.row("F-33")
@pytest.mark.parametrize(
    ("make", "error", "message"), mistakes.MISTAKES, ids=[make.__name__ for make, _, _ in mistakes.MISTAKES]
)
def test_each_mistake_is_told_apart(
    scratch: Layout, make: Callable[[Layout], None], error: type[guard.FormatMistake], message: str
) -> None:
    make(scratch)
    with pytest.raises(guard.FormatMistake, match=re.escape(message)) as failure:
        guard.check(scratch)
    assert type(failure.value) is error
    assert failure.value.hint


def test_the_messages_are_all_different() -> None:
    hints = {error.hint for _, error, _ in mistakes.MISTAKES}
    assert len(hints) == len({error for _, error, _ in mistakes.MISTAKES})


def test_an_import_in_a_comment_is_no_import(scratch: Layout) -> None:
    mistakes.append(scratch.current, '/*\nimport "a.proto";\n*/\n// import "b.proto";\n')
    with pytest.raises(guard.CurrentProtoChanged):
        guard.check(scratch)


@pytest.mark.row("F-14")
@pytest.mark.parametrize("make", mistakes.THE_FOUR)
def test_the_command_fails_with_the_message_in_one_line(
    scratch: Layout, make: Callable[[Layout], None]
) -> None:
    make(scratch)
    root = scratch.formats.parents[2]
    run = subprocess.run(
        [sys.executable, "-m", "hermit.cli", "formats", "check", "--root", str(root)],
        capture_output=True,
        text=True,
        check=False,
    )
    (message,) = (message for each, _, message in mistakes.MISTAKES if each is make)
    assert run.returncode == 1
    assert message in run.stderr
    assert len(run.stderr.splitlines()) == 1
    assert run.stdout == ""


@pytest.mark.parametrize("make", mistakes.THE_FOUR)
def test_code_is_not_generated_from_a_mistake(scratch: Layout, make: Callable[[Layout], None]) -> None:
    make(scratch)
    before = {path.name: path.read_bytes() for path in scratch.generated.glob("*.py")}
    with pytest.raises(guard.FormatMistake):
        codegen.generate(scratch)
    assert {path.name: path.read_bytes() for path in scratch.generated.glob("*.py")} == before


_BUILD = "import sys, setuptools.build_meta as build; build.build_wheel(sys.argv[1])"


def _build_package(layout: Layout, target: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", _BUILD, str(target)],
        cwd=layout.formats.parents[2],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.row("F-14")
def test_the_package_is_not_built_with_a_mistake(scratch: Layout, tmp_path: Path) -> None:
    good = _build_package(scratch, tmp_path / "dist")
    assert good.returncode == 0, good.stderr
    for make in mistakes.THE_FOUR:
        originals = {
            path: path.read_bytes() for path in (scratch.current, scratch.versions, scratch.snapshot(17))
        }
        make(scratch)
        run = _build_package(scratch, tmp_path / "bad")
        (message,) = (message for each, _, message in mistakes.MISTAKES if each is make)
        assert run.returncode != 0
        assert message in run.stderr
        for path, data in originals.items():
            path.write_bytes(data)


@pytest.mark.slow
@pytest.mark.row("F-21")
def test_a_bump_without_an_arm_does_not_type_check(scratch: Layout) -> None:
    """The constant alone, and the constant together with the list of known versions."""
    mistakes.bump(scratch)
    assert re.search(
        r"upgrades/__init__\.py:\d+: error: Argument 1 to \"assert_never\"", mistakes.mypy(scratch)
    )
    text = scratch.versions.read_text()
    scratch.versions.write_text(text.replace(f", {STASH_VERSION}]", f", {STASH_VERSION}, {mistakes.NEXT}]"))
    missing = rf"error: Argument 1 to \"assert_never\" .*Literal\[{STASH_VERSION}\]"
    assert re.search(missing, mistakes.mypy(scratch))

"""Makes what objects.proto says now a version of its own.

Freezing copies objects.proto to a snapshot, bumps `STASH_VERSION`, and scaffolds the step from the version
before with a test that fails until somebody has said what the step must do. From then on the steps before
it are closed: their hashes are recorded. `seal` closes the newest one as well, when it is released.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from hermit.errors import InvalidInput, invariant
from hermit.formats import codegen, guard
from hermit.formats.layout import Layout

_MODULE = '''\
"""TODO: what changes from {old} to {new}, and why. This text stays for as long as the step does.

Yield an action for every row whose encoding changes. What is not mentioned keeps its bytes.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermit.formats.actions import Action, Old, Update, carry
from hermit.formats.gen import objects_v{old}_pb2 as v{old}
from hermit.formats.gen import objects_v{new}_pb2 as v{new}


def upgrade(old: Old) -> Iterator[Action]:
    """TODO: convert the collections that changed."""
    for row in old.messages("timestamps", v{old}.TimestampKey, v{old}.TimestampValue):
        yield Update(row, carry(row.value, v{new}.TimestampValue))
'''

_TEST = '''\
"""v{old} to v{new}: TODO, what the step must do, in one sentence."""

from __future__ import annotations

import pytest

from hermit.formats.gen import objects_v{old}_pb2 as v{old}
from hermit.formats.gen import objects_v{new}_pb2 as v{new}
from hermit.formats.upgrades.v{old}_to_v{new} import upgrade
from tests.formats.old_catalog import OldCatalog


def test_the_step_is_described_by_a_test() -> None:
    timestamp = (v{old}.TimestampKey(timeline="a"), v{old}.TimestampValue(ts_ms=1))
    old = OldCatalog(v{old}, {{"timestamps": [timestamp]}})
    new = old.after(upgrade, v{new})
    pytest.fail(f"say what v{old} to v{new} must do, instead of {{new}}")
'''

_ARM = """\
        case {old}:
            from hermit.formats.upgrades import v{old}_to_v{new}

            return v{old}_to_v{new}.upgrade
"""


@dataclass(frozen=True)
class Frozen:
    """What a freeze made."""

    version: int
    written: tuple[Path, ...]


def freeze(layout: Layout, *, unchanged: bool = False) -> Frozen:
    """Take a snapshot, bump the version, scaffold step and test, and generate the code."""
    _check_freezable(layout, unchanged)
    old = layout.constants()["STASH_VERSION"]
    new = old + 1
    test = layout.formats.parents[2] / "tests" / "formats" / "upgrades" / f"test_v{old}_to_v{new}.py"
    if not test.parent.is_dir():
        raise InvalidInput(f"there are no tests in {test.parent}", hint="freeze in a checkout of hermit")
    codegen.check_compiles(layout.current)
    shutil.copyfile(layout.current, layout.snapshot(new))
    _edit(layout.versions, rf"(STASH_VERSION: Final = ){old}\b", rf"\g<1>{new}")
    _edit(layout.versions, rf"(KnownVersion = Literal\[.*\b{old})\]", rf"\g<1>, {new}]")
    _edit(layout.arms, r"(    assert_never\(version\))", _ARM.format(old=old, new=new) + r"\g<1>")
    layout.step(old).write_text(_MODULE.format(old=old, new=new))
    test.write_text(_TEST.format(old=old, new=new))
    hashes = guard.read_hashes(layout)
    hashes |= {path.name: guard.digest(path) for path in (layout.current, layout.snapshot(new))}
    hashes |= {path.name: guard.digest(path) for version, path in layout.steps().items() if version < old}
    guard.write_hashes(layout, hashes)
    guard.check(layout)
    codegen.generate(layout)
    return Frozen(new, (layout.snapshot(new), layout.step(old), test))


def seal(layout: Layout) -> list[Path]:
    """Close every step that is still open. Returns those that were."""
    guard.check(layout)
    hashes = guard.read_hashes(layout)
    opened = [path for path in layout.steps().values() if path.name not in hashes]
    guard.write_hashes(layout, hashes | {path.name: guard.digest(path) for path in opened})
    return opened


def _check_freezable(layout: Layout, unchanged: bool) -> None:
    """Only a changed objects.proto is a reason to freeze; every other mistake comes first."""
    found = list(guard.mistakes(layout))
    for mistake in found:
        if not isinstance(mistake, guard.CurrentProtoChanged):
            raise mistake
    if not found and not unchanged:
        raise InvalidInput(
            "objects.proto is what the newest snapshot holds, so that there is nothing to freeze",
            hint="edit it first, or pass --unchanged for a step that only converts data",
        )


def _edit(path: Path, pattern: str, replacement: str) -> None:
    text, count = re.subn(pattern, replacement, path.read_text())
    invariant(count == 1, f"{path.name} does not have the place to edit exactly once: {pattern}")
    path.write_text(text)

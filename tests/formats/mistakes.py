"""Mistakes with the formats, to be made in a scratch copy, and how the guard tells them apart."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from hermit.formats import guard
from hermit.formats.layout import Layout
from hermit.formats.versions import STASH_VERSION

NEXT = STASH_VERSION + 1


def append(path: Path, text: str) -> None:
    path.write_text(path.read_text() + text)


def change_current(layout: Layout) -> None:
    append(layout.current, "\n")


def change_snapshot(layout: Layout) -> None:
    append(layout.snapshot(17), "\n")


def change_newest_snapshot(layout: Layout) -> None:
    append(layout.snapshot(STASH_VERSION), "\n")


def remove_snapshot(layout: Layout) -> None:
    layout.snapshot(18).unlink()


def bump(layout: Layout) -> None:
    text = layout.versions.read_text()
    layout.versions.write_text(
        text.replace(f"STASH_VERSION: Final = {STASH_VERSION}", f"STASH_VERSION: Final = {NEXT}")
    )


def add_snapshot(layout: Layout) -> None:
    shutil.copyfile(layout.current, layout.snapshot(NEXT))


def bump_with_hand_made_snapshot(layout: Layout) -> None:
    bump(layout)
    add_snapshot(layout)


def import_in_current(layout: Layout) -> None:
    text = layout.current.read_text()
    layout.current.write_text(
        text.replace(
            "package hermit.objects;", 'package hermit.objects;\n\nimport "google/protobuf/empty.proto";'
        )
    )


def import_in_snapshot(layout: Layout) -> None:
    append(layout.snapshot(15), 'import public "other.proto";\n')


def remove_step(layout: Layout) -> None:
    layout.step(16).unlink()


def remove_arm(layout: Layout) -> None:
    layout.arms.write_text(layout.arms.read_text().replace("case 16:", "case 99:"))


def change_step(layout: Layout) -> None:
    append(layout.step(16), "# harmless\n")


def break_hashes(layout: Layout) -> None:
    layout.hashes.write_text("{")


MISTAKES: list[tuple[Callable[[Layout], None], type[guard.FormatMistake], str]] = [
    (change_current, guard.CurrentProtoChanged, "objects.proto was changed without a new snapshot"),
    (change_snapshot, guard.SnapshotChanged, "the snapshot objects_v17.proto was changed"),
    (
        change_newest_snapshot,
        guard.SnapshotChanged,
        f"the snapshot objects_v{STASH_VERSION}.proto was changed",
    ),
    (remove_snapshot, guard.SnapshotChanged, "the snapshot objects_v18.proto is missing"),
    (
        bump,
        guard.VersionWithoutSnapshot,
        f"STASH_VERSION is {NEXT}, but the newest snapshot is {STASH_VERSION}",
    ),
    (
        add_snapshot,
        guard.VersionWithoutSnapshot,
        f"STASH_VERSION is {STASH_VERSION}, but the newest snapshot is {NEXT}",
    ),
    (bump_with_hand_made_snapshot, guard.VersionWithoutSnapshot, "not taken by freeze"),
    (import_in_current, guard.ImportInProto, "objects.proto imports another proto"),
    (import_in_snapshot, guard.ImportInProto, "objects_v15.proto imports another proto"),
    (remove_step, guard.StepMissing, "there is no v16_to_v17.py"),
    (remove_arm, guard.StepMissing, "no arm of step_from starts from format 16"),
    (change_step, guard.StepChanged, "the finished step v16_to_v17.py was changed"),
    (break_hashes, guard.HashesDamaged, "cannot read hashes.json"),
]

THE_FOUR = [change_current, change_snapshot, bump, import_in_current]


def mypy(layout: Layout) -> str:
    root = layout.formats.parents[2]
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--config-file",
        str(root / "pyproject.toml"),
        "--no-incremental",
    ]
    run = subprocess.run(
        [*command, "include/hermit/formats/upgrades/__init__.py"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    return run.stdout

"""The build's guard over the frozen formats. It fails before anything is compiled, packed or tested.

`hashes.json` holds the hash of the current proto, of every snapshot and of every finished step. The guard
compares, and recognises each mistake by itself, with a message that says what to do about it. It runs in
`hermit formats check`, before code is generated, before a package is built and before the tests.

It reads files only, and imports nothing that an installation would have to bring.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

from hermit.errors import HermitError
from hermit.formats.layout import Layout

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_IMPORT = re.compile(r"^\s*import\b", re.MULTILINE)


class FormatMistake(HermitError):
    """Root of what the guard can find. `path` is the file in question."""

    path: Path


class ImportInProto(FormatMistake):
    """A proto depends on another file."""

    hint = "copy the messages that you need into it: no snapshot freezes what is imported"


class SnapshotChanged(FormatMistake):
    """A snapshot is not what was frozen."""

    hint = (
        "catalogs of that version exist, so restore it with `git checkout`; to change the format, edit "
        "objects.proto and run `./hermit formats freeze`"
    )


class VersionWithoutSnapshot(FormatMistake):
    """`STASH_VERSION` and the snapshots do not belong together."""

    hint = (
        "do not edit STASH_VERSION: set it back, edit objects.proto, and let `./hermit formats freeze` bump "
        "the version and take the snapshot"
    )


class CurrentProtoChanged(FormatMistake):
    """The current proto differs from the newest snapshot."""

    hint = "run `./hermit formats freeze` to make it a new version, or `git checkout` it"


class StepMissing(FormatMistake):
    """A version has no step to the next one."""

    hint = "`./hermit formats freeze` writes the module and its arm; every version needs both"


class StepChanged(FormatMistake):
    """A finished step is not what it was."""

    hint = "catalogs have run it already, so restore it with `git checkout`; put the change into a new step"


class HashesDamaged(FormatMistake):
    """hashes.json cannot be read."""

    hint = "restore it with `git checkout`; only `./hermit formats freeze` and `seal` write it"


def check(layout: Layout) -> None:
    """Raise the first mistake, if there is one."""
    for mistake in mistakes(layout):
        raise mistake


def mistakes(layout: Layout) -> Iterator[FormatMistake]:
    """Every mistake, causes before their consequences."""
    hashes = read_hashes(layout)
    yield from _imports(layout)
    yield from _snapshots(layout, hashes)
    yield from _versions(layout)
    yield from _current(layout, hashes)
    yield from _steps(layout, hashes)


def digest(path: Path) -> str:
    """The hash by which a file is recognised."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def read_hashes(layout: Layout) -> dict[str, str]:
    """File to hash, from hashes.json."""
    try:
        found = json.loads(layout.hashes.read_text())
    except (OSError, ValueError) as error:
        raise HashesDamaged(f"cannot read {layout.hashes.name}: {error}", path=layout.hashes) from error
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise HashesDamaged(f"{layout.hashes.name} does not map files to hashes", path=layout.hashes)
    return found


def write_hashes(layout: Layout, hashes: dict[str, str]) -> None:
    """Replace hashes.json."""
    layout.hashes.write_text(json.dumps(hashes, indent=2, sort_keys=True) + "\n")


def _imports(layout: Layout) -> Iterator[FormatMistake]:
    for path in (layout.current, *layout.snapshots().values()):
        if path.exists() and _IMPORT.search(_COMMENT.sub("", path.read_text())):
            yield ImportInProto(f"{path.name} imports another proto", path=path)


def _snapshots(layout: Layout, hashes: dict[str, str]) -> Iterator[FormatMistake]:
    for name, wanted in hashes.items():
        path = layout.old / name
        if not name.startswith("objects_v"):
            continue
        if not path.exists():
            yield SnapshotChanged(f"the snapshot {name} is missing", path=path)
        elif digest(path) != wanted:
            yield SnapshotChanged(f"the snapshot {name} was changed", path=path)


def _versions(layout: Layout) -> Iterator[FormatMistake]:
    constants = layout.constants()
    first, current = constants.get("FIRST_PROTO_VERSION"), constants.get("STASH_VERSION")
    found = list(layout.snapshots())
    hashes = read_hashes(layout)
    if first is None or current is None or found != list(range(first, current + 1)):
        newest = found[-1] if found else "none"
        yield VersionWithoutSnapshot(
            f"STASH_VERSION is {current}, but the newest snapshot is {newest}", path=layout.versions
        )
    for version, path in layout.snapshots().items():
        if path.name not in hashes:
            yield VersionWithoutSnapshot(f"the snapshot of {version} was not taken by freeze", path=path)


def _current(layout: Layout, hashes: dict[str, str]) -> Iterator[FormatMistake]:
    path, newest = layout.current, list(layout.snapshots().values())[-1:]
    if not path.exists():
        yield CurrentProtoChanged(f"{path.name} is missing", path=path)
    elif digest(path) != hashes.get(path.name) or [path.read_bytes()] != [
        each.read_bytes() for each in newest
    ]:
        yield CurrentProtoChanged(f"{path.name} was changed without a new snapshot", path=path)


def _steps(layout: Layout, hashes: dict[str, str]) -> Iterator[FormatMistake]:
    constants = layout.constants()
    arms = arms_of(layout)
    for version in range(constants.get("MIN_STASH_VERSION", 0), constants.get("STASH_VERSION", 0)):
        path = layout.step(version)
        if not path.exists():
            yield StepMissing(f"there is no {path.name}, so format {version} cannot be upgraded", path=path)
        elif version not in arms:
            yield StepMissing(f"no arm of step_from starts from format {version}", path=layout.arms)
        elif path.name in hashes and digest(path) != hashes[path.name]:
            yield StepChanged(f"the finished step {path.name} was changed", path=path)


def arms_of(layout: Layout) -> set[int]:
    """The versions for which the match statement of step_from has an arm."""
    return {
        node.pattern.value.value
        for node in ast.walk(ast.parse(layout.arms.read_text()))
        if isinstance(node, ast.match_case)
        and isinstance(node.pattern, ast.MatchValue)
        and isinstance(node.pattern.value, ast.Constant)
        and isinstance(node.pattern.value.value, int)
    }

"""One module per step, and the one place that says which step starts from which version.

mypy proves that every known version has an arm: bump `STASH_VERSION` without a new one and the last line
no longer type-checks. A module is never changed once a later version exists (the guard knows its hash).

An arm may look at the build that runs it, for a step that only certain builds need:

        case 21 if build < (0, 50):
            return v21_to_v22.upgrade
        case 21:
            return nothing
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias, assert_never

from hermit.formats.actions import Action, Old
from hermit.formats.versions import STASH_VERSION, KnownVersion

Build: TypeAlias = tuple[int, ...]
Step: TypeAlias = Callable[[Old], Iterator[Action]]


def nothing(old: Old) -> Iterator[Action]:
    """The step of an arm whose guard says that this build need not convert anything."""
    yield from ()


def step_from(version: KnownVersion, build: Build) -> Step | None:
    """The step from this version to the next, or None at the current version.

    Modules are imported arm by arm: opening a current catalog loads no frozen version.
    """
    if version == STASH_VERSION:
        return None
    match version:
        case 14:
            from hermit.formats.upgrades import v14_to_v15

            return v14_to_v15.upgrade
        case 15:
            from hermit.formats.upgrades import v15_to_v16

            return v15_to_v16.upgrade
        case 16:
            from hermit.formats.upgrades import v16_to_v17

            return v16_to_v17.upgrade
        case 17:
            from hermit.formats.upgrades import v17_to_v18

            return v17_to_v18.upgrade
        case 18:
            from hermit.formats.upgrades import v18_to_v19

            return v18_to_v19.upgrade
        case 19:
            from hermit.formats.upgrades import v19_to_v20

            return v19_to_v20.upgrade
        case 20:
            from hermit.formats.upgrades import v20_to_v21

            return v20_to_v21.upgrade
    assert_never(version)

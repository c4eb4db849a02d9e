"""Catalogs in every state of both protocols, brought there by the steps of real moves."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

from hermit.formats.generate import rows
from hermit.migration.load import load_rows
from hermit.migration.protocol import Direction, Step
from hermit.migration.stores import Stores, connect
from tests.migration.driver import Crash, move

N, T, F = None, True, False
MIGRATE, ROLLBACK = Direction.MIGRATE, Direction.ROLLBACK

# Whole moves, and a last one that dies right after a step.
WAYS: dict[str, tuple[str, list[Direction], tuple[Direction, Step] | None]] = {
    "single-absent": ("single", [], None),
    "single-true": ("single", [MIGRATE], None),
    "single-false": ("single", [MIGRATE, ROLLBACK], None),
    "double-absent-absent": ("double", [], None),
    "double-true-absent": ("double", [], (MIGRATE, Step.SNAPSHOT)),
    "double-false-absent": ("double", [ROLLBACK], None),
    "double-true-false": ("double", [MIGRATE], None),
    "double-false-false": ("double", [MIGRATE], (ROLLBACK, Step.ANNOUNCE)),
    "double-false-true": ("double", [MIGRATE, ROLLBACK], None),
    "double-true-true": ("double", [MIGRATE, ROLLBACK], (MIGRATE, Step.REPLACE)),
}
# Tombstones that no move writes: somebody did by hand.
FORGED = {"double-absent-true": True, "double-absent-false": False}
STATES = (*WAYS, *FORGED)


@dataclass(frozen=True)
class Made:
    """A catalog in a state, named `protocol-stash[-persist]`."""

    name: str
    stores: Stores

    @property
    def organization_id(self) -> str:
        return str(self.stores.organization_id)

    @property
    def protocol(self) -> str:
        return self.name.partition("-")[0]

    @property
    def state(self) -> str:
        return self.name.partition("-")[2]


def make_all(stash_url: str, shards: str, objects: int = 60) -> Iterator[Made]:
    """One catalog per state. The organization's ID is the same in every run, as are its rows."""
    for number, name in enumerate(STATES):
        organization_id = uuid.UUID(int=(0x5EED << 112) | (4 << 76) | (8 << 60) | (number + 1))
        stores = connect(stash_url, shards, organization_id)
        load_rows(stores, rows(objects, number))
        bring_to(stores, name)
        yield Made(name, stores)


def bring_to(stores: Stores, name: str) -> None:
    """Move the catalog until it is in this state."""
    if name in FORGED:
        _adopt_double(stores)
        with stores.persist.open() as persist:
            persist.set_tombstone(FORGED[name])
        return
    protocol, whole, dying = WAYS[name]
    if protocol == "double" and not whole and dying is None:
        _adopt_double(stores)
    for direction in whole:
        move(stores, direction, protocol)
    if dying is not None:
        with contextlib.suppress(Crash):
            move(stores, dying[0], protocol, crash_after=dying[1])


def _adopt_double(stores: Stores) -> None:
    with contextlib.suppress(Crash):
        move(stores, MIGRATE, "double", crash_after=Step.FENCE_EPOCH)

"""Every fail point of a move, times both directions, times what is run afterwards, times both protocols.

A cell is one crash: the catalog is brought into a state, a move is killed at a point, the truth is looked at,
and then a move is run to its end. What must be true afterwards follows from the protocols' tables. How a move
is run is the business of a `World`: through the step functions, or through the real DAG.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hermit.digest import Digest, combine
from hermit.errors import HermitError
from hermit.formats import generate
from hermit.migration import in_process
from hermit.migration.failpoints import POINTS
from hermit.migration.load import load_rows
from hermit.migration.protocol import DOUBLE, PROTOCOLS, SINGLE, Direction, Protocol, Store
from hermit.migration.truth import open_truth

if TYPE_CHECKING:
    from hermit.migration.stores import Stores

_OBJECTS = 20

_BEHIND_THE_CUT_OVER = {"set_tombstone.written", "finish.begun", "finish.forgotten"}


@dataclass(frozen=True)
class Cell:
    """Kill a move at a point, then run one to its end."""

    direction: Direction
    protocol: Protocol
    point: str
    then: Direction

    def __str__(self) -> str:
        return f"{self.direction} ({self.protocol.name}) killed at {self.point}, then {self.then}"

    @property
    def before(self) -> tuple[tuple[Direction, Protocol], ...]:
        """The moves that the catalog has behind it: none, or there, or there and back.

        Where the point is in `fence_epoch` they were made under the other protocol, so that the move which is
        killed is the one that changes it.
        """
        changing = self.point.startswith("fence_epoch.")
        earlier = (DOUBLE if self.protocol is SINGLE else SINGLE) if changing else self.protocol
        there, back = (Direction.MIGRATE, earlier), (Direction.ROLLBACK, earlier)
        if self.direction is Direction.ROLLBACK:
            return (there,)
        return (there, back) if self.then is Direction.ROLLBACK else ()

    @property
    def is_reached(self) -> bool:
        """Whether this move passes this point at all."""
        rolling_back = self.direction is Direction.ROLLBACK
        match self.point:
            case "fence_epoch.protocol":
                return bool(self.before) or self.protocol is DOUBLE
            case "fence_epoch.persist_tombstone":
                return rolling_back and self.protocol is DOUBLE
            case "announce.begun" | "announce.written":
                return self.protocol.plans[self.direction].announce is not None
            case "set_tombstone.begun" | "set_tombstone.written":
                return not self.protocol.plans[self.direction].cut_over_with_replace
            case _:
                return True

    @property
    def truth_when_killed(self) -> Store:
        """Where the truth is after the crash: at the source until the cut-over, then at the target."""
        with_replace = self.protocol.plans[self.direction].cut_over_with_replace
        cut_over = self.point in _BEHIND_THE_CUT_OVER or (with_replace and self.point == "replace.written")
        return self.direction.target if cut_over else self.direction.source


def cells() -> list[Cell]:
    """The whole matrix."""
    axes = itertools.product(POINTS, Direction, PROTOCOLS.values(), Direction)
    return [Cell(direction, protocol, point, then) for point, direction, protocol, then in axes]


@dataclass(frozen=True)
class Facts:
    """What must come through a crash."""

    truth: Store
    digest: Digest
    epochs: tuple[int, int]


class World(ABC):
    """A catalog, and a way to move it that can be killed."""

    def __init__(self, stores: Stores) -> None:
        self.stores = stores

    @abstractmethod
    def move_and_die(self, direction: Direction, protocol: Protocol, point: str) -> bool:
        """Run a move that is killed when it passes the point; whether it completed nevertheless."""

    @abstractmethod
    def passed(self) -> bool:
        """Whether the point was passed, that is, whether something was killed."""

    @abstractmethod
    def finish(self, direction: Direction, protocol: Protocol) -> None:
        """Run a move to its end; an error if it does not get there."""

    def prepare(self, moves: Iterable[tuple[Direction, Protocol]]) -> None:
        """Give the catalog a past."""
        prepare(self.stores, moves)

    def facts(self) -> Facts:
        """Where the truth is and what it holds."""
        stores = self.stores
        truth = stores.state().truth.store
        unopened: Any = stores.stash if truth is Store.STASH else stores.persist
        with unopened.inspect() as view:
            digest = combine(view.digests().values())
        return Facts(truth, digest, (stores.stash.epoch() or 0, stores.persist.epoch() or 0))


def prepare(stores: Stores, moves: Iterable[tuple[Direction, Protocol]]) -> None:
    """Make a catalog that has these moves behind it, and was then changed: no copy is good any more."""
    load_rows(stores, generate.rows(_OBJECTS, seed=7))
    for direction, protocol in moves:
        in_process.run(stores, direction, protocol.name)
    with open_truth(stores) as catalog:
        catalog.set_setting("changed", "yes")


class CellFailed(HermitError):
    """After a crash something was not as it must be."""


def check(cell: Cell, world: World) -> None:
    """Play one cell, and compare what is found with what must be."""
    world.prepare(cell.before)
    before = world.facts()
    completed = world.move_and_die(cell.direction, cell.protocol, cell.point)
    _expect(cell, "the point is passed", world.passed(), cell.is_reached)
    killed = world.facts()
    where = cell.direction.target if completed else cell.truth_when_killed
    _expect(cell, "the truth after the crash", killed.truth, where)
    _expect(cell, "the contents after the crash", killed.digest, before.digest)
    world.finish(cell.then, cell.protocol)
    after = world.facts()
    _expect(cell, "the truth in the end", after.truth, cell.then.target)
    _expect(cell, "the contents in the end", after.digest, before.digest)
    fell = [now < was for was, now in zip(before.epochs, killed.epochs, strict=True)]
    _expect(cell, "an epoch went down", any(fell), False)
    _expect(cell, "the last run raised both epochs", min(after.epochs) > max(killed.epochs), True)


def _expect(cell: Cell, what: str, found: object, expected: object) -> None:
    if found != expected:
        raise CellFailed(f"{cell}: {what}: expected {expected}, found {found}")

"""All interleavings of two movers and a writer, with each of them dying at any action, up to a few switches.

The steps, the decisions, the tables and the way in which users open the catalog are those of production;
only the stores are a model. At every action of everybody the truth must hold exactly what was
acknowledged; afterwards a move each way must still work, which is tried once
for every state that a turn of a schedule may end in. A process that dies is one that is never scheduled
again: after every turn, whoever is in the middle of something may have died.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import greenlet
import pytest

from hermit.errors import Fenced, InvariantViolation
from hermit.migration.protocol import Direction, ProtocolInUse
from hermit.migration.stores import State
from hermit.migration.truth import open_truth
from tests.migration.driver import move
from tests.migration.model import ModelStores

MIGRATE, ROLLBACK = Direction.MIGRATE, Direction.ROLLBACK
ALL = 10_000
Schedule = tuple[tuple[int, int], ...]


class World:
    """The model, whoever acts on it, and what must be true at every moment."""

    def __init__(self, protocol: str, history: tuple[Direction, ...]) -> None:
        self.actions = 0
        self.budget = ALL
        self.parked: greenlet.greenlet | None = None
        self.acknowledged = frozenset({"a", "b"})
        self.epochs = [0, 0]
        self.checked: object = None
        self.stores = ModelStores(self.point, self.acknowledged)
        for direction in history:
            self.run_move(direction, protocol)
        self.actions = 0

    def copy(self) -> World:
        """Another world in the same state."""
        twin = World("", ())
        for mine, other in (
            (self.stores.stash_model, twin.stores.stash_model),
            (self.stores.persist_model, twin.stores.persist_model),
        ):
            other.epoch, other.nonce, other.contents = mine.epoch, mine.nonce, mine.contents
            other.config, other.version, other.files = dict(mine.config), mine.version, set(mine.files)
        twin.stores.side_tables.update(self.stores.side_tables)
        twin.stores.staged.update(self.stores.staged)
        twin.stores.manifests().stored.update(self.stores.manifests().stored)
        twin.acknowledged = self.acknowledged
        twin.epochs = list(self.epochs)
        return twin

    def point(self, what: str) -> None:
        """Before every action: check the world, then let the scheduler decide who is next."""
        self.check()
        if self.budget == 0 and self.parked is not None:
            self.parked.switch()
        self.budget -= 1
        self.actions += 1

    def check(self) -> None:
        stash, persist = self.stores.stash_model, self.stores.persist_model
        now = (stash.epoch, stash.version, persist.epoch, persist.version, self.acknowledged)
        if now == self.checked:
            return
        self.checked = now
        held = self.stores.truth().contents
        assert held == self.acknowledged, f"the truth holds {set(held)}, not {set(self.acknowledged)}"
        epochs = [stash.epoch, persist.epoch]
        assert all(now >= before for now, before in zip(epochs, self.epochs, strict=True))
        self.epochs = epochs

    def visible(self) -> object:
        """What somebody who opens nothing can tell."""
        return self.stores.now(), self.stores.stash_model.epoch

    def run_move(self, direction: Direction, protocol: str | None) -> None:
        stage = lambda stores, asked, fencing, batch: stores.stage(direction, fencing, batch)  # noqa: E731
        move(self.stores, direction, protocol, stage=stage)  # type: ignore[arg-type]

    def run_writer(self) -> None:
        with open_truth(self.stores) as catalog:  # type: ignore[arg-type]
            for row in ("w1", "w2"):
                catalog.insert(row)  # type: ignore[union-attr]
                self.acknowledged |= {row}

    def check_moves(self, protocol: str) -> None:
        """A move each way still works."""
        for direction in (MIGRATE, ROLLBACK):
            self.run_move(direction, protocol)
            assert self.stores.truth().name == direction.target.value
            self.check()

    def play(self, actors: list[Callable[[], None]], schedule: Schedule) -> Iterator[None]:
        """Let the actors act in turns, and stop after each; whoever is fenced has lost, which is fine."""
        threads = [greenlet.greenlet(_until_fenced(actor)) for actor in actors]
        for who, actions in schedule:
            if not threads[who].dead:
                self.parked = greenlet.getcurrent()
                self.budget = actions
                threads[who].switch()
                self.check()
                yield


def _until_fenced(actor: Callable[[], None]) -> Callable[[], None]:
    def run() -> None:
        try:
            actor()
        except (Fenced, ProtocolInUse):
            return
        except InvariantViolation as error:
            # Only a token that is current can notice a source that changed; it never does under a fence.
            raise AssertionError(str(error)) from error

    return run


def _length(start: World, actor: Callable[[World], None]) -> int:
    world = start.copy()
    actor(world)
    return world.actions


def _schedules(a: int, b: int, stride: int) -> Iterator[Schedule]:
    """A and B are movers of a and b actions, 2 is the writer."""
    for i in range(0, a + 1, stride):
        yield ((0, i), (1, ALL), (0, ALL))
        yield ((0, i), (2, ALL), (0, ALL))
        yield ((0, i), (2, ALL), (1, ALL), (0, ALL))
        for k in range(9):
            yield ((0, i), (2, k), (0, ALL), (2, ALL))
            yield ((2, k), (0, i), (2, ALL), (0, ALL))
    for i, j in itertools.product(range(0, a + 1, stride), range(0, b + 1, stride)):
        yield ((0, i), (1, j), (0, ALL), (1, ALL))
        yield ((0, i), (1, j), (2, ALL), (0, ALL), (1, ALL))


def _explore(
    protocol: str, history: tuple[Direction, ...], first: Direction, second: Direction, stride: int
) -> int:
    def mover(direction: Direction) -> Callable[[World], None]:
        return lambda world: world.run_move(direction, protocol)

    start = World(protocol, history)
    lengths = [_length(start, mover(direction)) for direction in (first, second)]
    played, endings = 0, set()
    for schedule in _schedules(*lengths, stride):
        world = start.copy()
        actors: list[Callable[[], Any]] = [
            lambda world=world: world.run_move(first, protocol),
            lambda world=world: world.run_move(second, protocol),
            lambda world=world: world.run_writer(),
        ]
        try:
            for _ in world.play(actors, schedule):
                ending = (world.stores.fingerprint(), world.acknowledged)
                if ending not in endings:
                    endings.add(ending)
                    world.copy().check_moves(protocol)
        except AssertionError as error:
            raise AssertionError(f"schedule {schedule}: {error}") from error
        played += 1
    return played


_CASES = list(
    itertools.product(
        ("single", "double"), [(), (MIGRATE,), (MIGRATE, ROLLBACK)], (MIGRATE, ROLLBACK), (MIGRATE, ROLLBACK)
    )
)


@pytest.mark.parametrize(("protocol", "history", "first", "second"), _CASES)
def test_the_truth_is_never_ambiguous_lost_or_stale(
    protocol: str, history: tuple[Direction, ...], first: Direction, second: Direction
) -> None:
    assert _explore(protocol, history, first, second, stride=4) > 50


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("protocol", "history", "first", "second"), _CASES)
def test_the_truth_is_never_ambiguous_lost_or_stale_at_any_action(
    protocol: str, history: tuple[Direction, ...], first: Direction, second: Direction
) -> None:
    assert _explore(protocol, history, first, second, stride=1) > 500


@pytest.mark.parametrize("protocol", ["single", "double"])
@pytest.mark.parametrize("history", [(), (MIGRATE,), (MIGRATE, ROLLBACK)])
@pytest.mark.parametrize("moves", [(MIGRATE,), (ROLLBACK,), (MIGRATE, ROLLBACK), (ROLLBACK, MIGRATE)])
def test_a_state_that_is_read_while_others_move_was_true_at_one_moment(
    protocol: str, history: tuple[Direction, ...], moves: tuple[Direction, ...]
) -> None:
    start = World(protocol, history)

    def mover(world: World) -> None:
        for direction in moves:
            world.run_move(direction, protocol)

    world = start.copy()
    steps = world.play([lambda: mover(world)], ((0, 1),) * _length(start, mover))
    states = [world.visible(), *(world.visible() for _ in steps)]
    # What the reader may find differs only where a state does: there the mover begins, goes on and ends.
    moments = [n for n, state in enumerate(states) if n == 0 or state != states[n - 1]]

    def moved(first: int, last: int) -> Iterator[tuple[int, int]]:
        return ((0, after - before) for before, after in itertools.pairwise(moments[first : last + 1]))

    for i, j, k in itertools.combinations_with_replacement(range(len(moments)), 3):
        schedule = ((0, moments[i]), (1, 1), *moved(i, j), (1, 1), *moved(j, k), (1, ALL))
        _read_in_between(start.copy(), mover, schedule)
    assert len(moments) > 1


def _read_in_between(world: World, mover: Callable[[World], None], schedule: Schedule) -> None:
    been: list[State] = []
    read: list[State] = []
    for _ in world.play([lambda: mover(world), lambda: read.append(world.stores.state())], schedule):
        been.append(world.stores.now())
    assert read, "the reader came to an end"
    assert read[0] in been, f"schedule {schedule}: {read[0].tombstones} never was"

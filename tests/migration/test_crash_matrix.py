"""Moves that are killed with SIGKILL at every fail point, and what is run afterwards: the whole matrix.

Here a move is the step functions in a process of their own; `hermit crash-matrix` plays the same cells
through the real DAG.
"""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from hermit.embedded.postgres import EmbeddedPostgres
from hermit.migration import crash_matrix, in_process
from hermit.migration.crash_matrix import Cell, World
from hermit.migration.failpoints import POINTS
from hermit.migration.protocol import Direction, Protocol
from hermit.migration.stores import Stores, connect
from tests.migration import processes
from tests.nursery import Nursery


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    found = Nursery("tests.migration.processes")
    yield found
    found.stop()


_DISCONNECT = "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s"
Before = tuple[tuple[Direction, Protocol], ...]
Copy = Callable[[Before], Stores]


@pytest.fixture(scope="module")
def copy(postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Copy]:
    """Copies of catalogs with a past: each past is lived through once, however many cells begin with it."""
    folder, organization_id = tmp_path_factory.mktemp("catalogs"), uuid4()
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        made: list[str] = []

        def database(template: str) -> str:
            made.append(f"matrix_{uuid4().hex}")
            query = sql.SQL("create database {} template {}")
            connection.execute(query.format(sql.Identifier(made[-1]), sql.Identifier(template)))
            return made[-1]

        originals: dict[str, str] = {}

        def stores_in(name: str) -> Stores:
            return connect(postgres.url(name), str(folder / name), organization_id)

        def copied(before: Before) -> Stores:
            past = ", ".join(f"{direction} ({protocol.name})" for direction, protocol in before)
            if past not in originals:
                originals[past] = database("template1")
                (folder / originals[past]).mkdir()
                crash_matrix.prepare(stores_in(originals[past]), before)
                # Nobody may be connected to what is copied, and ADBC keeps a connection for the next time.
                connection.execute(_DISCONNECT, [originals[past]])
            name = database(originals[past])
            shutil.copytree(folder / originals[past], folder / name)
            return stores_in(name)

        yield copied
        for name in made:
            connection.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


class Steps(World):
    """A catalog that is moved by the step functions."""

    def __init__(self, nursery: Nursery, copy: Copy) -> None:
        self.nursery, self.copy = nursery, copy
        self.exit_code = 0

    def prepare(self, moves: Iterable[tuple[Direction, Protocol]]) -> None:
        self.stores = self.copy(tuple(moves))

    def move_and_die(self, direction: Direction, protocol: Protocol, point: str) -> bool:
        stores = self.stores
        names = (stores.stash_url, str(Path(stores.location).parent), str(stores.organization_id))
        self.exit_code = self.nursery.run(
            processes.move_and_die, *names, direction.value, protocol.name, point
        )
        assert self.exit_code in (0, -signal.SIGKILL)
        return self.exit_code == 0

    def passed(self) -> bool:
        return self.exit_code == -signal.SIGKILL

    def finish(self, direction: Direction, protocol: Protocol) -> None:
        in_process.run(self.stores, direction, protocol.name)


@pytest.mark.row("M-25", "M-26", "M-32", "M-33", "M-34", "M-36", "M-40", "M-42")
@pytest.mark.parametrize("cell", crash_matrix.cells(), ids=str)
def test_a_move_that_is_killed_leaves_one_truth_and_the_next_run_completes(
    cell: Cell, nursery: Nursery, copy: Copy
) -> None:
    crash_matrix.check(cell, Steps(nursery, copy))


def test_every_fail_point_is_passed_in_some_cell_and_every_step_has_one() -> None:
    reached = {cell.point for cell in crash_matrix.cells() if cell.is_reached}
    assert reached == set(POINTS)
    assert len(crash_matrix.cells()) == len(POINTS) * 8

"""Moves that are killed with SIGKILL at every fail point, and what is run afterwards: the whole matrix.

Here a move is the step functions in a process of their own; `hermit crash-matrix` plays the same cells
through the real DAG.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

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


class Steps(World):
    """A catalog that is moved by the step functions."""

    def __init__(self, nursery: Nursery, stores: Stores, shards: str) -> None:
        super().__init__(stores)
        self.nursery, self.shards = nursery, shards
        self.exit_code = 0

    def move_and_die(self, direction: Direction, protocol: Protocol, point: str) -> bool:
        names = (self.stores.stash_url, self.shards, str(self.stores.organization_id))
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
    cell: Cell, nursery: Nursery, database_url: str, tmp_path: Path, organization_id: UUID
) -> None:
    shards = str(tmp_path / "shards")
    crash_matrix.check(cell, Steps(nursery, connect(database_url, shards, organization_id), shards))


def test_every_fail_point_is_passed_in_some_cell_and_every_step_has_one() -> None:
    reached = {cell.point for cell in crash_matrix.cells() if cell.is_reached}
    assert reached == set(POINTS)
    assert len(crash_matrix.cells()) == len(POINTS) * 8

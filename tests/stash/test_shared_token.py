"""Two writers under one token, as the nodes of a service are: conflicts cost a retry and nothing else."""

from __future__ import annotations

import pytest

from hermit.rows import Row
from hermit.stash import Stash, StashTransaction
from tests.stash.conftest import ClosingClient


@pytest.mark.parametrize("undisturbed", range(3))
def test_conflicts_at_any_moment_leave_the_connection_usable(
    client: ClosingClient, stash: Stash, undisturbed: int
) -> None:
    """Statements are prepared after some use; a conflict at that moment must not leave them half made."""
    other = client.resume(stash.token)
    written = 0

    def add(handle: Stash) -> None:
        nonlocal written
        written += 1
        row = Row("items", b"k%d" % written, b"v")
        handle.write(lambda transaction: transaction.append([(row, 1)]))

    for _ in range(undisturbed):
        add(stash)
    for number in range(20):
        lost = False

        def body(transaction: StashTransaction, number: int = number) -> None:
            nonlocal lost
            if not lost:
                # What is read here is changed by the other before it can be committed.
                transaction.upper("items")
                add(other)
                lost = True
            transaction.append([(Row("items", b"own%d" % number, b"v"), 1)])

        stash.write(body)
    found = stash.read(lambda transaction: sum(1 for _ in transaction.rows("items")))
    assert found == 40 + undisturbed

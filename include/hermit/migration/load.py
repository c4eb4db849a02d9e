"""Puts a generated catalog, of any format version, into a stash that holds none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from hermit.errors import InvalidInput, Unavailable
from hermit.rows import Row

if TYPE_CHECKING:
    from hermit.migration.stores import Stores
    from hermit.stash import Stash, StashClient, StashTransaction


def load_rows(stores: Stores, rows: Iterable[Row]) -> int:
    """Write all rows in one transaction of an opening; gives their number. A catalog is never overwritten."""
    count = 0

    def counted() -> Iterator[tuple[Row, int]]:
        nonlocal count
        for row in rows:
            count += 1
            yield row, 1

    def fill(transaction: StashTransaction) -> None:
        # An opening is tried again when its connection breaks. What gives rows can be read only once.
        if count:
            raise Unavailable("the stash did not take all rows, and holds none of them", hint="try again")
        transaction.append(counted())

    with open_empty(stores.stash_client, fill):
        return count


def open_empty(
    client: StashClient, fill: Callable[[StashTransaction], None] = lambda transaction: None
) -> Stash:
    """Open a stash to which nothing was ever written; one that holds anything is refused, and not fenced."""
    filled = InvalidInput(
        f"the stash of {client.organization_id} holds a catalog already",
        hint="name another one with --organization-id",
    )
    if client.is_initialized():
        raise filled

    def bootstrap(transaction: StashTransaction) -> None:
        # Once more, inside the transaction that takes it over: somebody may just have been quicker.
        if any(place.upper > 0 for place in transaction.places().values()):
            raise filled
        fill(transaction)

    return client.open(bootstrap)[0]

"""Puts a generated catalog, of any format version, into a stash that holds none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from hermit.errors import InvalidInput
from hermit.rows import Row

if TYPE_CHECKING:
    from hermit.migration.stores import Stores
    from hermit.stash import StashTransaction


def load_rows(stores: Stores, rows: Iterable[Row]) -> int:
    """Write all rows in one transaction of an opening; gives their number. A catalog is never overwritten."""
    if stores.stash.is_initialized():
        raise InvalidInput(
            f"the stash of {stores.organization_id} holds a catalog already",
            hint="name another one with --organization-id",
        )
    count = 0

    def counted() -> Iterator[tuple[Row, int]]:
        nonlocal count
        for row in rows:
            count += 1
            yield row, 1

    def fill(transaction: StashTransaction) -> None:
        transaction.append(counted())

    stash, _ = stores.stash_client.open(fill)
    stash.close()
    return count

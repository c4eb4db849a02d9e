"""Whether somebody holds the stash open for writing: an advisory lock of the writer's session.

See `presence.py` for what it is good for, and what it is not.
"""

from __future__ import annotations

import contextlib
import hashlib
from uuid import UUID

import psycopg

from hermit.errors import HermitError
from hermit.stash import Stash, StashClient, StashTransaction
from hermit.stash.fence import FenceRow

_LOCK = b"SELECT pg_advisory_lock_shared(%s, %s)"
_HOLDERS = (
    b"SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2 AND granted"
    b" AND classid::bigint = %s AND objid::bigint = %s"
    b" AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)


def hold_stash(stash: Stash, organization_id: UUID) -> None:
    """Let others see, for as long as this session lives, that the stash is held."""

    def lock(connection: psycopg.Connection, row: FenceRow) -> None:
        number, epoch = _lock_name(organization_id, row.epoch)
        connection.execute(_LOCK, [number - 2**31, epoch - 2**31])

    # A server without advisory locks, or a newer opener already: then there is nobody to warn of. Who was
    # fenced learns it from the first use of its handle, as it would have an instant later.
    with contextlib.suppress(HermitError):
        stash.beside(lock)


def stash_holder(client: StashClient) -> str | None:
    """Who holds the stash, if that can be told."""

    def look(transaction: StashTransaction | None) -> str | None:
        if transaction is None:
            return None
        number, epoch = _lock_name(client.organization_id, transaction.row.epoch)
        arguments = [(number - 2**31) % 2**32, (epoch - 2**31) % 2**32]
        found = transaction.execute(_HOLDERS, arguments).fetchone()
        return transaction.row.opened_by if found is not None and found[0] else None

    return client.look(look)


def _lock_name(organization_id: UUID, epoch: int) -> tuple[int, int]:
    digest = hashlib.sha256(b"hermit catalog" + organization_id.bytes).digest()
    return int.from_bytes(digest[:4], "big"), epoch % 2**32

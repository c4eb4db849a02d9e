"""Whether somebody holds a catalog open for writing right now.

Fencing needs no such thing: a newer opener simply wins. But whoever is about to fence a running server by
accident, with an edit at night, should be told first. A writer therefore holds a shared lock, named
after its epoch, that vanishes with its process: in PostgreSQL an advisory lock of its session, on a local
shard a file lock. It guards nothing and may be absent (object stores have none): it is a courtesy.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import weakref
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import psycopg

from hermit.errors import Fenced, HermitError
from hermit.stash import Stash, StashClient, StashTransaction
from hermit.stash.fence import FenceRow

_FOLDER = "_hermit/holders"
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

    try:
        stash.beside(lock)
    except Fenced:
        raise
    except HermitError:
        # A server without advisory locks: then nobody is warned, and all else is as it should be.
        return


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


class ShardPresence:
    """A lock on a file that is named after an epoch, beside a local shard."""

    def __init__(self, location: str, epoch: int) -> None:
        self._path = None if "://" in location else Path(location) / _FOLDER / str(epoch)
        self._release: Callable[[], object] | None = None

    def hold(self) -> None:
        """Take the lock, and clear away those of earlier epochs."""
        if self._path is None:
            return
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            for other in self._path.parent.iterdir():
                if other.name.isdigit() and int(other.name) < int(self._path.name):
                    other.unlink(missing_ok=True)
            file = os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o666)
            self._release = weakref.finalize(self, os.close, file)
            fcntl.flock(file, fcntl.LOCK_SH)

    def is_held(self) -> bool:
        """Whether anybody has the lock."""
        if self._path is None:
            return False
        try:
            with self._path.open() as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def release(self) -> None:
        """Let go; a handle that is merely forgotten lets go too."""
        if self._release is not None:
            self._release()

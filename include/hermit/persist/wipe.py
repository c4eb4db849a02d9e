"""Wiping a location that another release wrote in an encoding of its own.

Only for development, and only when asked for: by default an unknown encoding is refused. The encoding is read
from verified bytes, so that damage is never mistaken for a change of version. Entries of the log go newest
first: after a crash in the middle an older prefix remains, still in the unknown encoding, and is refused or
wiped again.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from hermit.persist.checkpoint import POINTER
from hermit.persist.errors import UnknownEncoding
from hermit.persist.storage.abc import Storage
from hermit.persist.table import Table

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Wiped:
    """What was deleted, and why."""

    location: str
    encoding: int
    files: int
    bytes: int

    def __str__(self) -> str:
        return (
            f"wiped {self.files} files with {self.bytes} bytes in {self.location}, "
            f"which were in encoding {self.encoding}"
        )


def wipe_if_unknown(storage: Storage) -> Wiped | None:
    """Empty a location whose encoding this release does not know; None if it does."""
    try:
        Table(storage).refresh()
    except UnknownEncoding as error:
        wiped = _wipe(storage, error.found)
        _log.warning("%s", wiped)
        return wiped
    return None


def _wipe(storage: Storage, encoding: int) -> Wiped:
    found = [info for folder in ("_delta_log", "data", "batches") for info in storage.blob.list(folder)]
    # The pointer to the checkpoint goes first. In descending order the log comes last, newest entry first:
    # "_" sorts before the letters.
    storage.blob.delete(POINTER)
    for info in sorted(found, reverse=True):
        storage.blob.delete(info.key)
    return Wiped(storage.location, encoding, len(found), sum(info.bytes for info in found))

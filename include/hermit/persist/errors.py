"""What can go wrong in persist, each with the frontiers or the names that explain it.

`CommitConflict` and `UpperMismatch` say that somebody else was quicker: nothing was written, the caller
reads the state again and decides. The errors with a `Frontier` in them are mistakes of the caller.
"""

from __future__ import annotations

from typing import Any

from hermit.errors import CorruptData, HermitError, InvalidInput, Unavailable
from hermit.persist.frontier import Frontier


class PersistError(HermitError):
    """Root of what only persist raises."""


class CommitConflict(PersistError):
    """Another commit is in the place that this one was conditional on. Nothing was written."""

    hint = "read the state again and decide anew"
    expected: int
    current: int


class _FrontierError(PersistError):
    """Carries the collection, its `since` and `upper`, and what was asked for."""

    collection: str
    since: int
    upper: int
    requested: int

    def __init__(self, what: str, collection: str, frontier: Frontier, requested: int, **facts: Any) -> None:
        super().__init__(
            f"{what}: collection {collection} is at {frontier}, asked for {requested}",
            collection=collection,
            since=frontier.since,
            upper=frontier.upper,
            requested=requested,
            **facts,
        )


class UpperMismatch(_FrontierError):
    """The collection's upper is not the one that the append expected. Nothing was written."""

    hint = "somebody else appended; read the state again and decide anew"


class WriteBehindUpper(_FrontierError):
    """A record's time is already sealed."""

    hint = "write at a time that is not below upper"


class WriteBeyondUpper(_FrontierError):
    """A record of a compare-and-append is not below the upper that it moves to."""

    hint = "the new upper must lie above every time that is appended"


class SealBackwards(_FrontierError):
    """A seal would move upper back."""

    hint = "upper only moves forward"


class CompactionBackwards(_FrontierError):
    """A compaction would move since back."""

    hint = "since only moves forward"


class CompactionBeyondUpper(_FrontierError):
    """A compaction would move since past upper."""

    hint = "since never passes upper"


class ReadBeforeSince(_FrontierError):
    """The time was compacted away."""

    hint = "read at since or later"


class ReadBeyondUpper(_FrontierError):
    """The time is not sealed yet."""

    hint = "wait until upper has passed the time"


class HistoryCompacted(_FrontierError):
    """A listener fell behind since, or the contents were replaced: single steps are gone."""

    hint = "take a new snapshot and listen from there"


class UnknownEncoding(PersistError):
    """The location was written in an encoding that this release does not know."""

    hint = "use the release that wrote it"
    found: int
    known: int


class LocationGone(PersistError):
    """The location was deleted, or replaced by another one, under a client that was reading it."""

    hint = "restore it from a copy, then open it again"
    location: str


class Locked(PersistError):
    """Another writer holds the location's write lock."""

    hint = "stop that writer; if it is gone for good, break the lock with `hermit persist unlock`"
    holder: str


class LockLost(PersistError):
    """The write lock was broken or taken over: this writer must not go on."""

    hint = "open the location again"


class Stopped(PersistError):
    """The client was stopped, so that it takes no new work."""


class TransientError(Unavailable):
    """A storage call failed in a way that may pass. Retried inside; seen only when retries ran out."""


class SyncFailed(Unavailable):
    """The disk refused to make something durable. Whether it is there after a power cut is unknown."""

    hint = "look after the disk, then open the location again"


class FilesVacuumed(Unavailable):
    """Files were vacuumed while a reader was in the middle of them."""

    hint = "read again"


class StagedFileMissing(InvalidInput):
    """A batch names a file that is not in the location."""


def corrupt(location: str, path: str, why: str, *, collection: str | None = None) -> CorruptData:
    """The error for bytes that are not those that were written, naming file and collection."""
    whose = f" of collection {collection}" if collection else ""
    return CorruptData(
        f"file {path}{whose} in {location} is damaged: {why}",
        hint="restore the file from a copy; `hermit persist verify` checks the whole location",
        location=location,
        path=path,
        collection=collection,
    )

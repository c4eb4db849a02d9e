"""The two protocols through which persist touches the outside world.

`Blob` holds immutable files under names; whatever a call put is durable when the call returns. `Log` is
the sequence of commits: `append` puts one at exactly the next version, or reports that somebody else
is there already; that is the only point where writers meet, and it is atomic. A log entry is durable
when `append` returns its checksum. An entry that another process put may be visible a moment before it is
durable: `sync` waits for that.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

from hermit.persist.commit import Commit


class BlobInfo(NamedTuple):
    """A stored file, as a listing shows it."""

    key: str
    bytes: int
    modified_ms: int


class StoredCommit(NamedTuple):
    """A commit as it was read, and its checksum."""

    commit: Commit
    checksum: str


class Upload(Protocol):
    """A file that is being written piece by piece and gets its name at the end."""

    closed: bool

    def write(self, data: bytes) -> int: ...
    def finish(self, key: str) -> None: ...  # durable when it returns
    def abort(self) -> None: ...


class Blob(Protocol):
    """Durable files by name. Names are relative to the location, with `/` between folders."""

    def get(self, key: str) -> bytes | None: ...
    def put(self, items: Mapping[str, bytes]) -> None: ...
    def put_if_absent(self, key: str, data: bytes) -> bool: ...
    def replace(self, key: str, data: bytes) -> None: ...
    def upload(self) -> Upload: ...
    def delete(self, key: str) -> None: ...
    def list(self, folder: str) -> Iterator[BlobInfo]: ...


@runtime_checkable
class OnDisk(Protocol):
    """A blob whose files can be opened where they are, and read piece by piece."""

    def path(self, key: str) -> str: ...


class Log(Protocol):
    """The commits of a location, by version from 0."""

    def read(self, version: int) -> StoredCommit | None: ...
    def exists(self, version: int) -> bool: ...  # one call to the store
    def is_gone(self) -> bool | None: ...  # no call to the store: whether it was deleted; None if unknown
    def append(self, version: int, commit: Commit) -> str | None: ...
    def sync(self) -> None: ...
    def wait(self, version: int, timeout_s: float) -> bool: ...
    def delete(self, version: int) -> None: ...


@dataclass(frozen=True)
class Storage:
    """One location: its name, for messages, and its two halves."""

    location: str
    blob: Blob
    log: Log


def commit_key(version: int) -> str:
    """The name that Delta gives to a log entry."""
    return f"_delta_log/{version:020d}.json"


def poll(condition: Callable[[], bool], timeout_s: float, interval_s: float = 0.02) -> bool:
    """Wait until the condition holds, at most this long, looking again at intervals."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        time.sleep(min(interval_s, left))
    return True

"""A location in the memory of this process, for simulations and tests.

It renders and parses commits like the others, so that what works here works there. `memory_storage(name)`
gives the same location for the same name until `forget(name)`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping

from hermit.persist import commit as commits
from hermit.persist.commit import Commit
from hermit.persist.errors import corrupt
from hermit.persist.storage.abc import Blob, BlobInfo, Storage, StoredCommit, commit_key


class MemoryBlob:
    """Files in a dictionary. `files` is open to tests that damage them."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self._modified_ms: dict[str, int] = {}
        self._lock = threading.Lock()

    def get(self, key: str) -> bytes | None:
        return self.files.get(key)

    def put(self, items: Mapping[str, bytes]) -> None:
        for key, data in items.items():
            self.replace(key, data)

    def put_if_absent(self, key: str, data: bytes) -> bool:
        with self._lock:
            if key in self.files:
                return False
            self._modified_ms[key] = time.time_ns() // 1_000_000
            self.files[key] = bytes(data)
            return True

    def replace(self, key: str, data: bytes) -> None:
        with self._lock:
            self._modified_ms[key] = time.time_ns() // 1_000_000
            self.files[key] = bytes(data)

    def upload(self) -> Pieces:
        return Pieces(self)

    def delete(self, key: str) -> None:
        with self._lock:
            self.files.pop(key, None)

    def list(self, folder: str) -> Iterator[BlobInfo]:
        with self._lock:
            found = [
                BlobInfo(key, len(data), self._modified_ms.get(key, 0))
                for key, data in sorted(self.files.items())
                if key.startswith(f"{folder}/")
            ]
        yield from found


class Pieces:
    """An upload that gathers pieces in memory and puts them as one file at the end, into any blob."""

    def __init__(self, blob: Blob) -> None:
        self._blob = blob
        self._data = bytearray()
        self.closed = False

    def write(self, data: bytes) -> int:
        self._data += data
        return len(data)

    def finish(self, key: str) -> None:
        self._blob.put({key: bytes(self._data)})
        self.closed = True

    def abort(self) -> None:
        self.closed = True


class MemoryLog:
    """Commits as bytes, in the same dictionary as the files."""

    def __init__(self, blob: MemoryBlob, location: str) -> None:
        self._blob = blob
        self._location = location
        self._changed = threading.Condition()

    def read(self, version: int) -> StoredCommit | None:
        key = commit_key(version)
        raw = self._blob.get(key)
        if raw is None:
            return None
        try:
            return StoredCommit(*commits.parse(raw))
        except (ValueError, KeyError, TypeError) as error:
            raise corrupt(self._location, key, str(error)) from error

    def exists(self, version: int) -> bool:
        return commit_key(version) in self._blob.files

    def is_gone(self) -> bool:
        return False

    def append(self, version: int, commit: Commit) -> str | None:
        data, checksum = commits.render(commit, version)
        if not self._blob.put_if_absent(commit_key(version), data):
            return None
        with self._changed:
            self._changed.notify_all()
        return checksum

    def sync(self) -> None:
        """Memory is as durable as this location gets."""

    def wait(self, version: int, timeout_s: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self.exists(version), timeout_s)

    def delete(self, version: int) -> None:
        self._blob.delete(commit_key(version))


_LOCATIONS: dict[str, Storage] = {}
_LOCK = threading.Lock()


def memory_storage(name: str) -> Storage:
    """The location in memory with this name."""
    with _LOCK:
        if name not in _LOCATIONS:
            blob = MemoryBlob()
            _LOCATIONS[name] = Storage(name, blob, MemoryLog(blob, name))
        return _LOCATIONS[name]


def forget(name: str) -> None:
    """Drop a location in memory."""
    with _LOCK:
        _LOCATIONS.pop(name, None)

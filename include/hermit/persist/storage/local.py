"""A location in a directory.

Order is everything here. A file is synced, then its folder, before anything names it. A commit is
written under a temporary name and synced, linked into the log (`link(2)` fails if the version is
taken, so that exactly one writer wins), and acknowledged only after the log's folder is synced as well.
A commit that can be seen is therefore whole: a power cut may lose one that was never acknowledged, but
cannot tear it.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from hermit.persist import commit as commits
from hermit.persist.commit import Commit
from hermit.persist.errors import SyncFailed, corrupt
from hermit.persist.failpoints import fail_point
from hermit.persist.storage.abc import BlobInfo, Storage, StoredCommit, commit_key
from hermit.persist.storage.disk import Disk, HeldFolder, OsDisk
from hermit.persist.storage.notify import wait_in_folder

_TMP = "_hermit/tmp"
_WRITE_BYTES = 1 << 20


class LocalFiles:
    """What both halves of a local location need: paths, folders that exist, durable writes."""

    def __init__(self, root: str, disk: Disk) -> None:
        self.root = root
        self.disk = disk
        self._made: set[str] = set()
        self._failed: OSError | None = None

    def path(self, key: str) -> str:
        return f"{self.root}/{key}"

    def sync(self, path: str) -> None:
        """Make a file's bytes durable."""
        self._sync(self.disk.sync, path)

    def sync_folder(self, path: str) -> None:
        """Make the names in a folder durable."""
        self._sync(self.disk.sync_folder, path)

    def _sync(self, call: Callable[[str], None], path: str) -> None:
        # After a failed fsync the kernel may have dropped what it could not write and report success the
        # next time. Nothing that this process would acknowledge from here on could be believed.
        if self._failed is not None:
            raise SyncFailed(f"an earlier sync of {self.root} failed: {self._failed}")
        try:
            call(path)
        except OSError as error:
            self._failed = error
            raise SyncFailed(f"cannot make {path} durable: {error}", path=path) from error

    def make_folder(self, folder: str) -> None:
        """Create a folder and those above it, each synced into its parent.

        The folder may have been made by a process that has not synced it yet, so that the first use in
        each process syncs the whole way down, whoever made it.
        """
        if folder in self._made:
            return
        missing = []
        at = self.root
        while not self.disk.exists(at):
            missing.append(at)
            at = os.path.dirname(at)
        below = self.root
        way = [*reversed(missing[1:]), self.root]
        for part in folder.split("/"):
            below = f"{below}/{part}"
            way.append(below)
        for path in way:
            self.disk.make_folder(path)
            self.sync_folder(os.path.dirname(path))
        self._made.add(folder)

    def temporary(self) -> str:
        """A path that nobody else uses, on the same file system."""
        self.make_folder(_TMP)
        return self.path(f"{_TMP}/{uuid.uuid4().hex}")

    def write_temporary(self, data: bytes) -> str:
        """A synced file without a name that anybody knows."""
        path = self.temporary()
        self.disk.write(path, data)
        self.sync(path)
        return path


class LocalBlob:
    """Files below the location's directory."""

    def __init__(self, files: LocalFiles) -> None:
        self._files = files
        self._disk = files.disk

    def path(self, key: str) -> str:
        return self._files.path(key)

    def get(self, key: str) -> bytes | None:
        return self._disk.read(self._files.path(key))

    def put(self, items: Mapping[str, bytes]) -> None:
        """Names are unique and unknown to others until a commit names them: no rename is needed."""
        folders = {key.rpartition("/")[0] for key in items}
        for folder in folders:
            self._files.make_folder(folder)
        for key, data in items.items():
            self._disk.write(self._files.path(key), data)
        fail_point("blob.written")
        for key in items:
            self._files.sync(self._files.path(key))
        fail_point("blob.synced")
        for folder in folders:
            self._files.sync_folder(self._files.path(folder))
        fail_point("blob.named")

    def put_if_absent(self, key: str, data: bytes) -> bool:
        folder = key.rpartition("/")[0]
        self._files.make_folder(folder)
        source = self._files.write_temporary(data)
        try:
            won = self._disk.link(source, self._files.path(key))
        finally:
            self._disk.unlink(source)
        self._files.sync_folder(self._files.path(folder))
        return won

    def replace(self, key: str, data: bytes) -> None:
        folder = key.rpartition("/")[0]
        self._files.make_folder(folder)
        self._disk.rename(self._files.write_temporary(data), self._files.path(key))
        self._files.sync_folder(self._files.path(folder))

    def upload(self) -> LocalUpload:
        return LocalUpload(self._files)

    def delete(self, key: str) -> None:
        self._disk.unlink(self._files.path(key))

    def list(self, folder: str) -> Iterator[BlobInfo]:
        for name, size, modified_ms in self._disk.list(self._files.path(folder)):
            yield BlobInfo(f"{folder}/{name}", size, modified_ms)


class LocalUpload:
    """A file under a temporary name, renamed when it is whole and synced."""

    def __init__(self, files: LocalFiles) -> None:
        self._files = files
        self._disk = files.disk
        self._path = files.temporary()
        self._disk.write(self._path, b"")
        self._pending = bytearray()
        self.closed = False

    def write(self, data: bytes) -> int:
        self._pending += data
        if len(self._pending) >= _WRITE_BYTES:
            self._flush()
        return len(data)

    def finish(self, key: str) -> None:
        folder = key.rpartition("/")[0]
        self._files.make_folder(folder)
        self._flush()
        self._files.sync(self._path)
        self._disk.rename(self._path, self._files.path(key))
        self._files.sync_folder(self._files.path(folder))
        self.closed = True

    def abort(self) -> None:
        self._disk.unlink(self._path)
        self.closed = True

    def _flush(self) -> None:
        self._disk.write(self._path, bytes(self._pending), append=True)
        self._pending.clear()


class LocalLog:
    """Delta's log in the location's directory."""

    def __init__(self, files: LocalFiles) -> None:
        self._files = files
        self._disk = files.disk
        self._folder: HeldFolder | None = None

    def read(self, version: int) -> StoredCommit | None:
        key = commit_key(version)
        raw = self._disk.read(self._files.path(key))
        if raw is None:
            return None
        try:
            return StoredCommit(*commits.parse(raw))
        except (ValueError, KeyError, TypeError) as error:
            raise corrupt(self._files.root, key, str(error)) from error

    def exists(self, version: int) -> bool:
        return self._disk.exists(self._files.path(commit_key(version)))

    def is_gone(self) -> bool:
        if self._folder is None:
            self._folder = self._disk.hold(self._files.path("_delta_log"))
        return self._folder is not None and self._folder.is_deleted()

    def append(self, version: int, commit: Commit) -> str | None:
        data, checksum = commits.render(commit, version)
        self._files.make_folder("_delta_log")
        self.is_gone()  # holds the folder from its beginning
        source = self._files.write_temporary(data)
        fail_point("log.written")
        try:
            won = self._disk.link(source, self._files.path(commit_key(version)))
        finally:
            self._disk.unlink(source)
        if not won:
            return None
        fail_point("log.linked")
        self.sync()
        fail_point("log.synced")
        # Old entries are deleted oldest first. If the one before ours is gone, a long pause let us put
        # ours behind the present: it counts for nobody.
        if version and not self.exists(version - 1):
            self.delete(version)
            return None
        return checksum

    def sync(self) -> None:
        self._files.sync_folder(self._files.path("_delta_log"))

    def wait(self, version: int, timeout_s: float) -> bool:
        folder = self._files.path("_delta_log")
        return wait_in_folder(folder, lambda: self.exists(version), timeout_s)

    def delete(self, version: int) -> None:
        """Synced at once: after a power cut no later entry may be missing while an earlier one is there."""
        self._disk.unlink(self._files.path(commit_key(version)))
        self.sync()


def local_storage(location: str | Path, disk: Disk | None = None) -> Storage:
    """The storage of a location in a directory, which need not exist yet."""
    root = os.path.abspath(location)
    files = LocalFiles(root, disk or OsDisk())
    return Storage(root, LocalBlob(files), LocalLog(files))

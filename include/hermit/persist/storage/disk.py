"""The few calls of the operating system that a local location makes.

They stand behind a protocol of their own so that a test can put a disk in their place that remembers
what was synced, and forgets the rest when its power is cut.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Protocol


class Disk(Protocol):
    """A file system. `write` and `link` are not durable before `sync` and `sync_folder`."""

    def read(self, path: str) -> bytes | None: ...
    def write(self, path: str, data: bytes, *, append: bool = False) -> None: ...
    def sync(self, path: str) -> None: ...
    def sync_folder(self, path: str) -> None: ...
    def link(self, source: str, target: str) -> bool: ...
    def rename(self, source: str, target: str) -> None: ...
    def unlink(self, path: str) -> None: ...
    def make_folder(self, path: str) -> bool: ...
    def exists(self, path: str) -> bool: ...
    def hold(self, path: str) -> HeldFolder | None: ...
    def list(self, path: str) -> list[tuple[str, int, int]]: ...


class HeldFolder(Protocol):
    """A folder that is known by more than its name."""

    def is_deleted(self) -> bool: ...


class OpenFolder:
    """A folder that is held open: the kernel tells whether it was deleted, without a look at any path."""

    def __init__(self, path: str) -> None:
        self._handle = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)

    def is_deleted(self) -> bool:
        return os.fstat(self._handle).st_nlink == 0

    def __del__(self) -> None:
        # Without a handle if opening it failed.
        if hasattr(self, "_handle"):
            os.close(self._handle)


class OsDisk:
    """The file system of this machine."""

    def read(self, path: str) -> bytes | None:
        try:
            with open(path, "rb", buffering=0) as file:
                return file.readall()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def write(self, path: str, data: bytes, *, append: bool = False) -> None:
        """Create a file, over a leftover of a failed attempt if need be, or with `append` make one longer."""
        how = os.O_APPEND if append else os.O_CREAT | os.O_TRUNC
        handle = os.open(path, os.O_WRONLY | os.O_CLOEXEC | how, 0o644)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(handle, view) :]
        finally:
            os.close(handle)

    def sync(self, path: str) -> None:
        _sync(path, os.O_RDONLY)

    def sync_folder(self, path: str) -> None:
        _sync(path, os.O_RDONLY | os.O_DIRECTORY)

    def link(self, source: str, target: str) -> bool:
        """Give a file a second name, unless the name is taken. Atomic on every local file system."""
        try:
            os.link(source, target)
        except FileExistsError:
            return False
        return True

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def unlink(self, path: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(path)

    def make_folder(self, path: str) -> bool:
        """Create one folder; False if it is there already."""
        try:
            os.mkdir(path)
        except FileExistsError:
            return False
        return True

    def exists(self, path: str) -> bool:
        try:
            os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def hold(self, path: str) -> OpenFolder | None:
        """Hold a folder open; None if there is none."""
        try:
            return OpenFolder(path)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def list(self, path: str) -> list[tuple[str, int, int]]:
        """Files below a folder: name relative to it, bytes, time of the last change in ms."""
        found: list[tuple[str, int, int]] = []
        folders = [""]
        while folders:
            folder = folders.pop()
            try:
                entries = list(os.scandir(os.path.join(path, folder)))
            except FileNotFoundError:
                continue
            for entry in entries:
                name = f"{folder}/{entry.name}" if folder else entry.name
                if entry.is_dir(follow_symlinks=False):
                    folders.append(name)
                    continue
                with suppress(FileNotFoundError):
                    stat = entry.stat()
                    found.append((name, stat.st_size, stat.st_mtime_ns // 1_000_000))
        return sorted(found)


def _sync(path: str, flags: int) -> None:
    handle = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

"""A disk in memory that remembers what was synced, and forgets the rest when its power is cut.

A file's bytes survive if the file was synced after they were written; a name survives if its folder was
synced after it appeared, moved or went. What was not synced may survive or not, in any combination: `crash`
takes a random generator that decides, or drops all of it. Renames and links are atomic, as on every
journaling file system. Each call counts as a step; at the step given to `cut_at` the power goes.
"""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass, field
from pathlib import PurePosixPath


class PowerCut(BaseException):
    """The process is gone. Not an `Exception`: nothing may catch it and go on."""


@dataclass
class _File:
    data: bytes = b""
    synced: bytes | None = None


@dataclass
class _Change:
    """A change of names that is not durable: a name appears (with what) or goes."""

    path: str
    target: _File | None
    folders: set[str] = field(default_factory=set)
    also: _Change | None = None  # the other half of a rename


class PowerCutDisk:
    def __init__(self, cut_at: int | None = None) -> None:
        self.files: dict[str, _File] = {}
        self.durable: dict[str, _File] = {}
        self.folders: set[str] = {"/"}
        self.pending: list[_Change] = []
        self.steps = 0
        self.cut_at = cut_at
        self._lock = threading.RLock()

    # What the code under test calls

    def read(self, path: str) -> bytes | None:
        with self._lock:
            self._alive()
            file = self.files.get(path)
            return None if file is None else file.data

    def write(self, path: str, data: bytes, *, append: bool = False) -> None:
        with self._lock:
            if self._step():
                # The power goes in the middle of the write.
                self._write(path, data[: len(data) // 2], append)
                raise PowerCut
            self._write(path, data, append)

    def _write(self, path: str, data: bytes, append: bool) -> None:
        self._need_folder(path)
        file = self.files.get(path)
        if file is None:
            assert not append
            file = self.files[path] = _File()
            self._change(_Change(path, file))
        file.data = file.data + data if append else data

    def sync(self, path: str) -> None:
        with self._lock:
            self._step_or_cut()
            file = self.files[path]
            file.synced = file.data

    def sync_folder(self, path: str) -> None:
        with self._lock:
            self._step_or_cut()
            settled = [change for change in self.pending if path in change.folders]
            for change in settled:
                _apply(change, self.durable)
            self.pending = [change for change in self.pending if path not in change.folders]

    def link(self, source: str, target: str) -> bool:
        with self._lock:
            self._step_or_cut()
            if target in self.files:
                return False
            self._need_folder(target)
            self.files[target] = self.files[source]
            self._change(_Change(target, self.files[source]))
            return True

    def rename(self, source: str, target: str) -> None:
        with self._lock:
            self._step_or_cut()
            self._need_folder(target)
            file = self.files.pop(source)
            self.files[target] = file
            self._change(_Change(target, file, also=_Change(source, None)))

    def unlink(self, path: str) -> None:
        with self._lock:
            self._step_or_cut()
            if self.files.pop(path, None) is not None:
                self._change(_Change(path, None))

    def make_folder(self, path: str) -> bool:
        with self._lock:
            self._step_or_cut()
            new = path not in self.folders
            self.folders.add(path)
            return new

    def exists(self, path: str) -> bool:
        with self._lock:
            self._alive()
            return path in self.files or path in self.folders

    def hold(self, path: str) -> None:
        """Nobody deletes a whole location here."""

    def list(self, path: str) -> list[tuple[str, int, int]]:
        with self._lock:
            self._alive()
            start = path.rstrip("/") + "/"
            return sorted(
                (name.removeprefix(start), len(file.data), 0)
                for name, file in self.files.items()
                if name.startswith(start)
            )

    # What the test calls

    def crash(self, rng: random.Random | None) -> PowerCutDisk:
        """The disk after the power came back. Folders survive if something in them did."""
        survived = dict(self.durable)
        for change in self.pending:
            if rng is not None and rng.random() < 0.5:
                _apply(change, survived)
        after = PowerCutDisk()
        kept: dict[int, _File] = {}
        for path, file in survived.items():
            if id(file) not in kept:
                data = _after_crash(file, rng)
                kept[id(file)] = _File(data, data)
            after.files[path] = kept[id(file)]
            after.folders |= {str(folder) for folder in PurePosixPath(path).parents}
        after.durable = dict(after.files)
        return after

    # Inside

    def _alive(self) -> None:
        if self.cut_at is not None and self.steps > self.cut_at:
            raise PowerCut

    def _step(self) -> bool:
        self._alive()
        self.steps += 1
        return self.cut_at is not None and self.steps > self.cut_at

    def _step_or_cut(self) -> None:
        if self._step():
            raise PowerCut

    def _need_folder(self, path: str) -> None:
        assert str(PurePosixPath(path).parent) in self.folders, path

    def _change(self, change: _Change) -> None:
        change.folders = {str(PurePosixPath(change.path).parent)}
        if change.also is not None:
            change.folders.add(str(PurePosixPath(change.also.path).parent))
        self.pending.append(change)


def _apply(change: _Change, names: dict[str, _File]) -> None:
    if change.also is not None:
        names.pop(change.also.path, None)
    if change.target is None:
        names.pop(change.path, None)
    else:
        names[change.path] = change.target


def _after_crash(file: _File, rng: random.Random | None) -> bytes:
    """What was synced; of what was written later, a part, zeros in its place, or nothing."""
    synced = file.synced or b""
    if rng is None or file.data == synced:
        return synced
    length = rng.randrange(len(file.data) + 1)
    return rng.choice([file.data[:length], file.data[:length].ljust(len(file.data), b"\0"), synced])

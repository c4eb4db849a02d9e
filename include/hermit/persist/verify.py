"""Verification of a whole location: every log entry, the checkpoint, every byte of every live file.

Nothing is written. Damage is collected, not raised, so that one run names all of it. Log entries are replayed
from the first that exists; if that is the very first commit, the checkpoint must say the same as the replay.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from hermit.errors import CorruptData
from hermit.persist import checkpoint, files
from hermit.persist.commit import DataFile
from hermit.persist.errors import corrupt
from hermit.persist.state import State, apply
from hermit.persist.storage.abc import Storage, commit_key

Progress = Callable[[int, int], None]  # steps done, steps in all


@dataclass
class Report:
    """What was looked at and what was found."""

    version: int = -1
    commits: int = 0
    files: int = 0
    rows: int = 0
    bytes: int = 0
    unnamed_files: int = 0
    damage: list[CorruptData] = field(default_factory=list)

    @property
    def is_sound(self) -> bool:
        return not self.damage


def verify(storage: Storage, progress: Progress = lambda done, total: None) -> Report:
    """Check everything that a location holds."""
    report = Report()
    base = _checkpoint(storage, report)
    state = _replay(storage, base, report)
    if state is None:
        return report
    report.version = state.version
    live = state.files()
    total = len(live)
    for done, file in enumerate(live):
        progress(done, total)
        _file(storage, file, report)
    progress(total, total)
    found = {info.key for folder in ("data", "batches") for info in storage.blob.list(folder)}
    report.unnamed_files = len(found - set(state.live))
    return report


def _checkpoint(storage: Storage, report: Report) -> State | None:
    try:
        return checkpoint.read(storage)
    except CorruptData as error:
        report.damage.append(error)
        return None


def _replay(storage: Storage, base: State | None, report: Report) -> State | None:
    """Follow the log; the last state that it leads to, or None if it cannot be followed."""
    versions = sorted(
        int(name.partition(".")[0])
        for name in (info.key.rpartition("/")[2] for info in storage.blob.list("_delta_log"))
        if name.endswith(".json") and name[:-5].isdigit()
    )
    last = versions[-1] if versions else -1
    if base is not None and last < base.version:
        why = "the file is missing, a checkpoint of it exists"
        report.damage.append(corrupt(storage.location, commit_key(base.version), why))
        return base
    state: State | None = State()
    if versions and versions[0] > 0:
        state = None  # the beginning was deleted as old: the checkpoint is where the replay starts
    for version in range(versions[0] if versions else 0, last + 1):
        state = _next(storage, version, state, report)
        if base is not None and version == base.version:
            if state is not None and state != base:
                why = "it does not say what the log says"
                report.damage.append(corrupt(storage.location, checkpoint.checkpoint_key(version), why))
            state = base
    return state


def _next(storage: Storage, version: int, state: State | None, report: Report) -> State | None:
    """The state after an entry; None once the replay is broken, while later entries are still checked."""
    key = commit_key(version)
    try:
        stored = storage.log.read(version)
        if stored is None:
            raise corrupt(storage.location, key, "the file is missing, later ones exist")
        report.commits += 1
        return None if state is None else apply(state, stored.commit, stored.checksum)
    except CorruptData as error:
        report.damage.append(error)
    except ValueError as error:
        report.damage.append(corrupt(storage.location, key, str(error)))
    return None


def _file(storage: Storage, file: DataFile, report: Report) -> None:
    try:
        data = storage.blob.get(file.path)
        if data is None:
            why = "the file is missing"
            raise corrupt(storage.location, file.path, why, collection=file.collection)
        table = files.decode(data, storage.location, file)
        if files.describe(file.path, file.collection, table, len(data)) != file:
            why = "its rows are not what the log says of them"
            raise corrupt(storage.location, file.path, why, collection=file.collection)
        report.files += 1
        report.rows += table.num_rows
        report.bytes += len(data)
    except CorruptData as error:
        report.damage.append(error)

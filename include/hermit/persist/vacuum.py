"""Vacuum: deletes files that no contents, no reader and no writer can need any more.

It makes no commit, so that it runs beside anything. A data file goes when the latest state does not name it,
it was not removed from the contents within the retention, nobody in this process is at it, and
it is older than the retention (a younger one may belong to a commit that is on its way). A batch that
was never named stays much longer.

Inside one process the order of looking matters. Whoever commits a file pins it, writes it, commits, and
lets go of it. So first the files are listed, then the pins, and the state comes last: a file in the list that
is no longer pinned was committed before the state was read, which names it.

Log entries go oldest first, never the last checkpoint's or newer ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from hermit.errors import InvalidInput
from hermit.persist import checkpoint
from hermit.persist.failpoints import fail_point
from hermit.persist.pins import pinned
from hermit.persist.state import State
from hermit.persist.storage.abc import Storage, commit_key
from hermit.persist.table import HISTORY_MIN_S, Table

FILE_RETENTION_S = HISTORY_MIN_S
LOG_RETENTION_S = 30 * HISTORY_MIN_S
STAGED_RETENTION_S = 7 * HISTORY_MIN_S


@dataclass
class Vacuumed:
    """What a vacuum deleted."""

    files: list[str] = field(default_factory=list)
    bytes: int = 0
    log_entries: int = 0


def vacuum(
    table: Table,
    now_ms: int,
    *,
    retention_s: float = FILE_RETENTION_S,
    log_retention_s: float = LOG_RETENTION_S,
    dry_run: bool = False,
) -> Vacuumed:
    """Delete what nobody needs. With a retention of 0 the caller vouches that no other process is at work."""
    if log_retention_s < HISTORY_MIN_S:
        raise InvalidInput(f"log entries are kept for at least {HISTORY_MIN_S:.0f} s")
    storage = table.storage
    done = Vacuumed()
    cutoff_ms = now_ms - int(retention_s * 1000)
    staged_ms = now_ms - int(max(STAGED_RETENTION_S, retention_s) * 1000)
    limits_ms = {"data": cutoff_ms, "batches": staged_ms, "_hermit/tmp": cutoff_ms}
    old = [
        info
        for folder, limit_ms in limits_ms.items()
        for info in storage.blob.list(folder)
        if info.modified_ms <= limit_ms
    ]
    busy = pinned(storage.location)
    state = table.refresh()
    if state.version < 0:
        return done
    needed = {*state.live, *busy, *_removed_since(storage, state, cutoff_ms)}
    for info in old:
        if info.key not in needed:
            done.files.append(info.key)
            done.bytes += info.bytes
    if not dry_run:
        for key in done.files:
            storage.blob.delete(key)
            fail_point("vacuum.file")
        done.log_entries = clean_log(storage, now_ms - int(log_retention_s * 1000))
    return done


def _removed_since(storage: Storage, state: State, cutoff_ms: int) -> Iterator[str]:
    """Files that commits since then removed: readers of the versions before may be at them."""
    for version in range(state.version, -1, -1):
        stored = storage.log.read(version)
        if stored is None or stored.commit.timestamp_ms < cutoff_ms:
            return
        for file in stored.commit.removes:
            yield file.path


def clean_log(storage: Storage, cutoff_ms: int) -> int:
    """Delete log entries and checkpoints before the last checkpoint that are older than this, in order."""
    last = checkpoint.read(storage)
    if last is None:
        return 0
    deleted = 0
    for info in sorted(storage.blob.list("_delta_log")):
        digits = info.key.rpartition("/")[2].partition(".")[0]
        if not digits.isdigit() or int(digits) >= last.version:
            continue
        if info.modified_ms > cutoff_ms:
            break  # no gap may open: a later entry never goes before an earlier one
        if info.key == commit_key(int(digits)):
            storage.log.delete(int(digits))
        else:
            storage.blob.delete(info.key)
        deleted += 1
        fail_point("vacuum.log")
    return deleted

"""The fail points of persist: before and after everything that a crash could tear."""

from __future__ import annotations

from hermit.failpoints import FailPoints

POINTS = (
    "blob.written",
    "blob.synced",
    "blob.named",
    "log.written",
    "log.linked",
    "log.synced",
    "append.files",
    "append.committed",
    "checkpoint.file",
    "checkpoint.pointer",
    "compaction.files",
    "compaction.committed",
    "vacuum.file",
    "vacuum.log",
    "lock.taken",
)
fail_point = FailPoints("HERMIT_PERSIST_FAIL_POINT", POINTS)

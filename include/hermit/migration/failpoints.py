"""The fail points of a move: at least one before and one after every durable effect of every step."""

from __future__ import annotations

from hermit.failpoints import FailPoints

VARIABLE = "HERMIT_MOVE_FAIL_POINT"
POINTS = (
    "fence_epoch.begun",
    "fence_epoch.stash_opened",
    "fence_epoch.persist_opened",
    "fence_epoch.persist_tombstone",
    "fence_epoch.protocol",
    "announce.begun",
    "announce.written",
    "check_tombstone.decided",
    "snapshot.begun",
    "snapshot.part",
    "snapshot.staged",
    "snapshot.noted",
    "replace.begun",
    "replace.written",
    "verify.begun",
    "verify.noted",
    "set_tombstone.begun",
    "set_tombstone.written",
    "finish.begun",
    "finish.forgotten",
)
fail_point = FailPoints(VARIABLE, POINTS)

"""What a process does that a test kills in the middle of a move."""

from __future__ import annotations

from uuid import UUID

import hermit.formats.upgrade
import hermit.persist.batch
import hermit.persist.checkpoint
import hermit.persist.compaction
import hermit.persist.snapshot
import hermit.stash.bulk  # noqa: F401
from hermit.migration import in_process
from hermit.migration.failpoints import fail_point
from hermit.migration.protocol import Direction
from hermit.migration.stores import connect


def move_and_die(
    stash_url: str, shards: str, organization_id: str, direction: str, protocol: str, point: str
) -> None:
    """Run a move; it ends at the fail point if it gets there."""
    fail_point.arm(point)
    in_process.run(connect(stash_url, shards, UUID(organization_id)), Direction(direction), protocol)

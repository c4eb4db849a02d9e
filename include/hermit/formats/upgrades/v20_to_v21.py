"""Nothing stored changes: the audit log merely learns one more kind of event.

From 21 on, moving an item to another cluster is an event of its own. Version 21 reads everything that 20
wrote, so that there is nothing to convert. The version still goes up, because 20 could not read an event
of the new kind.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermit.formats.actions import Action, Old


def upgrade(old: Old) -> Iterator[Action]:
    """Change nothing."""
    yield from ()

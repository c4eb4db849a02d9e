"""The format versions that this build knows.

`hermit formats freeze` edits this file. Nothing else should: bumping `STASH_VERSION` alone fails the
guard (no snapshot, no step) and mypy (`upgrades/__init__.py` has no arm for the version before it).
"""

from __future__ import annotations

from typing import Final, Literal

STASH_VERSION: Final = 21
"""The version that this build writes, and to which it upgrades every catalog that it opens."""

MIN_STASH_VERSION: Final = 14
"""The oldest version that this build can upgrade. 14 is the last one that stored JSON."""

FIRST_PROTO_VERSION: Final = 15
"""The oldest version with a snapshot in `proto/old`."""

KnownVersion = Literal[14, 15, 16, 17, 18, 19, 20, 21]
"""Every version from `MIN_STASH_VERSION` to `STASH_VERSION`."""

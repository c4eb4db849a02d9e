"""Who a catalog is: its organization, and the shard that holds it in persist.

Organization IDs are version 4 UUIDs. The shard's ID is derived from the organization's, so that any
process finds the same shard, yet differs from it, so that dashboards do not mix the two up.
"""

from __future__ import annotations

import hashlib
import uuid

from hermit.errors import InvalidInput

_SHARD_SEED = "catalog"


def parse_organization_id(text: str) -> uuid.UUID:
    """The organization ID that a user gave, or `InvalidInput`."""
    try:
        parsed = uuid.UUID(text)
    except ValueError:
        parsed = None
    if parsed is None or parsed.version != 4 or str(parsed) != text.lower():
        raise InvalidInput(
            f"organization id {text!r} is not a version 4 uuid",
            hint="it looks like 6f1c0f0e-53f9-4f0f-8c1a-0a5f3c0f9b1d",
        )
    return parsed


def shard_id(organization_id: uuid.UUID) -> str:
    """`s` and a version 4 UUID made from the first 16 bytes of a hash of the organization's ID."""
    digest = hashlib.sha256(f"{organization_id}{_SHARD_SEED}".encode()).digest()
    return f"s{uuid.UUID(bytes=digest[:16], version=4)}"

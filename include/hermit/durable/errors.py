"""What can go wrong with a durable catalog, beside what both stores may raise."""

from __future__ import annotations

from hermit.errors import HermitError, InvalidInput


class DurableError(HermitError):
    """Root of this room's errors."""


class Closed(DurableError):
    """The handle was closed."""

    hint = "open the catalog again"


class UpgradeNeeded(DurableError):
    """The catalog is of an older format, and this mode may not upgrade it."""

    found: int
    current: int


class NotACatalog(DurableError):
    """A location holds collections by the names of a catalog's, but not as a catalog would."""

    hint = "something else wrote there; restore the shard from a copy, or choose another location"
    location: str


class GenerationTooOld(DurableError):
    """A process of an older deploy generation tried to open a catalog that a newer one took over."""

    given: int
    stored: int


class ConcurrentChange(DurableError):
    """Another holder of the same fencing token changed the contents under an open transaction."""

    hint = "start the transaction over"


class HistoryGone(DurableError):
    """The single steps that a follower asked for were merged, or replaced by other contents."""

    time: int


class Held(DurableError):
    """Another process holds the catalog open for writing, and was not to be fenced out."""


class TransactionInProgress(DurableError):
    """A handle has one transaction at a time."""

    hint = "commit or discard the open one first"


class TransactionFinished(DurableError):
    """The transaction was committed or discarded, or belongs to another handle."""

    hint = "start a new one with transaction()"


class UnknownKind(InvalidInput):
    """There is no object type of that name."""


class DuplicateKey(DurableError):
    """An object with this key exists already."""


class UniquenessViolation(DurableError):
    """Another object holds what must be unique: a name in its schema, an object identifier."""


class UnknownObject(DurableError):
    """There is no object with this key."""


class InvalidObject(DurableError):
    """A stored object is not sound: doubled, or of a size that does not exist."""

    hint = "correct it with `hermit debug edit` or `delete`"
    kind: str


class IdsExhausted(DurableError):
    """An allocator has no identifiers left."""


class ShadowMismatch(DurableError):
    """The two sides of a shadow catalog gave different answers to one call."""

    method: str
    primary: str
    secondary: str

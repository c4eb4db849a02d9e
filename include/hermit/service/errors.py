"""What can go wrong with the versioned catalog service.

Three branches: a command that a rule refuses (the caller's to correct), a version or a point in time that
this node cannot answer for (wait, or ask for another), and bytes in the log that cannot be read (nothing
was changed, and nothing more is applied).
"""

from __future__ import annotations

from hermit.errors import CorruptData, HermitError, InvalidInput


class ServiceError(HermitError):
    """Root of this room's errors."""


# Commands


class CommandRefused(ServiceError):
    """A command breaks a rule. The log and the catalog are as they were."""


class InvalidCommand(CommandRefused, InvalidInput):
    """A command that no catalog could accept: an empty name, a doubled column, a length that is no length."""


class ObjectExists(CommandRefused):
    """The name is taken."""

    hint = "choose another name, or pass if_not_exists"


class ObjectNotFound(CommandRefused):
    """There is no object of this name."""

    hint = "check the name, or pass if_exists"


class ObjectInUse(CommandRefused):
    """Other objects depend on this one."""

    dependents: tuple[str, ...]


class ColumnExists(CommandRefused):
    """The table has a column of this name."""


class ColumnNotFound(CommandRefused):
    """The table has no column of this name."""


class ColumnInUse(CommandRefused):
    """A key or an index needs this column."""


class ColumnChangeRefused(CommandRefused):
    """A column cannot be changed like this: rows that are stored might not fit."""


class CommandFailed(CommandRefused):
    """A command could not be worked out at all."""

    hint = "this is a bug in the command; nothing was written"


class UpdateTooLarge(CommandRefused):
    """The entries of one version are more than one transaction is to write."""

    hint = "split the commands over several versions"
    size_bytes: int
    limit_bytes: int


# Executing


class TooManyConflicts(ServiceError):
    """Others kept appending first, more often than we try."""

    hint = "nothing was written; execute the command again"
    attempts: int


class NotAccepted(ServiceError):
    """A command was not appended in time: the catalog is being moved, or its store cannot be reached."""

    hint = "nothing was written; execute the command again"


class OutcomeUnknown(ServiceError):
    """The answer to an append got lost, and the store could not be asked in time what became of it."""

    hint = "look at the catalog before executing the command again"


class Stopped(ServiceError):
    """The node was stopped."""

    hint = "start it again"


class AppliedHereOnly(ServiceError):
    """A command is in the log and was applied here, but this node ended before all others must have it."""

    hint = "do not execute the command again; wait for the version on the node that you ask next"
    version: int


class NodeFailed(ServiceError):
    """What was not foreseen happened while the log was followed. What is in memory stays readable."""

    hint = "this is a bug in hermit; start the node again"


# Versions


class VersionNotAvailable(ServiceError):
    """This node does not hold the version. `earliest` and `latest` are what it does hold."""

    version: int
    earliest: int
    latest: int


class VersionNotYetAvailable(VersionNotAvailable):
    """The version has not arrived on this node."""

    hint = "wait for it with catalog_ready()"


class VersionCompacted(VersionNotAvailable):
    """The version was compacted away."""


class TimestampCompacted(ServiceError):
    """The point in time lies before the earliest version that is still available."""

    timestamp: int
    earliest: int


class NodeBehind(ServiceError):
    """This node has not heard from the log for so long that it cannot answer for this point in time."""

    hint = "wait with wait_for_metadata_completeness(), or ask for a version"
    timestamp: int
    earliest: int
    latest: int


class CompactionHeld(ServiceError):
    """Nothing can be compacted: a reader, a node that is behind or the low watermark needs every version."""

    version: int


# The log


class VersionConflict(ServiceError):
    """Somebody else appended first: the compare-and-set did not hold, and nothing was written."""


class LogDamaged(CorruptData):
    """The keys of the log do not fit together."""

    hint = "nothing was applied; restore the catalog from a copy"


class WireError(CorruptData):
    """Bytes of the log cannot be read."""

    hint = "nothing was applied and the log is as it was"


class UnsupportedProtocol(WireError):
    """The bytes are of a protocol version that this release does not read."""

    found: int


class UnknownObjectType(WireError):
    """The bytes hold an object of a type that this release does not know."""

    type_id: int


class SerializerFromTheFuture(WireError):
    """The bytes were written by a newer serializer than this release has."""

    hint = "upgrade this node; nothing was applied and the log is as it was"
    found: int
    newest: int


class Truncated(WireError):
    """The bytes end too early."""


class MalformedBytes(WireError):
    """The bytes are not what any serializer writes: a checksum, a length or a number does not fit."""

"""What can be wrong with the format of a stored catalog, or with a step between two formats."""

from __future__ import annotations

from hermit.errors import CorruptData, HermitError


class UnsupportedFormat(HermitError):
    """This build can neither read nor upgrade the catalog's format. Nothing was changed.

    `found` is the catalog's version; `minimum` and `current` bound what this build can open.
    """

    found: int
    minimum: int
    current: int


class FormatTooOld(UnsupportedFormat):
    """The catalog's version is below what this build can still upgrade."""

    def __init__(self, found: int, minimum: int, current: int) -> None:
        super().__init__(
            f"Deprecated stash version! the catalog is at format {found}, and this build upgrades from "
            f"{minimum} to {current}",
            hint="open it first with an older build that still knows this format",
            found=found,
            minimum=minimum,
            current=current,
        )


class FormatFromTheFuture(UnsupportedFormat):
    """The catalog was written by a newer build."""

    def __init__(self, found: int, minimum: int, current: int) -> None:
        super().__init__(
            f"Traveled to the future! the catalog is at format {found}, and this build knows {minimum} to "
            f"{current}",
            hint="open it with the build that wrote it, or a newer one",
            found=found,
            minimum=minimum,
            current=current,
        )


class UpgradeFailed(HermitError):
    """A step cannot be finished. What it had written so far must be rolled back by the caller."""

    hint = "the catalog is as it was before; go on with the build that last opened it"


class CannotConvert(UpgradeFailed, CorruptData):
    """A stored object means nothing in its own version, so that no step can say what becomes of it."""

    def __init__(self, collection: str, what: str, reason: str) -> None:
        super().__init__(
            f"cannot convert {what} in {collection}: {reason}",
            collection=collection,
            what=what,
            reason=reason,
        )


class DuplicateKey(UpgradeFailed):
    """After a step, two rows of a collection have the same key."""

    collection: str
    key: bytes


class UnexplainedCount(UpgradeFailed):
    """The number of rows after a step is not the one before it plus inserts minus deletes."""

    collection: str
    expected: int
    found: int

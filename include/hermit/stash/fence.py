"""The fence: who owns the stash, as one row per component, and what a handle remembers of it.

    epoch     rises with every open, strictly
    nonce     random per open: tells two owners apart even where the epoch is the same, as when the
              schema was dropped and created again
    version   rises by one with every write transaction that changed something; opening alone leaves it

A handle keeps epoch and nonce. Every transaction reads the row first and compares both: any difference
fails it, not only a larger epoch. A write also changes the row, in the same transaction, just before it
commits. Under snapshot isolation the database refuses that change when anybody changed the row since the
transaction began, so that a writer which was fenced while it worked cannot commit, however late it wakes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from hermit.errors import Fenced, InvalidInput
from hermit.stash.errors import SchemaReplaced


@dataclass(frozen=True)
class Fence:
    """The fence as a reader of it sees it."""

    epoch: int
    nonce: bytes
    version: int


@dataclass(frozen=True)
class Token:
    """What a handle holds, and what may be handed to another process so that it goes on as this one."""

    epoch: int
    nonce: bytes

    def to_json(self) -> dict[str, Any]:
        return {"epoch": self.epoch, "nonce": self.nonce.hex()}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Token:
        try:
            return cls(int(value["epoch"]), bytes.fromhex(value["nonce"]))
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInput(f"not a fencing token: {sorted(value)}") from error


class FenceRow(NamedTuple):
    """The stored row: the fence, which table holds the contents, who opened last, who wrote last."""

    epoch: int
    nonce: bytes
    version: int
    heap: str
    opened_by: str
    writer: bytes

    @property
    def fence(self) -> Fence:
        return Fence(self.epoch, self.nonce, self.version)

    @property
    def token(self) -> Token:
        return Token(self.epoch, self.nonce)


def check(token: Token, row: FenceRow | None, where: str) -> FenceRow:
    """The row, if it is still this token's; else the error that says who has it."""
    if row is None:
        raise SchemaReplaced(
            f"{where} was dropped under the handle with epoch {token.epoch}", epoch=token.epoch, current=None
        )
    if row.token == token:
        return row
    if row.epoch > token.epoch:
        raise Fenced(
            f"{where}: fenced: this handle has epoch {token.epoch}, "
            f"epoch {row.epoch} was opened since by {row.opened_by}",
            hint="a newer opener owns the catalog; open it again to take it over",
            epoch=token.epoch,
            current=row.epoch,
        )
    raise SchemaReplaced(
        f"{where} was created again under the handle with epoch {token.epoch}: "
        f"it now has epoch {row.epoch}, opened by {row.opened_by}",
        epoch=token.epoch,
        current=row.epoch,
    )

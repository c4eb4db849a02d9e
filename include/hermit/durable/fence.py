"""The fence of the persist catalog: one row in a collection of its own, in the shard that it guards.

It is not part of the contents: a move leaves it where it is. Its encoding, like that of config, never
changes, because it is read before anybody knows the format of the rest: JSON with the epoch, a random
nonce that tells openers apart, and who opened, for the one who finds himself fenced.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field

from hermit.durable.opener import opener
from hermit.errors import CorruptData, Fenced

KEY = b"fence"


@dataclass(frozen=True)
class Fence:
    """Who opened the catalog last."""

    epoch: int
    nonce: str
    opened_by: str
    deploy_generation: int | None = None
    stored: bytes | None = field(default=None, compare=False, repr=False)
    """The bytes that it was read from: what a later build added to them must not be lost in a retraction."""

    def encode(self) -> bytes:
        if self.stored is not None:
            return self.stored
        fields = {
            "epoch": self.epoch,
            "nonce": self.nonce,
            "opened_by": self.opened_by,
            "deploy_generation": self.deploy_generation,
        }
        return json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, data: bytes) -> Fence:
        try:
            fields = json.loads(data)
            return cls(
                epoch=int(fields["epoch"]),
                nonce=str(fields["nonce"]),
                opened_by=str(fields["opened_by"]),
                deploy_generation=fields["deploy_generation"],
                stored=data,
            )
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptData(f"the fence of the shard is damaged: {data[:64].hex()}") from error

    @classmethod
    def next(cls, stored: Fence | None, epoch_min: int, deploy_generation: int | None) -> Fence:
        """The fence of the next opener: above what is stored, whatever anybody remembers."""
        epoch = max(1 if stored is None else stored.epoch + 1, epoch_min)
        return cls(epoch, secrets.token_hex(8), opener(), deploy_generation)

    def check(self, stored: Fence | None, where: str) -> None:
        """Fail if the stored fence is not this one: any difference counts, not only a larger epoch."""
        if stored is not None and (stored.epoch, stored.nonce) == (self.epoch, self.nonce):
            return
        by = "nobody any more" if stored is None else f"epoch {stored.epoch}, opened by {stored.opened_by}"
        if stored is not None and stored.deploy_generation is not None:
            by += f" in deploy generation {stored.deploy_generation}"
        raise Fenced(
            f"{where}: fenced: this handle has epoch {self.epoch}, the catalog belongs to {by}",
            hint="a newer opener owns the catalog; open it again to take it over",
            epoch=self.epoch,
            current=None if stored is None else stored.epoch,
            deploy_generation=None if stored is None else stored.deploy_generation,
        )


def find(pairs: Iterable[tuple[bytes, bytes]]) -> Fence | None:
    """The fence among the rows of its collection."""
    fences = [Fence.decode(value) for key, value in pairs if key == KEY]
    if len(fences) > 1:
        raise CorruptData(f"the shard has {len(fences)} fences", hint="restore it from a copy")
    return fences[0] if fences else None

"""The fencing token: what a process hands to another so that it goes on as the same opener.

A token is a few integers, so that it travels in an XCom. Whoever presents it is the opener that got it:
it may read and write for as long as nobody opened the catalog again. It is not a secret: the nonce keeps
apart two openers that drew the same epoch from two incarnations of a store, nothing more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from hermit.errors import InvalidInput


@dataclass(frozen=True)
class FenceToken:
    """Who an opener is: of which store, at which epoch, of which deploy generation."""

    store: str
    epoch: int
    nonce: str
    deploy_generation: int | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> FenceToken:
        try:
            generation = data.get("deploy_generation")
            return cls(
                store=str(data["store"]),
                epoch=int(data["epoch"]),
                nonce=str(data["nonce"]),
                deploy_generation=None if generation is None else int(generation),
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise InvalidInput(
                f"not a fencing token: {data!r}", hint="pass on what open() gave, unchanged"
            ) from error

"""What a run was asked to do, and what it hands from step to step."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hermit.durable.token import FenceToken
from hermit.errors import InvalidInput
from hermit.identity import parse_organization_id
from hermit.migration import protocol as protocols
from hermit.migration.protocol import Direction, Plan, Protocol


@dataclass(frozen=True)
class Limits:
    """How gently a move treats its stores. None: as quickly as they let it."""

    rows_per_partition: int | None = None
    max_parallelism: int | None = None
    max_rows_per_second: int | None = None

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> Limits:
        """Check what a user gave; entries that are not limits are ignored."""
        names = [field.name for field in dataclasses.fields(cls)]
        limits = {name: given.get(name) for name in names}
        for name, value in limits.items():
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
                raise InvalidInput(f"{name} is {value!r}", hint="give a whole number above 0, or nothing")
        return cls(**limits)

    def to_json(self) -> dict[str, int | None]:
        return dataclasses.asdict(self)


@dataclass(frozen=True)
class Move:
    """One run of a move: of which catalog, which way, under which protocol (None: the catalog's own)."""

    direction: Direction
    organization_id: uuid.UUID
    protocol: Protocol | None
    dry_run: bool
    run_id: str
    limits: Limits = Limits()

    @classmethod
    def parse(
        cls,
        *,
        direction: str,
        organization_id: str,
        protocol: str | None,
        dry_run: bool,
        run_id: str,
        limits: Mapping[str, Any] | None = None,
    ) -> Move:
        """Check what a user gave, before anything is opened."""
        return cls(
            direction=Direction(direction),
            organization_id=parse_organization_id(organization_id),
            protocol=protocols.parse(protocol) if protocol else None,
            dry_run=dry_run,
            run_id=run_id,
            limits=Limits.parse(limits or {}),
        )


@dataclass(frozen=True)
class Fencing:
    """What fencing gave: the right to go on, for as long as nobody opens the catalog again."""

    stash: FenceToken
    persist: FenceToken
    protocol: Protocol
    epochs_before: Mapping[str, int | None]

    def plan(self, direction: Direction) -> Plan:
        return self.protocol.plans[direction]

    def to_json(self) -> dict[str, Any]:
        return {
            "stash": self.stash.to_json(),
            "persist": self.persist.to_json(),
            "protocol": self.protocol.name,
            "epochs_before": dict(self.epochs_before),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Fencing:
        return cls(
            stash=FenceToken.from_json(data["stash"]),
            persist=FenceToken.from_json(data["persist"]),
            protocol=protocols.parse(data["protocol"]),
            epochs_before=data["epochs_before"],
        )

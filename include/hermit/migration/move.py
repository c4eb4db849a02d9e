"""What a run was asked to do, and what it hands from step to step."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hermit.durable.token import FenceToken
from hermit.identity import parse_organization_id
from hermit.migration import protocol as protocols
from hermit.migration.protocol import Direction, Plan, Protocol


@dataclass(frozen=True)
class Move:
    """One run of a move: of which catalog, which way, under which protocol (None: the catalog's own)."""

    direction: Direction
    organization_id: uuid.UUID
    protocol: Protocol | None
    dry_run: bool
    run_id: str

    @classmethod
    def parse(
        cls, *, direction: str, organization_id: str, protocol: str | None, dry_run: bool, run_id: str
    ) -> Move:
        """Check what a user gave, before anything is opened."""
        return cls(
            direction=Direction(direction),
            organization_id=parse_organization_id(organization_id),
            protocol=protocols.parse(protocol) if protocol else None,
            dry_run=dry_run,
            run_id=run_id,
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

"""What can be set about a node of the service."""

from __future__ import annotations

from dataclasses import dataclass

from hermit.errors import InvalidInput
from hermit.service.commands import CatalogCommand, CreateSchema, CreateZone, SetDefaultZone

DELAY_DURATION = "schema_sync.delay_duration_ms"
"""The system variable of the catalog that, where it is set, all nodes take the delay from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSettings:
    """The settings of one node. Times are in ms."""

    delay_duration_ms: int = 100
    """How long after its activation a version counts as available on every node. A node that heard nothing
    from the log for longer refuses to answer for the present. Must be the same on all nodes."""

    clock_skew_ms_max: int = 0
    """How far the clocks of two nodes may be apart. On one machine: not at all."""

    poll_interval_ms: int = 10
    """How often the log is looked at."""

    search_interval_ms: int = 50
    """How often a node that was fenced looks for the truth."""

    conflicts_max: int = 100
    """How often an append is tried again after somebody else appended first."""

    execute_timeout_ms: int = 60_000
    """How long a command may wait for the log, while the catalog moves or its store is away."""

    move_patience_ms: int = 30_000
    """How long a node that was fenced waits for the move to end before it takes the catalog back."""

    take_over_jitter_ms: int = 100
    """Nodes that may take over wait for a random time up to this, so that one does and the others join it."""

    claim_ms: int = 30_000
    """How long a node's claim to the versions that it needs counts without being renewed."""

    linger_ms: int = 2
    """How long a node waits for the next one of those who were just told of their commands: they usually ask
    again at once, and a commit for the first few would only keep the others waiting."""

    listener_patience_ms: int = 200
    """How long the answer to a command waits for listeners on this node to deal with its events; and how
    long a node that stops waits for them."""

    group_max: int = 256
    """How many commands at most become durable together."""

    update_bytes_max: int = 32 * 1024 * 1024
    """How large the entries of one version may be: they are written by one transaction of either store."""

    first_commands: tuple[CatalogCommand, ...] = (
        CreateZone(name="default", if_not_exists=True),
        SetDefaultZone(name="default"),
        CreateSchema(name="public", if_not_exists=True),
    )
    """What the first version of a new catalog is made of."""

    def __post_init__(self) -> None:
        if not self.poll_interval_ms > 0:
            raise InvalidInput(f"the log cannot be looked at every {self.poll_interval_ms} ms")
        if self.delay_duration_ms < 0 or self.clock_skew_ms_max < 0:
            raise InvalidInput("delay and clock skew cannot be negative")

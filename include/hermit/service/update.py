"""What the log holds under `catalog.update.{N}`: the entries that lead to version N.

An update carries its origin, drawn by the node that executed the command. A node whose answer to an append
got lost recognises its own update by it, whoever wrote what in between, and never appends it twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from hermit.service.catalog import Catalog
from hermit.service.clock import HybridTimestamp
from hermit.service.entries import UpdateEntry
from hermit.service.events import CatalogEvent
from hermit.service.marshallable import MarshalledType


class Origin(NamedTuple):
    """Which command of which node an update came from."""

    node: int
    sequence: int


NOBODY = Origin(0, 0)
"""The origin of updates from before origins were recorded."""


@dataclass(frozen=True, slots=True)
class VersionedUpdate:
    """The entries that lead from version N - 1 to version N, active from `time` on."""

    marshalled_type: ClassVar[MarshalledType] = MarshalledType.VERSIONED_UPDATE

    version: int
    time: HybridTimestamp
    entries: tuple[UpdateEntry, ...]
    origin: Origin = NOBODY

    def apply(self, catalog: Catalog) -> Catalog:
        """The catalog at this version, given the one before."""
        for entry in self.entries:
            catalog = entry.apply(catalog, self.time)
        return catalog.at(self.version, self.time)

    def events(self, before: Catalog) -> list[CatalogEvent]:
        """What listeners are to be told."""
        found = []
        catalog = before
        for entry in self.entries:
            after = entry.apply(catalog, self.time).at(self.version, self.time)
            event = entry.event(catalog, after)
            if event is not None:
                found.append(event)
            catalog = after
        return found

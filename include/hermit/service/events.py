"""Events: what changed in a version, told after the version can be read.

Listeners hear of versions in order, and of every change within a version in the order of its entries. A
listener may read the catalog at the version of its event. One that raises is reported and skipped: the
others, and the log, go on.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import StrEnum, unique

from hermit.service.clock import HybridTimestamp
from hermit.service.descriptors import CatalogObjectDescriptor, ObjectType

_logger = logging.getLogger(__name__)


@unique
class EventType(StrEnum):
    """What can happen."""

    ZONE_CREATED = "zone_created"
    ZONE_ALTERED = "zone_altered"
    ZONE_DROPPED = "zone_dropped"
    SCHEMA_CREATED = "schema_created"
    SCHEMA_ALTERED = "schema_altered"
    SCHEMA_DROPPED = "schema_dropped"
    TABLE_CREATED = "table_created"
    TABLE_ALTERED = "table_altered"
    TABLE_DROPPED = "table_dropped"
    INDEX_CREATED = "index_created"
    INDEX_ALTERED = "index_altered"
    INDEX_DROPPED = "index_dropped"
    VIEW_CREATED = "view_created"
    VIEW_ALTERED = "view_altered"
    VIEW_DROPPED = "view_dropped"
    SEQUENCE_CREATED = "sequence_created"
    SEQUENCE_ALTERED = "sequence_altered"
    SEQUENCE_DROPPED = "sequence_dropped"
    DEFAULT_ZONE_SET = "default_zone_set"
    VERSIONS_SKIPPED = "versions_skipped"
    """This node was away for so long that versions up to the event's were compacted: look at everything."""

    @classmethod
    def created(cls, type_: ObjectType) -> EventType:
        return cls(f"{type_.word}_created")

    @classmethod
    def altered(cls, type_: ObjectType) -> EventType:
        return cls(f"{type_.word}_altered")

    @classmethod
    def dropped(cls, type_: ObjectType) -> EventType:
        return cls(f"{type_.word}_dropped")


@dataclass(frozen=True, slots=True)
class CatalogEvent:
    """One change: the object as it is since this version, and as it was before."""

    type: EventType
    version: int
    time: HybridTimestamp
    object: CatalogObjectDescriptor | None = None
    former: CatalogObjectDescriptor | None = None


Listener = Callable[[CatalogEvent], object]


class EventSubscription:
    """A listener's place; closing it is the only way to end it."""

    def __init__(self, listeners: Listeners, listener: Listener, types: frozenset[EventType] | None) -> None:
        self._listeners = listeners
        self.listener = listener
        self.types = types

    def wants(self, type_: EventType) -> bool:
        """Whether the listener is to hear of it. Skipped versions concern everybody."""
        return self.types is None or type_ in self.types or type_ is EventType.VERSIONS_SKIPPED

    def close(self) -> None:
        """Hear of nothing any more."""
        self._listeners.remove(self)


class Listeners:
    """Who listens on one node."""

    def __init__(self) -> None:
        self._subscriptions: tuple[EventSubscription, ...] = ()
        self._lock = threading.Lock()
        self.failures = 0

    def __bool__(self) -> bool:
        return bool(self._subscriptions)

    def subscribe(self, listener: Listener, types: Collection[EventType] | None = None) -> EventSubscription:
        """Tell the listener of these types of events, or of all."""
        subscription = EventSubscription(self, listener, None if types is None else frozenset(types))
        with self._lock:
            self._subscriptions = (*self._subscriptions, subscription)
        return subscription

    def remove(self, subscription: EventSubscription) -> None:
        """Forget a listener."""
        with self._lock:
            self._subscriptions = tuple(each for each in self._subscriptions if each is not subscription)

    def tell(self, event: CatalogEvent) -> None:
        """Call everybody whom it concerns."""
        for subscription in self._subscriptions:
            if not subscription.wants(event.type):
                continue
            try:
                subscription.listener(event)
            except Exception:
                self.failures += 1
                _logger.exception("a listener failed on %s of version %d", event.type, event.version)

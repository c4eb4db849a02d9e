"""Events: what changed in a version, told after the version can be read.

Listeners hear of versions in order, and of every change within a version in the order of its entries. A
listener may read the catalog at the version of its event. Each has a queue of its own, and on a running node
a thread: one that raises, or takes long, or waits for a command that it executes, holds up nobody else.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import StrEnum, unique
from functools import partial

from hermit.service.clock import HybridTimestamp
from hermit.service.descriptors import CatalogObjectDescriptor, ObjectType
from hermit.service.notifier import Notifier
from hermit.service.readers import Pins

_logger = logging.getLogger(__name__)
_THREAD = "hermit catalog events"


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
        self.is_closed = False
        self.notifier = Notifier()
        self._submitted = 0
        self._told = 0

    def wants(self, type_: EventType) -> bool:
        """Whether the listener is to hear of it. Skipped versions concern everybody."""
        return self.types is None or type_ in self.types or type_ is EventType.VERSIONS_SKIPPED

    def close(self) -> None:
        """Hear of nothing any more, not even of what has happened already."""
        self.is_closed = True
        self._listeners.remove(self)
        self.notifier.stop(patience_s=0)

    @property
    def is_idle(self) -> bool:
        """Whether the listener has dealt with all it is to hear of so far."""
        return self._told == self._submitted

    def submit(self, event: CatalogEvent) -> None:
        """Tell the listener, after all that came before. Called by one thread only."""
        self._submitted += 1
        # Whenever the listener comes to it, it may read that version.
        self._listeners.pins.add(event.version)
        self.notifier.submit(partial(self._tell, event))

    def _tell(self, event: CatalogEvent) -> None:
        try:
            if not self.is_closed:
                self.listener(event)
        except Exception:
            self._listeners.failed()
            _logger.exception("a listener failed on %s of version %d", event.type, event.version)
        finally:
            self._listeners.pins.remove(event.version)
            self._told += 1
            if self.is_idle:
                self._listeners.on_idle()


class Listeners:
    """Who listens on one node."""

    def __init__(self, pins: Pins) -> None:
        self.pins = pins
        self._subscriptions: tuple[EventSubscription, ...] = ()
        self._lock = threading.Lock()
        self._is_running = False
        self.failures = 0
        self.on_idle: Callable[[], object] = lambda: None
        """Called whenever a listener has dealt with all that there is."""

    def __bool__(self) -> bool:
        return bool(self._subscriptions)

    @property
    def are_idle(self) -> bool:
        """Whether every listener has dealt with all that it is to hear of so far."""
        return all(subscription.is_idle for subscription in self._subscriptions)

    def start(self) -> None:
        """From now on every listener is told in a thread of its own."""
        with self._lock:
            self._is_running = True
            for subscription in self._subscriptions:
                subscription.notifier.start(_THREAD)

    def stop(self, patience_s: float) -> None:
        """Tell everybody what there is to tell; listeners that take longer than this are left behind."""
        with self._lock:
            self._is_running = False
            subscriptions = self._subscriptions
        end_s = time.monotonic() + patience_s
        for subscription in subscriptions:
            subscription.notifier.stop(max(end_s - time.monotonic(), 0))

    def subscribe(
        self, listener: Listener, types: EventType | Collection[EventType] | None = None
    ) -> EventSubscription:
        """Tell the listener of events of these types, or of one, or of all."""
        wanted = (types,) if isinstance(types, EventType) else types
        subscription = EventSubscription(self, listener, None if wanted is None else frozenset(wanted))
        with self._lock:
            if self._is_running:
                subscription.notifier.start(_THREAD)
            self._subscriptions = (*self._subscriptions, subscription)
        return subscription

    def remove(self, subscription: EventSubscription) -> None:
        """Forget a listener."""
        with self._lock:
            self._subscriptions = tuple(each for each in self._subscriptions if each is not subscription)

    def failed(self) -> None:
        """Count a listener's failure."""
        with self._lock:
            self.failures += 1

    def tell(self, event: CatalogEvent) -> None:
        """Tell everybody whom it concerns."""
        for subscription in self._subscriptions:
            if subscription.wants(event.type):
                subscription.submit(event)

"""Compaction: a snapshot in the place of the oldest versions, only as far as nobody needs them.

The first version that stays is the lowest of: the version active at the low watermark (the earliest time
that anybody may ask for), the versions that readers on this node work with, and the versions that the other
nodes claim. The snapshot is encoded in the thread of the caller, and written by one transaction in which
the claims are looked at once more.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import NamedTuple, Protocol, TypeVar

from hermit.service.clock import HybridTimestamp
from hermit.service.errors import CompactionHeld
from hermit.service.log import SNAPSHOT_VERSION, LogTransaction, UpdateLog
from hermit.service.service import CatalogService
from hermit.service.snapshot import take
from hermit.service.wire.marshaller import UpdateLogMarshaller

T = TypeVar("T")

_ATTEMPTS_MAX = 10


class Compacted(NamedTuple):
    """What a compaction did: the earliest version now, and how many versions were before it."""

    earliest: int
    removed: int


class Node(Protocol):
    """What compaction needs from a node."""

    @property
    def name(self) -> str: ...
    def ask(self, task: Callable[[UpdateLog], T]) -> Future[T]: ...
    def wait_for(self, future: Future[T]) -> T: ...


class Claimed(NamedTuple):
    """How far the log can be compacted, as far as the nodes are concerned."""

    earliest: int
    version: int | None
    node: str | None


def compact(
    node: Node,
    service: CatalogService,
    marshaller: UpdateLogMarshaller,
    low_watermark: HybridTimestamp | None,
) -> Compacted:
    """Compact as far as possible; `CompactionHeld` if that is not at all."""
    for _ in range(_ATTEMPTS_MAX):
        claimed = node.wait_for(node.ask(lambda log: _claims(log, service, node.name)))
        version = _bound(service, claimed, low_watermark)
        snapshot, parts = take(service.catalog_at(version), marshaller.registry)
        data, rest = marshaller.marshal(snapshot), [marshaller.marshal(part) for part in parts]
        try:
            return Compacted(
                version, node.wait_for(node.ask(_writing(service, node.name, version, data, rest)))
            )
        except _ClaimedMeanwhile:
            continue
    raise CompactionHeld("other nodes kept claiming versions", hint="try again later", version=version)


class _ClaimedMeanwhile(Exception):
    """A node joined, or compacted itself, after the snapshot was taken."""


def _writing(
    service: CatalogService, name: str, version: int, data: bytes, parts: list[bytes]
) -> Callable[[UpdateLog], int]:
    """The transaction that puts a snapshot into the log."""

    def check(transaction: LogTransaction) -> None:
        lowest = transaction.readers.lowest(service.clock.physical_ms(), but=name)
        if lowest is not None and lowest[0] < version:
            raise _ClaimedMeanwhile
        if transaction.number(SNAPSHOT_VERSION) >= version:
            raise _ClaimedMeanwhile

    return lambda log: log.save_snapshot(version, data, parts, check)


def _claims(log: UpdateLog, service: CatalogService, name: str) -> Claimed:
    """What the others need. What this node needs itself is known better than from its last claim."""
    contents = log.transact(lambda transaction: (transaction.number(SNAPSHOT_VERSION), transaction.readers))
    earliest, readers = contents
    lowest = readers.lowest(service.clock.physical_ms(), but=name)
    return Claimed(earliest, *(lowest or (None, None)))


def _bound(service: CatalogService, claimed: Claimed, low_watermark: HybridTimestamp | None) -> int:
    """The first version that must stay."""
    reasons = {"there are no later versions": service.catalog_latest().version}
    if low_watermark is not None:
        reasons["the low watermark"] = service.active_at(low_watermark).version
    if (pinned := service.lowest_pinned()) is not None:
        reasons["a reader on this node"] = pinned
    if claimed.version is not None:
        reasons[f"node {claimed.node}"] = claimed.version
    why, version = min(reasons.items(), key=lambda reason: reason[1])
    if version <= claimed.earliest:
        raise CompactionHeld(
            f"the log cannot be compacted beyond version {claimed.earliest}: {why} needs it",
            hint="try again when that has gone on",
            version=claimed.earliest,
        )
    return version

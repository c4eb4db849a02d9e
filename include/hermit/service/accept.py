"""The accept phase, worked out in memory: from a catalog and commands to the updates to append.

Pure: nothing is written here, and asking again with a newer catalog is all that a lost race costs. Each
request becomes at most one version, all of its commands or none. Requests are taken in order, each on top
of the versions of those before it; one that breaks a rule fails alone, and its outcome is told only when
what it was compared with is in the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from hermit.errors import HermitError
from hermit.service.catalog import Catalog
from hermit.service.clock import HybridTimestamp
from hermit.service.commands.base import CatalogCommand
from hermit.service.entries import UpdateEntry
from hermit.service.update import Origin, VersionedUpdate


class Asked(Protocol):
    """What planning needs to know of a request."""

    @property
    def commands(self) -> Sequence[CatalogCommand]: ...

    @property
    def origin(self) -> Origin: ...


R = TypeVar("R", bound=Asked)


@dataclass(frozen=True, slots=True)
class Outcome(Generic[R]):
    """What becomes of one request: an update, an error, or neither when there was nothing to do."""

    request: R
    version: int
    update: VersionedUpdate | None = None
    error: HermitError | None = None


@dataclass(frozen=True, slots=True)
class Plan(Generic[R]):
    """What to append on top of one version, and the catalogs that this gives."""

    base: Catalog
    outcomes: tuple[Outcome[R], ...]
    catalogs: tuple[Catalog, ...]

    @property
    def updates(self) -> list[VersionedUpdate]:
        """The updates, in the order of their versions."""
        return [outcome.update for outcome in self.outcomes if outcome.update is not None]


def plan(base: Catalog, requests: Iterable[R], now: Callable[[], HybridTimestamp]) -> Plan[R]:
    """Work out what becomes of each request. `now` must give timestamps after the base's."""
    tip = base
    outcomes: list[Outcome[R]] = []
    catalogs: list[Catalog] = []
    for request in requests:
        time = now()
        try:
            entries, catalog = expand(tip, request.commands, time)
        except HermitError as error:
            outcomes.append(Outcome(request, tip.version, error=error))
            continue
        if not entries:
            outcomes.append(Outcome(request, tip.version))
            continue
        tip = catalog.at(tip.version + 1, time)
        catalogs.append(tip)
        update = VersionedUpdate(tip.version, time, entries, request.origin)
        outcomes.append(Outcome(request, tip.version, update))
    return Plan(base, tuple(outcomes), tuple(catalogs))


def expand(
    catalog: Catalog, commands: Sequence[CatalogCommand], time: HybridTimestamp
) -> tuple[tuple[UpdateEntry, ...], Catalog]:
    """The entries of some commands, each planned on top of those before it, and what they lead to."""
    entries: list[UpdateEntry] = []
    for command in commands:
        for entry in command.plan(catalog):
            catalog = entry.apply(catalog, time)
            entries.append(entry)
    return tuple(entries), catalog

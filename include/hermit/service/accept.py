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
from hermit.service.errors import CommandFailed, InvalidCommand
from hermit.service.log import Appendable
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
    """What becomes of one request: an update, an error, or neither when there was nothing to do.

    `catalog` is what it leads to, or what it was compared with.
    """

    request: R
    catalog: Catalog
    update: VersionedUpdate | None = None
    data: bytes = b""
    error: HermitError | None = None


@dataclass(frozen=True, slots=True)
class Plan(Generic[R]):
    """What to append on top of one version."""

    outcomes: tuple[Outcome[R], ...]

    @property
    def appends(self) -> list[Appendable]:
        """The updates and their bytes, in the order of their versions."""
        return [Appendable(each.update, each.data) for each in self.outcomes if each.update is not None]


def mistake(commands: Sequence[object]) -> InvalidCommand | None:
    """Why this cannot be executed at all, if so."""
    if not commands:
        return InvalidCommand("there is no command to execute")
    for command in commands:
        if not isinstance(command, CatalogCommand):
            return InvalidCommand(f"{command!r} is no command")
    return None


def plan(
    base: Catalog,
    requests: Iterable[R],
    now: Callable[[], HybridTimestamp],
    encode: Callable[[VersionedUpdate], bytes],
    bytes_max: int,
) -> Plan[R]:
    """Work out what becomes of each request. `now` must give timestamps after the base's.

    Requests that come after so many bytes are left for later.
    """
    tip, size_bytes = base, 0
    outcomes: list[Outcome[R]] = []
    for request in requests:
        if size_bytes >= bytes_max:
            break
        time = now()
        try:
            entries, catalog = expand(tip, request.commands, time)
            if not entries:
                outcomes.append(Outcome(request, tip))
                continue
            update = VersionedUpdate(tip.version + 1, time, entries, request.origin)
            data = encode(update)
        except Exception as error:
            # Whatever is wrong with this request must not become the trouble of the others.
            outcomes.append(Outcome(request, tip, error=_refusal(error)))
            continue
        tip = catalog.at(update.version, time)
        size_bytes += len(data)
        outcomes.append(Outcome(request, tip, update, data))
    return Plan(tuple(outcomes))


def _refusal(error: Exception) -> HermitError:
    if isinstance(error, HermitError):
        return error
    refusal = CommandFailed(f"a command failed: {type(error).__name__}: {error}")
    refusal.__cause__ = error
    return refusal


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

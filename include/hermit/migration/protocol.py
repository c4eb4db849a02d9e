"""The two protocols of the move, as data.

A protocol is a table: from the tombstones of both stores to the store that holds the truth, and for
each direction what is announced, when there is nothing left to do, and which write cuts over. The steps
of a run, the branches of the DAGs, the diagrams and the checker read these tables; none repeats them.

A tombstone is absent, false or true: three different things. The single-tombstone protocol looks at the
stash's alone. A state that a protocol cannot reach is refused and nothing is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from hermit.errors import HermitError, InvalidInput


class Store(StrEnum):
    """The two backends."""

    STASH = "stash"
    PERSIST = "persist"


class Direction(StrEnum):
    """The two moves."""

    MIGRATE = "migrate"
    ROLLBACK = "rollback"

    @property
    def source(self) -> Store:
        return Store.STASH if self is Direction.MIGRATE else Store.PERSIST

    @property
    def target(self) -> Store:
        return Store.PERSIST if self is Direction.MIGRATE else Store.STASH


class Step(StrEnum):
    """What a run does, one small idempotent step after the other."""

    OPEN = "open"
    FENCE_EPOCH = "fence_epoch"
    ANNOUNCE = "announce"
    CHECK_TOMBSTONE = "check_tombstone"
    SNAPSHOT = "snapshot"
    REPLACE = "replace"
    VERIFY = "verify"
    APPROVE = "approve"
    SET_TOMBSTONE = "set_tombstone"


@dataclass(frozen=True)
class Tombstones:
    """What both stores say of themselves."""

    stash: bool | None
    persist: bool | None

    def with_(self, write: TombstoneWrite) -> Tombstones:
        """The pair after a write."""
        if write.store is Store.STASH:
            return Tombstones(write.value, self.persist)
        return Tombstones(self.stash, write.value)

    def __str__(self) -> str:
        return f"stash {_word(self.stash)}, persist {_word(self.persist)}"


@dataclass(frozen=True)
class TombstoneWrite:
    """One tombstone set to one value."""

    store: Store
    value: bool


@dataclass(frozen=True)
class Truth:
    """Where the truth is, and why. `reachable` is false where no step of the protocol leads to."""

    store: Store
    why: str
    reachable: bool = True


@dataclass(frozen=True)
class Plan:
    """One direction of one protocol."""

    announce: TombstoneWrite | None
    cut_over: TombstoneWrite
    cut_over_with_replace: bool
    steps: tuple[Step, ...]

    @property
    def entries(self) -> tuple[Step, ...]:
        """Where a run may enter the row once it has looked at the state: never behind `verify`."""
        return self.steps[self.steps.index(Step.CHECK_TOMBSTONE) + 1 : self.steps.index(Step.VERIFY) + 1]


@dataclass(frozen=True)
class Protocol:
    """A table of states with the truth in each, and a plan per direction."""

    name: str
    number: int
    truths: Mapping[tuple[bool | None, bool | None], Truth]
    plans: Mapping[Direction, Plan]
    watches_persist: bool

    def state(self, tombstones: Tombstones) -> tuple[bool | None, bool | None]:
        """The part of the tombstones that this protocol looks at."""
        return (tombstones.stash, tombstones.persist if self.watches_persist else None)

    def truth(self, tombstones: Tombstones) -> Truth:
        """Where the truth is."""
        return self.truths[self.state(tombstones)]

    def require_reachable(self, tombstones: Tombstones) -> None:
        """Refuse to move anything from a state that the protocol cannot have led to."""
        if not self.truth(tombstones).reachable:
            raise UnreachableState(
                f"the {self.name}-tombstone protocol cannot reach this state: {tombstones}",
                hint="nothing was written; find out who wrote these tombstones before moving anything",
                tombstones=tombstones,
            )

    def is_done(self, direction: Direction, tombstones: Tombstones) -> bool:
        """Whether the truth already is where the move would bring it, after the announcement."""
        return self.truth(tombstones).store is direction.target

    def is_settled(self, tombstones: Tombstones) -> bool:
        """Whether no move is half-way: the truth is where the last announcement points."""
        announced = {True: Store.PERSIST, False: Store.STASH, None: Store.STASH}[tombstones.stash]
        return self.truth(tombstones).store is announced


class UnreachableState(HermitError):
    """The stored tombstones are not a state of the protocol."""

    tombstones: Tombstones


class ProtocolInUse(HermitError):
    """Another protocol is half-way through a move, and must finish before this one may start."""


_BEGIN = (Step.OPEN, Step.FENCE_EPOCH, Step.ANNOUNCE, Step.CHECK_TOMBSTONE, Step.SNAPSHOT)
_MIGRATE_STEPS = (*_BEGIN, Step.REPLACE, Step.VERIFY, Step.APPROVE, Step.SET_TOMBSTONE)
# The way back verifies the side table before it becomes the contents: replacing may be the cut-over.
_ROLLBACK_STEPS = (*_BEGIN, Step.VERIFY, Step.APPROVE, Step.REPLACE, Step.SET_TOMBSTONE)


SINGLE = Protocol(
    name="single",
    number=1,
    watches_persist=False,
    truths={
        (None, None): Truth(Store.STASH, "no migration has ever completed"),
        (True, None): Truth(Store.PERSIST, "a migration completed, and no rollback has since"),
        (False, None): Truth(Store.STASH, "a rollback completed, and no migration has since"),
    },
    plans={
        Direction.MIGRATE: Plan(
            announce=None,
            cut_over=TombstoneWrite(Store.STASH, True),
            cut_over_with_replace=False,
            steps=_MIGRATE_STEPS,
        ),
        Direction.ROLLBACK: Plan(
            announce=None,
            cut_over=TombstoneWrite(Store.STASH, False),
            cut_over_with_replace=True,
            steps=_ROLLBACK_STEPS,
        ),
    },
)

DOUBLE = Protocol(
    name="double",
    number=2,
    watches_persist=True,
    truths={
        (None, None): Truth(Store.STASH, "a migration was never begun"),
        (None, True): Truth(Store.STASH, "a migration was never begun", reachable=False),
        (None, False): Truth(Store.STASH, "a migration was never begun", reachable=False),
        (True, None): Truth(Store.STASH, "a first migration was begun and has not completed"),
        (False, None): Truth(Store.STASH, "a migration has never completed"),
        (True, False): Truth(Store.PERSIST, "a migration completed"),
        (False, True): Truth(Store.STASH, "a rollback completed"),
        (True, True): Truth(Store.STASH, "a migration was begun and has not completed"),
        (False, False): Truth(Store.PERSIST, "a rollback was begun and has not completed"),
    },
    plans={
        Direction.MIGRATE: Plan(
            announce=TombstoneWrite(Store.STASH, True),
            cut_over=TombstoneWrite(Store.PERSIST, False),
            cut_over_with_replace=False,
            steps=_MIGRATE_STEPS,
        ),
        Direction.ROLLBACK: Plan(
            announce=TombstoneWrite(Store.STASH, False),
            cut_over=TombstoneWrite(Store.PERSIST, True),
            cut_over_with_replace=False,
            steps=_ROLLBACK_STEPS,
        ),
    },
)

PROTOCOLS: Mapping[str, Protocol] = {protocol.name: protocol for protocol in (SINGLE, DOUBLE)}


def parse(name: str) -> Protocol:
    """The protocol that a user named."""
    protocol = PROTOCOLS.get(name)
    if protocol is None:
        raise InvalidInput(f"unknown protocol {name!r}", hint=f"choose one of {', '.join(PROTOCOLS)}")
    return protocol


def by_number(number: int | None) -> Protocol:
    """The protocol that a catalog's config names; a catalog that never moved is under the single one."""
    for protocol in PROTOCOLS.values():
        if protocol.number == (number or SINGLE.number):
            return protocol
    raise InvalidInput(f"the catalog's config names protocol {number}, which this release does not know")


def adoption(current: Protocol, wanted: Protocol, tombstones: Tombstones) -> TombstoneWrite | None:
    """The write to persist's tombstone that must come before a catalog changes its protocol.

    Afterwards both tables give the same truth for the stored tombstones, so that recording the new
    protocol, itself one write, moves the truth in no state. Refused while a move is half-way.
    """
    current.require_reachable(tombstones)
    truth = current.truth(tombstones).store
    if not current.is_settled(tombstones):
        raise ProtocolInUse(
            f"a move under the {current.name}-tombstone protocol is half-way ({tombstones})",
            hint=f"finish it with --protocol {current.name} first",
        )
    options = (None, TombstoneWrite(Store.PERSIST, True), TombstoneWrite(Store.PERSIST, False))
    for write in options:
        after = tombstones.with_(write) if write else tombstones
        adopted = wanted.truth(after)
        if adopted.reachable and adopted.store is truth and wanted.is_settled(after):
            return write
    raise UnreachableState(
        f"the {wanted.name}-tombstone protocol cannot take over from this state: {tombstones}",
        hint="nothing was written; find out who wrote these tombstones before moving anything",
        tombstones=tombstones,
    )


def _word(tombstone: bool | None) -> str:
    return {None: "absent", True: "true", False: "false"}[tombstone]

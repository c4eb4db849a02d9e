"""What a run that started now would do, before anybody starts it: the answer to "and if I resume?".

The same tables and the same search for staged batches as in the run itself. Only the fence is missing:
what changes before the run takes it, the run sees and the forecast does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from hermit.migration import reuse
from hermit.migration.protocol import Direction, Protocol, Step, Tombstones

if TYPE_CHECKING:
    from hermit.migration.manifest import Manifest, Manifests
    from hermit.migration.reuse import Reuse
    from hermit.migration.stores import Stores


@dataclass(frozen=True)
class Staged:
    """What is staged for a catalog, as `reuse` asks for it."""

    found: list[Manifest]
    batches: Mapping[str, int]
    """Of files that no commit names, with their bytes."""
    side_tables: set[str]
    live: set[str]
    """Paths of the files that are persist's contents."""

    def manifests(self) -> Manifests:
        """As `Stores` has it."""
        return cast("Manifests", self)

    def all(self) -> list[Manifest]:
        """As `Manifests` has it."""
        return self.found

    def staged_batches(self) -> set[str]:
        """As `Stores` has it."""
        return set(self.batches)

    def sides(self) -> set[str]:
        """As `Stores` has it."""
        return self.side_tables

    def live_files(self, persist: object) -> set[str]:
        """As `Stores` has it."""
        return self.live

    def reusable(self, direction: Direction, source_version: int) -> Reuse | None:
        """The batch that a run of this direction would go on from."""
        return reuse.find(cast("Stores", self), direction, source_version, cast("Any", None))


def forecast(
    protocol: Protocol, tombstones: Tombstones, direction: Direction, reusable: Reuse | None
) -> dict[str, Any]:
    """The steps of a run from here: which would work, which would be passed over, and why."""
    plan = protocol.plans[direction]
    if not protocol.truth(tombstones).reachable:
        why = f"the {protocol.name}-tombstone protocol cannot reach this state: the run refuses it"
        return _answer(direction, "refuse", why, plan.steps, until=Step.OPEN)
    after = tombstones.with_(plan.announce) if plan.announce else tombstones
    if protocol.is_done(direction, after):
        why = f"the truth is {direction.target} already: {protocol.truth(after).why}"
        return _answer(direction, "nothing_to_do", why, plan.steps, until=Step.CHECK_TOMBSTONE)
    if reusable is not None:
        return _answer(direction, reusable.next.value, reusable.reason, plan.steps, enters=reusable.next)
    why = f"nothing that is staged fits: {direction.source} is staged anew"
    return _answer(direction, Step.SNAPSHOT.value, why, plan.steps)


def _answer(
    direction: Direction,
    next_: str,
    reason: str,
    steps: Iterable[Step],
    *,
    until: Step | None = None,
    enters: Step | None = None,
) -> dict[str, Any]:
    listed, works = [], True
    for step in steps:
        if step is Step.APPROVE:
            continue  # Only a run that was asked to waits for a human.
        if enters is not None and step is Step.SNAPSHOT:
            works = False
        if step is enters:
            works = True
        listed.append({"step": step.value, "runs": works})
        if step is until:
            works = False
    return {"direction": direction.value, "next": next_, "reason": reason, "steps": listed}

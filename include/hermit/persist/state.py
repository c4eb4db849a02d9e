"""The state of a location at one version, and how a commit changes it. Pure.

`apply` is the only way from one state to the next, for a writer, for a reader that catches up and for
one that opens. It checks what must hold for every commit whoever wrote it: versions without gaps, each
commit naming the checksum of the one before, frontiers that only move forward with `since <= upper`,
files added once and removed only while they are there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from hermit.errors import InvalidInput
from hermit.persist.commit import Commit, DataFile
from hermit.persist.frontier import ZERO, Frontier


@dataclass(frozen=True)
class State:
    """What a location holds at a version; -1 is a location that does not exist yet."""

    version: int = -1
    frontiers: Mapping[str, Frontier] = field(default_factory=dict)
    checksum: str = ""  # of the commit that led here
    live: Mapping[str, DataFile] = field(default_factory=dict)  # by path
    table_id: str = ""
    encoding: int = 0
    created_ms: int = 0

    def frontier(self, name: str) -> Frontier:
        return self.frontiers.get(name, ZERO)

    def upper(self, name: str) -> int:
        return self.frontier(name).upper

    def since(self, name: str) -> int:
        return self.frontier(name).since

    def files(self, names: Iterable[str] | None = None) -> list[DataFile]:
        """The live files of these collections, or of all."""
        if names is None:
            return list(self.live.values())
        wanted = set(names)
        return [file for file in self.live.values() if file.collection in wanted]


def apply(state: State, commit: Commit, checksum: str) -> State:
    """The state after the next commit. Raises ValueError if it cannot follow this state."""
    if commit.previous != state.checksum:
        raise ValueError("it does not follow the commit before it")
    if (commit.table_id is None) != bool(state.table_id):
        raise ValueError("the location is created once, by its first commit")
    frontiers = commit.frontiers(state.frontiers)
    for name in (*commit.upper, *commit.since):
        _check_forward(name, state.frontier(name), frontiers[name])
    live = dict(state.live)
    for file in commit.removes:
        if live.pop(file.path, None) is None:
            raise ValueError(f"it removes {file.path}, which is not there")
    for file in commit.adds:
        if file.path in live:
            raise ValueError(f"it adds {file.path} twice")
        live[file.path] = file
    return State(
        version=state.version + 1,
        frontiers=frontiers,
        checksum=checksum,
        live=live,
        table_id=commit.table_id or state.table_id,
        encoding=commit.encoding or state.encoding,
        created_ms=commit.timestamp_ms if commit.table_id else state.created_ms,
    )


def _check_forward(name: str, before: Frontier, after: Frontier) -> None:
    if after.upper < before.upper or after.since < before.since:
        raise ValueError(f"it moves a frontier of {name} back from {before} to {after}")
    if after.since > after.upper:
        raise ValueError(f"it moves since of {name} past upper: {after}")


def check_name(name: str) -> str:
    """A collection's name: any text but the empty one, which Delta takes for a missing partition."""
    if not name:
        raise InvalidInput("a collection needs a name")
    if "\x00" in name or not name.isprintable():
        raise InvalidInput(f"a collection's name must be printable: {name!r}", name=name)
    return name

"""The rules of frontiers, checked before anything is written. Pure.

Each breach is an error of its own that carries the collection's frontiers and what was asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hermit.errors import InvalidInput
from hermit.persist.commit import DataFile
from hermit.persist.errors import (
    CommitConflict,
    CompactionBackwards,
    CompactionBeyondUpper,
    ReadBeforeSince,
    ReadBeyondUpper,
    SealBackwards,
    UpperMismatch,
    WriteBehindUpper,
    WriteBeyondUpper,
)
from hermit.persist.frontier import END, Frontier
from hermit.persist.state import State, check_name

Record = tuple[bytes, bytes, int, int]


def append_arguments(
    updates: Mapping[str, Sequence[Record]],
    expected: Mapping[str, int],
    new_upper: Mapping[str, int],
    since: Mapping[str, int],
) -> None:
    """What a compare-and-append needs to be well-formed, before any state is looked at."""
    for name in {*updates, *new_upper, *since}:
        check_name(name)
    for name in {*updates, *new_upper}:
        if name not in expected or name not in new_upper:
            raise InvalidInput(f"collection {name} needs both an expected and a new upper", collection=name)
    for name, upper in new_upper.items():
        seal(name, Frontier(0, expected[name]), upper)
    for name, records in updates.items():
        lower, upper = expected[name], new_upper[name]
        for _, _, time, _ in records:
            within(name, lower, time, upper)


def within(name: str, lower: int, time: int, upper: int) -> None:
    """`lower <= time < upper`."""
    if time < lower:
        raise WriteBehindUpper("a record is behind upper", name, Frontier(0, lower), time)
    if time >= upper:
        raise WriteBeyondUpper("a record is not below the new upper", name, Frontier(0, upper), time)


def batch_times(files: Sequence[DataFile], lower: Mapping[str, int], upper: Mapping[str, int]) -> None:
    """Every file of an appended batch lies between the uppers of its collection."""
    for file in files:
        if file.collection not in lower or file.collection not in upper:
            raise InvalidInput(f"collection {file.collection} of the batch needs an expected and a new upper")
        for time in (file.time_min, file.time_max):
            within(file.collection, lower[file.collection], time, upper[file.collection])


def replace_arguments(
    files: Sequence[DataFile],
    collections: Sequence[str],
    new_upper: Mapping[str, int],
    old_upper: Mapping[str, int],
) -> None:
    """A replacing batch brings rows of time 0 into collections that move on."""
    for file in files:
        if file.collection not in collections:
            raise InvalidInput(f"the batch has rows of {file.collection}, which is not replaced")
        if file.time_max:
            raise InvalidInput(f"rows of a replacing batch have time 0, {file.path} has {file.time_max}")
    for name in collections:
        if new_upper.get(name, 0) <= old_upper[name]:
            raise SealBackwards(
                "a replacement must move upper",
                name,
                Frontier(0, old_upper[name]),
                new_upper.get(name, 0),
            )


def version(state: State, expected: int) -> None:
    """Nobody committed since the version that the caller knows."""
    if state.version != expected:
        raise CommitConflict(
            f"the location is at version {state.version}, not at version {expected}",
            expected=expected,
            current=state.version,
        )


def expected_uppers(state: State, expected: Mapping[str, int]) -> None:
    """Every upper is where the caller believes it to be."""
    for name, upper in expected.items():
        if state.upper(name) != upper:
            raise UpperMismatch("upper is not as expected", name, state.frontier(name), upper)


def seal(name: str, frontier: Frontier, upper: int) -> None:
    """Upper moves forward, at most to the end of time."""
    if upper < frontier.upper:
        raise SealBackwards("upper would move back", name, frontier, upper)
    if upper > END:
        raise InvalidInput(f"upper of {name} would pass the end of time", collection=name)


def sinces(state: State, since: Mapping[str, int], new_upper: Mapping[str, int]) -> None:
    """Every since may move as asked."""
    for name, bound in since.items():
        compaction(name, state.frontier(name), bound, new_upper.get(name, state.upper(name)))


def compaction(name: str, frontier: Frontier, since: int, upper: int) -> None:
    """Since moves forward, at most to upper."""
    if since < frontier.since:
        raise CompactionBackwards("since would move back", name, frontier, since)
    if since > upper:
        raise CompactionBeyondUpper("since would pass upper", name, frontier, since)


def readable(name: str, frontier: Frontier, as_of: int) -> None:
    """The time lies in `[since, upper)`."""
    if as_of < frontier.since:
        raise ReadBeforeSince("the time was compacted away", name, frontier, as_of)
    if as_of >= frontier.upper:
        raise ReadBeyondUpper("the time is not sealed yet", name, frontier, as_of)

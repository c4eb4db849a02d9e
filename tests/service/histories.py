"""What nodes in several processes did, checked against the log.

- Every version is in the log once, and is the same catalog on every node that holds it.
- A change that was acknowledged is in the log, under the version that its client was told; one that was
  refused is not; one whose client never heard of it is there once or not at all.
- The history of changes, refusals and looks at the newest version is linearizable.
- Whoever reads the present after somebody was told of a version sees it, or is told that it cannot answer.
- What was read for a time that was waited for is what was active then, in the end.
- Listeners heard of every version, in order, without a gap unless they were told of that.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right

from hermit.errors import HermitError
from hermit.service.accept import expand
from hermit.service.catalog import Catalog
from hermit.service.entries import NewSchemaEntry
from hermit.service.log import LogContents
from hermit.service.manager import CatalogManager
from hermit.service.update import NOBODY, VersionedUpdate
from tests.service.linearizable import Operation, violations
from tests.service.processes import Node, Processes, Record
from tests.service.worker import build, fingerprint

_NOT_WRITTEN = {"NotAccepted", "TooManyConflicts", "Stopped"}


def check(nodes: Processes, late: CatalogManager, contents: LogContents) -> None:
    """Check everything that the nodes wrote down."""
    updates = list(contents.updates(0))
    catalogs = _replayed(updates)
    records = [record for node in nodes.everyone for record in node.records()]
    _check_versions(nodes, late, catalogs)
    _check_linearizable(records, updates, catalogs)
    _check_present(records)
    _check_final(records, catalogs)
    for node in nodes.everyone:
        _check_events(node)


def _replayed(updates: list[VersionedUpdate]) -> list[Catalog]:
    """Every version, from the log alone."""
    catalogs = [Catalog()]
    for update in updates:
        assert update.version == catalogs[-1].version + 1
        assert update.time > catalogs[-1].time
        catalogs.append(update.apply(catalogs[-1]))
    origins = [update.origin for update in updates]
    assert len(set(origins)) == len(origins), "a command is in the log twice"
    assert NOBODY not in origins
    return catalogs


def _check_versions(nodes: Processes, late: CatalogManager, catalogs: list[Catalog]) -> None:
    digests = [fingerprint(catalog) for catalog in catalogs]
    for version in range(late.earliest_version, len(catalogs)):
        assert fingerprint(late.catalog_at(version)) == digests[version]
    for node in nodes.alive:
        found = {each["version"]: each["digest"] for each in node.records() if each["kind"] == "state"}
        assert max(found) == len(catalogs) - 1
        assert sorted(found) == list(range(min(found), max(found) + 1))
        assert all(digests[version] == digest for version, digest in found.items())


def _check_linearizable(
    records: list[Record], updates: list[VersionedUpdate], catalogs: list[Catalog]
) -> None:
    # The first version is the beginning of every catalog, and nobody's.
    made = {_marker(update): update for update in updates[1:]}
    assert len(made) == len(updates) - 1
    told = {each["id"]: each for each in records if each["kind"] in ("ok", "seen", "refused", "failed")}
    asked = {each["id"]: each for each in records if each["kind"] == "invoke"}
    assert made.keys() <= asked.keys()
    operations = [
        operation
        for id_, record in asked.items()
        if (operation := _operation(id_, record, told.get(id_), made.get(id_), catalogs)) is not None
    ]
    assert sum(operation.version is not None for operation in operations) == len(made)
    assert violations(operations, len(catalogs) - 1) == []


def _marker(update: VersionedUpdate) -> str:
    """Which command a version is: each makes a schema that is named after it."""
    names = [entry.descriptor.name for entry in update.entries if isinstance(entry, NewSchemaEntry)]
    (found,) = [name for name in names if "-" in name]
    return found


def _operation(
    id_: str, asked: Record, told: Record | None, made: VersionedUpdate | None, catalogs: list[Catalog]
) -> Operation | None:
    if made is not None:
        _check_effect(asked, made, catalogs[made.version - 1])
        if told is None or told["kind"] == "failed":
            assert told is None or told["error"] not in _NOT_WRITTEN, f"{id_} is in the log: {told}"
            return Operation(id_, asked["at"], version=made.version)
        assert told["kind"] == "ok"
        assert told["version"] == made.version
        return Operation(id_, asked["at"], told["at"], version=made.version)
    if told is None or told["kind"] == "failed":
        assert told is None or told["error"] != "AppliedHereOnly"
        return None
    assert told["kind"] != "ok", f"{id_} was acknowledged and is not in the log"
    if told["kind"] == "seen":
        seen: int = told["version"]
        return Operation(id_, asked["at"], told["at"], is_right_at=lambda version: version == seen)
    return Operation(
        id_, asked["at"], told["at"], is_right_at=lambda version: _refusal(told, catalogs[version]) is True
    )


def _check_effect(asked: Record, made: VersionedUpdate, before: Catalog) -> None:
    """A version holds exactly what its commands make of the version before."""
    entries, _ = expand(before, build(asked["commands"]), made.time)
    assert entries == made.entries


def _refusal(told: Record, catalog: Catalog) -> bool:
    """Whether the same commands are refused for the same reason at a version."""
    try:
        expand(catalog, build(told["commands"]), catalog.time)
    except HermitError as error:
        return type(error).__name__ == told["error"]
    return False


def _check_present(records: list[Record]) -> None:
    """The present holds whatever anybody was told of before."""
    moments = [(each["at"], 0, each["version"]) for each in records if each["kind"] == "ok"]
    moments += [(each["begun"], 1, each["version"]) for each in records if each["kind"] == "read"]
    assert any(what for _, what, _ in moments)
    highest = 0
    for _, is_read, version in sorted(moments):
        if is_read:
            assert version >= highest, f"the present was version {version} after {highest} was told"
        else:
            highest = max(highest, version)


def _check_final(records: list[Record], catalogs: list[Catalog]) -> None:
    times = [catalog.time for catalog in catalogs]
    for record in records:
        if record["kind"] == "final":
            assert record["version"] == bisect_right(times, record["time"]) - 1


def _check_events(node: Node) -> None:
    """Every version since the start, in order; a node that was killed heard of them up to its end."""
    events = [(each["version"], each["type"]) for each in node.records() if each["kind"] == "event"]
    for (before, _), (version, type_) in itertools.pairwise(events):
        assert version > before if type_ == "versions_skipped" else version in (before, before + 1)

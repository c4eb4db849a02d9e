"""The parts of a staged snapshot: what each partition left, and which of them the next attempt can use.

Before anything is staged, the driver puts its plan on the shelf: the version of the contents, where the
source's rows lie, and the partitions. A partition that is complete puts a note beside it, as its last act. An
attempt that finds a plan for the same contents, lying in the same place, takes over its partitions and does
those that have no note. Otherwise it forgets everything and starts over.

Why equal versions are enough, although rows are cut by their place in the heap: nothing moves a row of
the stash without a write that raises the version, except consolidation, and that only touches rows while
some diff is not +1, of which there is none once a snapshot was exported; and a rewrite of the whole table,
which gives it another file (`Export.identity`). On the way back the partitions are files, which never change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hermit.digest import Digest
from hermit.migration.failpoints import fail_point
from hermit.migration.shelf import Shelf

_PLAN, _PART = "plan", "part"


@dataclass(frozen=True)
class Part:
    """What one partition staged."""

    files: list[dict[str, Any]]
    read: dict[str, Digest]
    staged: dict[str, Digest]
    rows: int
    bytes: int
    reused: int = 0
    """How many of the rows an earlier attempt had staged."""

    def to_json(self) -> dict[str, Any]:
        return {
            "files": self.files,
            "read": {name: str(digest) for name, digest in self.read.items()},
            "rows": self.rows,
            "bytes": self.bytes,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Part:
        read = {name: Digest.parse(text) for name, text in data["read"].items()}
        return cls(data["files"], read, {}, data["rows"], data["bytes"])


def merge(parts: Iterable[Part]) -> Part:
    """All partitions together."""
    files: list[dict[str, Any]] = []
    read: dict[str, Digest] = {}
    staged: dict[str, Digest] = {}
    rows = size = reused = 0
    for part in parts:
        files += part.files
        rows += part.rows
        size += part.bytes
        reused += part.reused
        for into, digests in ((read, part.read), (staged, part.staged)):
            for name, digest in digests.items():
                into[name] = into.get(name, Digest()) + digest
    return Part(files, read, staged, rows, size, reused)


@dataclass(frozen=True)
class Plan:
    """How a snapshot is cut into partitions. `partitions` maps a name to what a task needs to know."""

    direction: str
    version: int
    identity: str
    rows_total: int
    partitions: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        return {
            "direction": self.direction,
            "version": self.version,
            "identity": self.identity,
            "rows_total": self.rows_total,
            "partitions": dict(self.partitions),
        }


def take_over(shelf: Shelf, batch: str, plan: Plan) -> Plan | None:
    """The plan of an earlier attempt at this batch, if it cuts the same contents; None: start over."""
    note = shelf.get(f"{batch}/{_PLAN}")
    if note is None:
        return None
    same = all(note.get(name) == getattr(plan, name) for name in ("direction", "version", "identity"))
    return Plan(**note) if same else None


def begin(shelf: Shelf, batch: str, plan: Plan) -> None:
    """Put a plan on the shelf, in place of whatever was known of the batch."""
    shelf.clear(batch)
    shelf.put(f"{batch}/{_PLAN}", plan.to_json())


def find_unfinished(shelf: Shelf, direction: str, version: int) -> str | None:
    """The batch whose plan cuts these contents, with the most parts done."""
    names = shelf.names()
    best: tuple[int, str] | None = None
    for name in names:
        batch, slash, rest = name.partition("/")
        if slash and rest == _PLAN and batch not in names:
            note = shelf.get(name) or {}
            if (note.get("direction"), note.get("version")) == (direction, version):
                done = sum(other.startswith(f"{batch}/{_PART}/") for other in names)
                best = max(best or (-1, ""), (done, batch))
    return best[1] if best else None


def leave(shelf: Shelf, batch: str, partition: str, part: Part) -> None:
    """The last act of a partition: what it staged is durable."""
    fail_point("snapshot.part")
    shelf.put(f"{batch}/{_PART}/{partition}", part.to_json())


def finished(shelf: Shelf, batch: str, partitions: Iterable[str]) -> dict[str, Part]:
    """The parts that earlier attempts left."""
    found: dict[str, Part] = {}
    for partition in partitions:
        note = shelf.get(f"{batch}/{_PART}/{partition}")
        if note is not None:
            found[partition] = Part.from_json(note)
    return found

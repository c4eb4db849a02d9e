"""One commit of a location: what it says, as Delta actions, and the checksums in it.

A commit is a Delta log entry: files added and removed, frontiers moved (as `txn` actions), and a
`commitInfo` that says who wrote it. It carries a checksum over all its own bytes and the checksum of the
commit before it, so that a flipped or cut byte, and a commit from another history, are recognised. The
checksum of every file that it adds is part of the file's name.

Rendering and parsing are pure. Delta ignores the fields that are ours.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import xxhash

from hermit import __version__
from hermit.persist.frontier import (
    Frontier,
    frontier_from_long,
    frontier_to_long,
    time_from_long,
    time_to_long,
)

ENCODING_VERSION = 1
ENCODING = "hermit/encoding"  # the `txn` action that says how a location is written
_HEAD = b'{"commitInfo":{"checksum":"'
_WIDTH = 32
# How long checkpoints keep tombstones of removed files, and how far back Spark travels in time. With Delta's
# own week, checkpoints would grow with every commit of the past days.
TOMBSTONE_MS = 3600 * 1000
CONFIGURATION = {"delta.deletedFileRetentionDuration": "interval 1 hour"}
SCHEMA = json.dumps(
    {
        "type": "struct",
        "fields": [
            {"name": name, "type": kind, "nullable": True, "metadata": {}}
            for name, kind in (
                ("collection", "string"),
                ("key", "binary"),
                ("value", "binary"),
                ("time", "long"),
                ("diff", "long"),
            )
        ],
    },
    separators=(",", ":"),
)
# `json.dumps` would make one for every line of a commit.
_ENCODER = json.JSONEncoder(separators=(",", ":"))
_FILE_NAME = re.compile(r"([0-9a-f]{32})\.parquet$")


def checksum(data: Any) -> str:
    """The checksum of everything that persist stores: XXH3, 128 bits, as hex."""
    return xxhash.xxh3_128_hexdigest(data)


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file with updates of one collection. The path is relative to the location."""

    path: str
    collection: str
    rows: int
    bytes: int
    time_min: int = 0
    time_max: int = 0
    diff_min: int = 1
    diff_max: int = 1

    @property
    def checksum(self) -> str:
        """The checksum of the whole file, which its name carries."""
        found = _FILE_NAME.search(self.path)
        return found[1] if found else ""

    @property
    def batch(self) -> str:
        """What was written together: rows of one batch are distinct."""
        folder, _, name = self.path.rpartition("/")
        return name.partition("-")[0] if folder == "data" else folder

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> DataFile:
        return cls(**{name: fields[name] for name in cls.__slots__})

    def stats(self) -> str:
        """Delta's statistics. Bounds of times that a signed long orders differently are left out."""
        low, high = time_to_long(self.time_min), time_to_long(self.time_max)
        bounds: dict[str, Any] = {"numRecords": self.rows}
        ordered = low <= high and (low >= 0) == (high >= 0)
        bounds["minValues"] = {"time": low, "diff": self.diff_min} if ordered else {"diff": self.diff_min}
        bounds["maxValues"] = {"time": high, "diff": self.diff_max} if ordered else {"diff": self.diff_max}
        bounds["nullCount"] = dict.fromkeys(("key", "value", "time", "diff"), 0)
        return _dump(bounds)

    @classmethod
    def from_add(cls, add: Mapping[str, Any]) -> DataFile:
        stats = json.loads(add["stats"])
        low, high = stats["minValues"], stats["maxValues"]
        return cls(
            path=add["path"],
            collection=add["partitionValues"]["collection"],
            rows=stats["numRecords"],
            bytes=add["size"],
            time_min=time_from_long(low["time"]) if "time" in low else 0,
            time_max=time_from_long(high["time"]) if "time" in high else time_from_long(-1),
            diff_min=low["diff"],
            diff_max=high["diff"],
        )


StagedFile = DataFile


@dataclass(frozen=True)
class Commit:
    """What one commit changes. `since` and `upper` hold the frontiers that it moves."""

    previous: str
    timestamp_ms: int
    operation: str = "WRITE"
    adds: tuple[DataFile, ...] = ()
    removes: tuple[DataFile, ...] = ()
    since: Mapping[str, int] = field(default_factory=dict)
    upper: Mapping[str, int] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    data_change: bool = True
    table_id: str | None = None
    encoding: int | None = None
    id: str = field(default_factory=lambda: uuid.uuid4().hex)

    def transactions(self) -> Iterator[tuple[str, int]]:
        """The `txn` actions: application and version."""
        if self.encoding is not None:
            yield ENCODING, self.encoding
        for kind, moved in (("upper", self.upper), ("since", self.since)):
            for name, frontier in moved.items():
                yield f"{name}/{kind}", frontier_to_long(frontier)

    def frontiers(self, before: Mapping[str, Frontier]) -> dict[str, Frontier]:
        """The frontiers after this commit."""
        after = dict(before)
        for name, upper in self.upper.items():
            after[name] = Frontier(after.get(name, Frontier()).since, upper)
        for name, since in self.since.items():
            after[name] = Frontier(since, after.get(name, Frontier()).upper)
        return after


def add_action(file: DataFile, timestamp_ms: int, data_change: bool = True) -> dict[str, Any]:
    """Delta's action for a file that belongs to the contents."""
    return {
        "path": file.path,
        "partitionValues": {"collection": file.collection},
        "size": file.bytes,
        "modificationTime": timestamp_ms,
        "dataChange": data_change,
        "stats": file.stats(),
    }


def remove_action(file: DataFile, timestamp_ms: int, data_change: bool = True) -> dict[str, Any]:
    """Delta's action for a file that no longer does."""
    return {
        "path": file.path,
        "deletionTimestamp": timestamp_ms,
        "dataChange": data_change,
        "extendedFileMetadata": True,
        "partitionValues": {"collection": file.collection},
        "size": file.bytes,
    }


def protocol_action() -> dict[str, Any]:
    """The plainest protocol: every reader of Delta knows it."""
    return {"minReaderVersion": 1, "minWriterVersion": 2}


def metadata_action(table_id: str, created_ms: int) -> dict[str, Any]:
    """The table's schema and partitioning."""
    return {
        "id": table_id,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": SCHEMA,
        "partitionColumns": ["collection"],
        "createdTime": created_ms,
        "configuration": dict(CONFIGURATION),
    }


def hermit_info(commit: Commit) -> dict[str, Any]:
    """What is ours in a `commitInfo`."""
    return {"id": commit.id, "previous": commit.previous, "metadata": dict(commit.metadata)}


def render(commit: Commit, version: int) -> tuple[bytes, str]:
    """The bytes of the log entry and the checksum in them."""
    info = {
        "timestamp": commit.timestamp_ms,
        "operation": commit.operation,
        "operationParameters": {},
        "readVersion": version - 1,
        "isBlindAppend": False,
        "engineInfo": f"hermit/{__version__}",
        "hermit": hermit_info(commit),
    }
    lines = "".join(line + "\n" for line in _lines(commit))
    rest = f'",{_dump(info)[1:]}}}\n{lines}'.encode()  # goes on after the checksum, which stands first
    digest = checksum(_HEAD + rest)
    return _HEAD + digest.encode() + rest, digest


def meaning(commit: Commit) -> str:
    """A checksum of what a commit says, for stores that spell commits in their own way."""
    fields = {
        "info": hermit_info(commit),
        "timestamp": commit.timestamp_ms,
        "operation": commit.operation,
        "data_change": commit.data_change,
        "adds": {file.path: file.to_json() for file in commit.adds},
        "removes": sorted([file.path, file.collection, file.bytes] for file in commit.removes),
        "moved": sorted(commit.transactions()),
        "creates": commit.table_id is not None,
    }
    return checksum(json.dumps(fields, sort_keys=True).encode())


def _lines(commit: Commit) -> Iterator[str]:
    """The actions after `commitInfo`, one per line."""
    at = commit.timestamp_ms
    if commit.table_id is not None:
        yield _dump({"protocol": protocol_action()})
        yield _dump({"metaData": metadata_action(commit.table_id, at)})
    for application, version in commit.transactions():
        # There are dozens of these in a commit of the catalog: the encoder would cost more than the rest.
        name = json.encoder.encode_basestring_ascii(application)
        yield f'{{"txn":{{"appId":{name},"version":{version},"lastUpdated":{at}}}}}'
    for file in commit.removes:
        yield _dump({"remove": remove_action(file, at, commit.data_change)})
    for file in commit.adds:
        yield _dump({"add": add_action(file, at, commit.data_change)})


def parse(raw: bytes) -> tuple[Commit, str]:
    """The commit in these bytes and its checksum. Raises ValueError when they are not what was written."""
    stored = raw[len(_HEAD) : len(_HEAD) + _WIDTH]
    if not raw.startswith(_HEAD):
        raise ValueError("not a commit of hermit")
    if checksum(_HEAD + raw[len(_HEAD) + _WIDTH :]) != stored.decode("ascii", "replace"):
        raise ValueError("its checksum does not fit")
    # One call for all lines; a line break cannot stand inside a JSON string.
    return commit_of(json.loads(b"[" + raw.rstrip().replace(b"\n", b",") + b"]")), stored.decode()


def commit_of(actions: list[dict[str, Any]]) -> Commit:
    """The commit that a list of Delta actions describes."""
    found: dict[str, list[dict[str, Any]]] = {}
    for action in actions:
        for kind, body in action.items():
            found.setdefault(kind, []).append(body)
    info = found["commitInfo"][0]
    ours = info["hermit"]
    moved: dict[str, dict[str, int]] = {"since": {}, "upper": {}}
    encoding = None
    for txn in found.get("txn", ()):
        if txn["appId"] == ENCODING:
            encoding = txn["version"]
            continue
        name, _, kind = txn["appId"].rpartition("/")
        moved[kind][name] = frontier_from_long(txn["version"])
    table = found.get("metaData", [None])[0]
    changed = [*found.get("add", ()), *found.get("remove", ())]
    return Commit(
        previous=ours["previous"],
        timestamp_ms=ours.get("timestamp", info["timestamp"]),
        operation=ours.get("operation", info["operation"]),
        adds=tuple(DataFile.from_add(add) for add in found.get("add", ())),
        removes=tuple(_removed(remove) for remove in found.get("remove", ())),
        since=moved["since"],
        upper=moved["upper"],
        metadata=ours["metadata"],
        data_change=all(action["dataChange"] for action in changed),
        table_id=table["id"] if table else None,
        encoding=encoding,
        id=ours["id"],
    )


def _removed(remove: Mapping[str, Any]) -> DataFile:
    collection = (remove.get("partitionValues") or {}).get("collection", "")
    return DataFile(remove["path"], collection, 0, remove.get("size") or 0)


def _dump(value: Any) -> str:
    return _ENCODER.encode(value)

"""Checkpoints: the whole state at a version, so that opening costs the same after a million commits.

A checkpoint is Delta's own: a Parquet file of actions beside the log, named by `_last_checkpoint`, so
that Spark and plain `deltalake` open quickly too. Ours is the same file. `_last_checkpoint` carries, in
the tags that Delta leaves to writers, a checksum of the file, the checksum of the commit that it
stands for, and one of itself. Anybody may write a checkpoint at any time; two who write the same one agree.

Delta wants a checkpoint to keep the tombstones of removed files until they expire. Ours expire at once
(`delta.deletedFileRetentionDuration` is 0): otherwise a checkpoint would grow with every commit of the past
days. Vacuum, which is ours alone, learns from the log which files older readers may still need.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hermit.persist import commit as commits
from hermit.persist.commit import DataFile, checksum
from hermit.persist.errors import corrupt
from hermit.persist.frontier import Frontier, frontier_from_long, frontier_to_long
from hermit.persist.state import State
from hermit.persist.storage.abc import Storage

POINTER = "_delta_log/_last_checkpoint"

_STRINGS = pa.map_(pa.string(), pa.string())
_SCHEMA = pa.schema(
    [
        ("txn", pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())])),
        (
            "add",
            pa.struct(
                [
                    ("path", pa.string()),
                    ("partitionValues", _STRINGS),
                    ("size", pa.int64()),
                    ("modificationTime", pa.int64()),
                    ("dataChange", pa.bool_()),
                    ("stats", pa.string()),
                ]
            ),
        ),
        (
            "metaData",
            pa.struct(
                [
                    ("id", pa.string()),
                    ("format", pa.struct([("provider", pa.string()), ("options", _STRINGS)])),
                    ("schemaString", pa.string()),
                    ("partitionColumns", pa.list_(pa.string())),
                    ("createdTime", pa.int64()),
                    ("configuration", _STRINGS),
                ]
            ),
        ),
        ("protocol", pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32())])),
    ]
)


def checkpoint_key(version: int) -> str:
    """The name that Delta gives to a checkpoint."""
    return f"_delta_log/{version:020d}.checkpoint.parquet"


def write(storage: Storage, state: State) -> bool:
    """Write the checkpoint of a state. False if another one is there with other bytes."""
    actions = list(_actions(state))
    sink = pa.BufferOutputStream()
    pq.write_table(
        pa.Table.from_pylist(actions, _SCHEMA), sink, compression="snappy", write_page_checksum=True
    )
    data = sink.getvalue().to_pybytes()
    key = checkpoint_key(state.version)
    if not storage.blob.put_if_absent(key, data) and storage.blob.get(key) != data:
        return False
    storage.blob.replace(POINTER, _pointer(state, data, len(actions)))
    return True


def read(storage: Storage) -> State | None:
    """The state of the last checkpoint, or None if there is none."""
    for _ in range(3):  # a newer checkpoint may take the place of the one that the pointer named
        raw = storage.blob.get(POINTER)
        if raw is None:
            return None
        pointer = _parse_pointer(storage.location, raw)
        key = checkpoint_key(pointer["version"])
        data = storage.blob.get(key)
        if data is not None:
            return _parse(storage.location, key, pointer, data)
    raise corrupt(storage.location, key, "the file is missing")


def _pointer(state: State, data: bytes, size: int) -> bytes:
    fields: dict[str, Any] = {
        "version": state.version,
        "size": size,
        "sizeInBytes": len(data),
        "numOfAddFiles": len(state.live),
        "tags": {"hermit.file": checksum(data), "hermit.commit": state.checksum},
    }
    fields["tags"]["hermit.self"] = checksum(_dump(fields))
    return _dump(fields)


def _parse_pointer(location: str, raw: bytes) -> dict[str, Any]:
    try:
        fields: dict[str, Any] = json.loads(raw)
        stored = fields["tags"].pop("hermit.self")
        fits = checksum(_dump(fields)) == stored
        fields["tags"]["hermit.self"] = stored
        if fits and _dump(fields) == raw:
            return fields
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise corrupt(location, POINTER, str(error)) from error
    raise corrupt(location, POINTER, "its checksum does not fit")


def _parse(location: str, key: str, pointer: dict[str, Any], data: bytes) -> State:
    if checksum(data) != pointer["tags"]["hermit.file"]:
        raise corrupt(location, key, "its checksum does not fit")
    frontiers: dict[str, dict[str, int]] = {}
    live: dict[str, DataFile] = {}
    table: dict[str, Any] = {}
    encoding = 0
    for row in pq.ParquetFile(pa.BufferReader(data)).read().to_pylist(maps_as_pydicts="strict"):
        if row["txn"]:
            if row["txn"]["appId"] == commits.ENCODING:
                encoding = row["txn"]["version"]
                continue
            name, _, kind = row["txn"]["appId"].rpartition("/")
            frontiers.setdefault(name, {})[kind] = frontier_from_long(row["txn"]["version"])
        elif row["add"]:
            live[row["add"]["path"]] = DataFile.from_add(row["add"])
        elif row["metaData"]:
            table = row["metaData"]
    return State(
        version=pointer["version"],
        frontiers={name: Frontier(**bounds) for name, bounds in frontiers.items()},
        checksum=pointer["tags"]["hermit.commit"],
        live=live,
        table_id=table["id"],
        encoding=encoding,
        created_ms=table["createdTime"],
    )


def _actions(state: State) -> Iterator[dict[str, Any]]:
    """The actions of a state in an order that depends on nothing else."""
    yield {"protocol": commits.protocol_action()}
    yield {"metaData": commits.metadata_action(state.table_id, state.created_ms)}
    yield {"txn": {"appId": commits.ENCODING, "version": state.encoding, "lastUpdated": state.created_ms}}
    for name, frontier in sorted(state.frontiers.items()):
        for kind, bound in (("since", frontier.since), ("upper", frontier.upper)):
            if bound:
                stored = frontier_to_long(bound)
                yield {"txn": {"appId": f"{name}/{kind}", "version": stored, "lastUpdated": state.created_ms}}
    for _, file in sorted(state.live.items()):
        yield {"add": commits.add_action(file, state.created_ms, False)}


def _dump(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":"), sort_keys=True).encode()

"""Checkpoints: the whole state at a version, so that opening costs the same after a million commits.

A checkpoint is Delta's own: a Parquet file of actions beside the log, named by `_last_checkpoint`, so
that Spark and plain `deltalake` open quickly too. Ours is the same file. `_last_checkpoint` carries, in
the tags that Delta leaves to writers, a checksum of the file, the checksum of the commit that it
stands for, and one of itself. Anybody may write a checkpoint at any time; two who write the same one agree.

Delta wants a checkpoint to keep the tombstones of removed files until they expire, an hour after their
removal here. They come from the checkpoint before and the commits since. Opening does not look at them, and
vacuum, which is ours alone, learns from the log which files older readers may still need.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hermit.persist import arrays
from hermit.persist import commit as commits
from hermit.persist.commit import DataFile, checksum
from hermit.persist.errors import corrupt
from hermit.persist.failpoints import fail_point
from hermit.persist.frontier import Frontier, frontier_from_long, frontier_to_long
from hermit.persist.state import State
from hermit.persist.storage.abc import Storage

POINTER = "_delta_log/_last_checkpoint"
TOMBSTONES_MAX = 1000  # an hour of many commits would otherwise make each checkpoint larger than the last
RemovedIn: TypeAlias = Callable[[int], tuple[int, Sequence[DataFile]]]


def checkpoint_key(version: int) -> str:
    """The name that Delta gives to a checkpoint."""
    return f"_delta_log/{version:020d}.checkpoint.parquet"


def write(storage: Storage, state: State, removed_in: RemovedIn) -> bool:
    """Write the checkpoint of a state. False if another one is there with other bytes.

    `removed_in` gives, for a version, when it was committed and which files it removed.
    """
    table = _table(state, _tombstones(storage, state, removed_in))
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="snappy", write_page_checksum=True)
    data = sink.getvalue().to_pybytes()
    key = checkpoint_key(state.version)
    if not storage.blob.put_if_absent(key, data) and storage.blob.get(key) != data:
        return False
    fail_point("checkpoint.file")
    storage.blob.replace(POINTER, _pointer(state, data, table.num_rows))
    fail_point("checkpoint.pointer")
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
    encoding = 0
    actions = _read_actions(data, ["txn", "add", "metaData"])
    for txn in actions["txn"]:
        if txn["appId"] == commits.ENCODING:
            encoding = txn["version"]
            continue
        name, _, kind = txn["appId"].rpartition("/")
        frontiers.setdefault(name, {})[kind] = frontier_from_long(txn["version"])
    for add in actions["add"]:
        live[add["path"]] = DataFile.from_add(add)
    (table,) = actions["metaData"]
    return State(
        version=pointer["version"],
        frontiers={name: Frontier(**bounds) for name, bounds in frontiers.items()},
        checksum=pointer["tags"]["hermit.commit"],
        live=live,
        table_id=table["id"],
        encoding=encoding,
        created_ms=table["createdTime"],
    )


def _read_actions(data: bytes, kinds: list[str]) -> dict[str, list[dict[str, Any]]]:
    """The actions of these kinds. Rows of other kinds, tombstones above all, cost nothing."""
    table = pq.ParquetFile(pa.BufferReader(data)).read(kinds)
    return {
        kind: table[kind].filter(table[kind].is_valid()).to_pylist(maps_as_pydicts="strict") for kind in kinds
    }


def _tombstones(storage: Storage, state: State, removed_in: RemovedIn) -> pa.Array:
    """What was removed within the last hour before this state, the latest of it: `remove` actions."""
    committed_ms, _ = removed_in(state.version)
    cutoff_ms = committed_ms - commits.TOMBSTONE_MS
    before, kept = _tombstones_before(storage, cutoff_ms)
    found: list[tuple[DataFile, int]] = []
    for version in range(state.version, before, -1):
        committed_ms, files = removed_in(version)
        if committed_ms < cutoff_ms:
            break
        found += [(file, committed_ms) for file in files]
    found.sort(key=lambda removal: removal[0].path)
    new = _struct(
        path=arrays.strings(file.path for file, _ in found),
        deletionTimestamp=arrays.longs(at_ms for _, at_ms in found),
        dataChange=arrays.repeated(False, pa.bool_(), len(found)),
        extendedFileMetadata=arrays.repeated(True, pa.bool_(), len(found)),
        partitionValues=arrays.maps([{"collection": file.collection} for file, _ in found]),
        size=arrays.longs(file.bytes for file, _ in found),
    )
    together = new if kept is None else pa.concat_arrays([kept.cast(new.type), new])
    return together[max(len(together) - TOMBSTONES_MAX, 0) :]


def _tombstones_before(storage: Storage, cutoff_ms: int) -> tuple[int, pa.Array | None]:
    """Those of the last checkpoint that have not expired, and its version."""
    raw = storage.blob.get(POINTER)
    if raw is None:
        return -1, None
    pointer = _parse_pointer(storage.location, raw)
    data = storage.blob.get(checkpoint_key(pointer["version"]))
    if data is None or checksum(data) != pointer["tags"]["hermit.file"]:
        return -1, None
    column = pq.ParquetFile(pa.BufferReader(data)).read(["remove"])["remove"].combine_chunks()
    column = column.filter(column.is_valid())
    since = arrays.longs([cutoff_ms])[0]
    return pointer["version"], column.filter(pc.greater_equal(column.field("deletionTimestamp"), since))


def _table(state: State, tombstones: pa.Array) -> pa.Table:
    """Delta's table of actions, in an order that depends on nothing but the state. One kind in each row."""
    columns = {
        "protocol": _protocol(),
        "metaData": _metadata(state),
        "txn": _transactions(state),
        "remove": tombstones,
        "add": _adds(state),
    }
    total = sum(len(rows) for rows in columns.values())
    before = 0
    for name, rows in columns.items():
        after = total - before - len(rows)
        columns[name] = pa.concat_arrays([pa.nulls(before, rows.type), rows, pa.nulls(after, rows.type)])
        before = total - after
    return pa.table(list(columns.values()), names=list(columns))


def _struct(**fields: pa.Array) -> pa.Array:
    return pa.StructArray.from_arrays(list(fields.values()), names=list(fields))


def _protocol() -> pa.Array:
    fields = commits.protocol_action()
    return _struct(**{name: arrays.repeated(version, pa.int32(), 1) for name, version in fields.items()})


def _metadata(state: State) -> pa.Array:
    fields = commits.metadata_action(state.table_id, state.created_ms)
    columns = arrays.strings(fields["partitionColumns"])
    offsets = pa.concat_arrays([arrays.repeated(at, pa.int32(), 1) for at in (0, len(columns))])
    return _struct(
        id=arrays.strings([fields["id"]]),
        format=_struct(
            provider=arrays.strings([fields["format"]["provider"]]),
            options=arrays.maps([fields["format"]["options"]]),
        ),
        schemaString=arrays.strings([fields["schemaString"]]),
        partitionColumns=pa.ListArray.from_arrays(offsets, columns),
        createdTime=arrays.longs([fields["createdTime"]]),
        configuration=arrays.maps([fields["configuration"]]),
    )


def _transactions(state: State) -> pa.Array:
    moved = {commits.ENCODING: state.encoding}
    for name, frontier in sorted(state.frontiers.items()):
        for kind, bound in (("since", frontier.since), ("upper", frontier.upper)):
            if bound:
                moved[f"{name}/{kind}"] = frontier_to_long(bound)
    return _struct(
        appId=arrays.strings(moved),
        version=arrays.longs(moved.values()),
        lastUpdated=arrays.repeated(state.created_ms, pa.int64(), len(moved)),
    )


def _adds(state: State) -> pa.Array:
    files = [file for _, file in sorted(state.live.items())]
    return _struct(
        path=arrays.strings(file.path for file in files),
        partitionValues=arrays.maps([{"collection": file.collection} for file in files]),
        size=arrays.longs(file.bytes for file in files),
        modificationTime=arrays.repeated(state.created_ms, pa.int64(), len(files)),
        dataChange=arrays.repeated(False, pa.bool_(), len(files)),
        stats=arrays.strings(file.stats() for file in files),
    )


def _dump(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":"), sort_keys=True).encode()

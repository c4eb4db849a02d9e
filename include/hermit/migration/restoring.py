"""The way back: files of the shard into a side table of the stash, by COPY.

Most rows of a collection lie in files whose rows are distinct. Such a file goes to COPY as it is. What was
written since lies in small files, with rows to add and rows to take away: their sum is worked out where it
is needed, and each large file is copied without the rows that were taken away. So no collection is ever
held in memory, only what has changed since it was last folded.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

from hermit.durable.contents import CONFIG, MOVED, is_own_config
from hermit.migration import parts as notes
from hermit.migration.parts import Part, Plan
from hermit.migration.progress import Meter
from hermit.migration.shelf import Shelf
from hermit.migration.work import Task, Workers, do

if TYPE_CHECKING:
    from hermit.durable.persist import PersistCatalog
    from hermit.durable.stash import StashCatalog
    from hermit.migration.stores import Stores

_BATCH_ROWS = 65_536
# How many times as large the rows of a file become in the stash, about.
_UNPACKED = 3


@dataclass(frozen=True)
class Source:
    """A file of one collection, less what later files take away; or, without a file, what these add."""

    collection: str
    collection_id: int
    file: dict[str, Any] | None
    later: list[dict[str, Any]] = field(default_factory=list)
    rows: int = 0
    bytes: int = 0


def stage_shard(
    stores: Stores, stash: StashCatalog, persist: PersistCatalog, side: str, workers: Workers
) -> tuple[int, Part]:
    """Stage all of the shard in a side table; gives the content version that it was at."""
    from hermit.stash import bulk

    location, shelf = stores.location, Shelf(stores.location)
    version = persist.content_version()
    ids = _identifiers(stash)
    plan = plan_restore(persist, version, ids, workers) if ids is not None else None
    before = notes.take_over(shelf, side, plan) if plan is not None else None
    there = bulk.resume_side(stash.stash, side, before.partitions) if before is not None else None
    if before is None or there is None:
        ids = bulk.create_side(stash.stash, side, MOVED)
        plan, finished = plan_restore(persist, version, ids, workers), {}
        notes.begin(shelf, side, plan)
    else:
        known = notes.finished(shelf, side, before.partitions)
        plan, finished = before, {name: part for name, part in known.items() if name in there}
    function = partial(restore, location, stores.stash_url, stores.organization_id, side)
    here = _stays_here(workers, (source["bytes"] for piece in plan.partitions.values() for source in piece))
    return version, do(workers, location, side, plan, finished, function, here=here)


def _identifiers(stash: StashCatalog) -> dict[str, int] | None:
    """The identifiers of all collections that move, if they have one already."""
    found = stash.stash.read(lambda transaction: transaction.collections())
    return found if set(MOVED) <= set(found) else None


def plan_restore(persist: PersistCatalog, version: int, ids: Mapping[str, int], workers: Workers) -> Plan:
    """Cut the shard into pieces of about equal size that can be copied side by side."""
    sources = list(_sources(persist, ids))
    rows = sum(source.rows for source in sources)
    here = _stays_here(workers, (source.bytes for source in sources))
    pieces = workers.partitions(rows, sum(source.bytes for source in sources), here=here)
    bins: list[list[Source]] = [[] for _ in range(pieces)]
    sizes = [0] * pieces
    for source in sorted(sources, key=lambda source: -source.bytes):
        smallest = sizes.index(min(sizes))
        bins[smallest].append(source)
        sizes[smallest] += source.bytes + 1
    partitions = {_name(piece): [asdict(source) for source in piece] for piece in bins if piece}
    return Plan(
        direction="rollback",
        version=version,
        identity=_digest(sorted(file.path for file in persist.client.files(MOVED))),
        rows_total=rows,
        partitions=partitions,
    )


def _stays_here(workers: Workers, sizes: Iterable[int]) -> bool:
    return workers.stays_here(_UNPACKED * sum(sizes))


def _name(piece: Sequence[Source]) -> str:
    """Of what is in it: a piece of another plan can never be taken for this one."""
    return f"part_{_digest([asdict(source) for source in piece])}"


def _digest(facts: Any) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def _sources(persist: PersistCatalog, ids: Mapping[str, int]) -> Iterator[Source]:
    from hermit.persist.snapshot import find_base

    state = persist.client.state()
    for name in MOVED:
        files = state.files([name])
        base = find_base(files, state.upper(name) - 1)
        later = [file.to_json() for file in files if file not in base]
        for file in sorted(base, key=lambda file: file.path):
            yield Source(name, ids[name], file.to_json(), later, file.rows, file.bytes)
        if later:
            rest = [file for file in files if file not in base]
            rows, size = sum(file.rows for file in rest), sum(file.bytes for file in rest)
            yield Source(name, ids[name], None, later, rows, size)


def restore(location: str, stash_url: str, organization_id: UUID, side: str, task: Task) -> Part:
    """Copy one piece of the shard into the side table; a piece that is there already is not added twice."""
    import pyarrow as pa

    from hermit.stash import bulk

    name, sources = task[0], [Source(**source) for source in task[1]]
    meter = Meter(location, side, name)
    schema = pa.schema([("collection_id", pa.int64()), ("key", pa.binary()), ("value", pa.binary())])

    def batches() -> Iterator[Any]:
        for source in sources:
            for pairs in _pairs(location, source):
                ids = pa.repeat(pa.scalar(source.collection_id, pa.int64()), pairs.num_rows)
                yield pa.RecordBatch.from_arrays([ids, *pairs.columns], schema=schema)
                meter.add(pairs.num_rows, pairs.nbytes)

    reader = pa.RecordBatchReader.from_batches(schema, batches())
    rows = bulk.write_side(stash_url, organization_id, side, reader, part=name)
    part = Part([], {}, {}, rows, sum(source.bytes for source in sources))
    notes.leave(Shelf(location), side, name, part)
    # It may have been complete already, from an attempt that could not say so any more.
    meter.finish(rows)
    return part


def _pairs(location: str, source: Source) -> Iterator[Any]:
    """The rows of a source as record batches of key and value."""
    import pyarrow as pa

    for pairs in _less_later(location, source) if source.file is not None else _added(location, source):
        if source.collection == CONFIG:
            moved = [not is_own_config(CONFIG, key) for key in pairs.column(0).to_pylist()]
            yield pairs.filter(pa.array(moved, pa.bool_()))
        else:
            yield pairs


def _less_later(location: str, source: Source) -> Iterator[Any]:
    import pyarrow as pa
    import pyarrow.compute as pc

    from hermit.persist.batch import stream_file
    from hermit.persist.commit import DataFile

    sums = _sums(location, source.later)
    gone = {row for row, diff in sums.items() if diff < 0}
    keys = pa.array(sorted({key for key, _ in gone}), pa.binary())
    file = DataFile.from_json(source.file or {})
    for pairs in stream_file(location, file, ["key", "value"], batch_rows=_BATCH_ROWS):
        if not gone:
            yield pairs
            continue
        stays = pc.invert(pc.is_in(pairs.column(0), value_set=keys))
        yield pairs.filter(stays)
        # Few have a key that was touched. Of those, the ones with another value stay as well.
        touched = pairs.filter(pc.invert(stays))
        rows = zip(touched.column(0).to_pylist(), touched.column(1).to_pylist(), strict=True)
        yield touched.filter(pa.array([row not in gone for row in rows], pa.bool_()))


def _added(location: str, source: Source) -> Iterator[Any]:
    import pyarrow as pa

    rows = [row for row, diff in _sums(location, source.later).items() for _ in range(diff)]
    for start in range(0, len(rows), _BATCH_ROWS):
        chunk = rows[start : start + _BATCH_ROWS]
        columns = [
            pa.array([key for key, _ in chunk], pa.binary()),
            pa.array([v for _, v in chunk], pa.binary()),
        ]
        yield pa.RecordBatch.from_arrays(columns, names=["key", "value"])


def _sums(location: str, files: Sequence[Mapping[str, Any]]) -> dict[tuple[bytes, bytes], int]:
    """The diffs of some files, summed up per row."""
    from hermit.persist.batch import stream_file
    from hermit.persist.commit import DataFile

    sums: dict[tuple[bytes, bytes], int] = {}
    for file in files:
        columns = ["key", "value", "diff"]
        for batch in stream_file(location, DataFile.from_json(dict(file)), columns, batch_rows=_BATCH_ROWS):
            for key, value, diff in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                sums[key, value] = sums.get((key, value), 0) + diff
    return {row: diff for row, diff in sums.items() if diff}

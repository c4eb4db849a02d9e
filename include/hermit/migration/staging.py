"""Staging: the bulk of a move, written where nobody looks yet. Here the way there, from heap to files.

The functions that executors run take plain values and import what they need themselves, so that they run
in any Python process, under Spark or not. Each holds a batch of rows at a time, says how far it is, and keeps
to its pace. A partition that Spark runs twice leaves files, or rows in an aborted transaction, that no
manifest names. What an earlier attempt finished is used again (see `parts`). Rows are counted here and not
digested: verifying reads everything once more, on both sides, before anything moves.

`restoring` is the way back.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from hermit.digest import Digest, digest_columns
from hermit.durable.contents import CONFIG, is_own_config
from hermit.migration import parts as notes
from hermit.migration.parts import Part, Plan, merge
from hermit.migration.progress import Meter
from hermit.migration.restoring import stage_shard
from hermit.migration.shelf import Shelf
from hermit.migration.work import Run, Task, Workers, do
from hermit.rows import Row

if TYPE_CHECKING:
    from hermit.durable.stash import StashCatalog
    from hermit.migration.stores import Stores
    from hermit.stash.bulk import Export

__all__ = [
    "Part",
    "Run",
    "Workers",
    "merge",
    "remove_all",
    "stage_rows",
    "stage_shard",
    "stage_stash",
    "sweep",
]

_BATCH_ROWS = 65_536
_PAGE_BYTES = 8_192
_RUNS_MAX = 1_000
# The names of batches begin with the direction of their move.
_PREFIXES = ("migrate_", "rollback_")


def stage_stash(stores: Stores, stash: StashCatalog, batch: str, workers: Workers) -> tuple[int, Part]:
    """Stage all of the stash under one exported snapshot; gives the content version that it shows."""
    from hermit.stash import bulk

    location = stores.location
    with bulk.export(stash.stash, 1) as export:
        plan = plan_stash(export, workers)
        shelf = Shelf(location)
        before = notes.take_over(shelf, batch, plan)
        finished: dict[str, Part] = {}
        if before is None:
            notes.begin(shelf, batch, plan)
        else:
            plan, finished = before, _whole(location, batch, notes.finished(shelf, batch, before.partitions))
        function = partial(stage_range, location, batch, stores.stash_url, export)
        here = workers.stays_here(heap_bytes(export))
        return export.version, do(workers, location, batch, plan, finished, function, here=here)


def plan_stash(export: Export, workers: Workers) -> Plan:
    """Cut the stash's heap into ranges of pages."""
    pages = _pages(export)
    here = workers.stays_here(heap_bytes(export))
    step = max(1, -(-pages // workers.partitions(export.rows_estimate, heap_bytes(export), here=here)))
    ranges = [(low, min(low + step, pages)) for low in range(0, pages, step)]
    return Plan(
        direction="migrate",
        version=export.version,
        identity=export.identity,
        rows_total=export.rows_estimate,
        partitions={f"{low}-{high}": [low, high] for low, high in ranges},
    )


def heap_bytes(export: Export) -> int:
    """How large the stash's heap is."""
    return _pages(export) * _PAGE_BYTES


def _pages(export: Export) -> int:
    return export.ranges[-1][1] if export.ranges else 0


def _whole(location: str, batch: str, finished: Mapping[str, Part]) -> dict[str, Part]:
    """The parts whose files are all there."""
    from hermit.persist.batch import staged_files

    there = staged_files(location, batch)
    return {
        name: part
        for name, part in finished.items()
        if all(there.get(file["path"]) == file["bytes"] for file in part.files)
    }


def stage_range(location: str, batch: str, stash_url: str, export: Export, task: Task) -> Part:
    """Copy one range of the stash's heap into files of a batch."""
    from hermit.persist.batch import BatchWriter
    from hermit.stash import bulk

    name, (low, high) = task
    meter = Meter(location, batch, name)
    with BatchWriter(location, batch) as writer:
        for rows in bulk.read_range(stash_url, export, low, high, _BATCH_ROWS):
            for collection, pairs in split_by_collection(rows, export.collections):
                writer.write(collection, pairs)
            meter.add(rows.num_rows, rows.nbytes)
        files = writer.finish()
    part = Part(
        files=[file.to_json() for file in files],
        read={},
        staged={},
        rows=sum(file.rows for file in files),
        bytes=sum(file.bytes for file in files),
    )
    notes.leave(Shelf(location), batch, name, part)
    meter.finish()
    return part


def split_by_collection(batch: Any, names: Mapping[int, str]) -> Iterator[tuple[str, Any]]:
    """The rows of a batch per collection, from `key` on, without what a store keeps to itself."""
    import pyarrow as pa
    import pyarrow.compute as pc

    runs = pc.run_end_encode(batch.column(0))
    ends, ids = runs.run_ends.to_pylist(), runs.values.to_pylist()
    pairs = pa.RecordBatch.from_arrays(batch.columns[1:], names=batch.schema.names[1:])
    if len(ids) > _RUNS_MAX:
        for id_ in sorted(set(ids)):
            found = pairs.filter(pc.equal(batch.column(0), id_))
            yield names[id_], without_own_config(names[id_], found)
        return
    # Rows of a collection mostly lie together: they are cut out as they are, without a copy.
    cut: dict[int, list[Any]] = {}
    for id_, start, end in zip(ids, [0, *ends], ends, strict=False):
        cut.setdefault(id_, []).append(pairs.slice(start, end - start))
    for id_, pieces in cut.items():
        found = pieces[0] if len(pieces) == 1 else pa.concat_batches(pieces)
        yield names[id_], without_own_config(names[id_], found)


def without_own_config(collection: str, pairs: Any) -> Any:
    """The rows that move: all but the few config entries that speak about a store itself."""
    import pyarrow as pa

    if collection != CONFIG:
        return pairs
    moved = [not is_own_config(CONFIG, key) for key in pairs.column(0).to_pylist()]
    return pairs.filter(pa.array(moved, pa.bool_()))


def stage_rows(location: str, batch: str, rows: Iterable[Row]) -> Part:
    """Put rows, sorted by collection, into files of a batch, and read them back: what a dry run does."""
    import pyarrow as pa

    from hermit.persist.batch import BatchWriter, stream_file

    read: dict[str, Digest] = {}
    staged: dict[str, Digest] = {}
    with BatchWriter(location, batch) as writer:
        for name, group in itertools.groupby(rows, lambda row: row.collection):
            while chunk := list(itertools.islice(group, _BATCH_ROWS)):
                columns = [pa.array([row.key for row in chunk]), pa.array([row.value for row in chunk])]
                read[name] = read.get(name, Digest()) + digest_columns(name, *columns)
                writer.write(name, pa.RecordBatch.from_arrays(columns, names=["key", "value"]))
        files = writer.finish()
    for file in files:
        for pairs in stream_file(location, file, ["key", "value"], batch_rows=_BATCH_ROWS):
            digest = digest_columns(file.collection, *pairs.columns)
            staged[file.collection] = staged.get(file.collection, Digest()) + digest
    return Part(
        files=[file.to_json() for file in files],
        read=read,
        staged=staged,
        rows=sum(file.rows for file in files),
        bytes=sum(file.bytes for file in files),
    )


def sweep(stores: Stores, stash: StashCatalog, batch: str) -> None:
    """Remove what earlier attempts staged and nobody will use: all but this batch.

    The caller holds the catalog, so that no other move of it goes on; one that only believes so fails.
    """
    from hermit.persist.batch import drop_staged, list_staged
    from hermit.stash import bulk

    manifests = stores.manifests()
    for other in manifests.batches() - {batch}:
        manifests.remove(other)
    for side in bulk.sides(stores.stash_client):
        if side != batch:
            bulk.drop_side(stash.stash, side)
    for other in list_staged(stores.location):
        if other != batch and other.startswith(_PREFIXES):
            drop_staged(stores.location, other)


def remove_all(location: str) -> None:
    """Remove what a dry run staged, wherever that is."""
    from hermit.persist.storage.abc import OnDisk
    from hermit.persist.storage.open import open_storage

    storage = open_storage(location)
    if isinstance(storage.blob, OnDisk):
        shutil.rmtree(storage.location, ignore_errors=True)
        return
    for folder in ("batches", "_hermit"):
        for info in list(storage.blob.list(folder)):
            storage.blob.delete(info.key)

"""Staging: the bulk of a move, written where nobody looks yet.

The functions that executors run take plain values and import what they need themselves, so that they run
in any Python process, under Spark or not. Each accounts for its rows twice: the digest of what it read
from the source, and the digest of what it read back from where it put them. A partition that Spark runs
twice leaves files, or rows in an aborted transaction, that no manifest names.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import UUID

from hermit.digest import Digest, digest_collection
from hermit.durable.contents import CONFIG, MOVED, is_own_config
from hermit.rows import Row

if TYPE_CHECKING:
    from hermit.durable.persist import PersistCatalog
    from hermit.durable.stash import StashCatalog
    from hermit.migration.stores import Stores

_BATCH_ROWS = 65_536
_PAGE_BYTES = 8_192
# Below this, starting a second worker costs more than it saves.
_SMALL_BYTES = 8 << 20

Run: TypeAlias = "Callable[[Callable[[Any], Part], Sequence[Any]], list[Part]]"
"""Calls a function on every item, wherever it likes: under Spark, or one after the other."""


@dataclass(frozen=True)
class Part:
    """What one partition staged."""

    files: list[dict[str, Any]]
    read: dict[str, Digest]
    staged: dict[str, Digest]
    rows: int
    bytes: int


def merge(parts: Iterable[Part]) -> Part:
    """All partitions together."""
    files: list[dict[str, Any]] = []
    read: dict[str, Digest] = {}
    staged: dict[str, Digest] = {}
    rows = size = 0
    for part in parts:
        files += part.files
        rows += part.rows
        size += part.bytes
        for into, digests in ((read, part.read), (staged, part.staged)):
            for name, digest in digests.items():
                into[name] = into.get(name, Digest()) + digest
    return Part(files, read, staged, rows, size)


def split_by_collection(batch: Any, names: Mapping[int, str]) -> Iterator[tuple[str, Any]]:
    """The rows of a batch per collection, as `(key, value)`, without what a store keeps to itself."""
    import pyarrow as pa
    import pyarrow.compute as pc

    ids = batch.column(0)
    for id_ in pc.unique(ids).to_pylist():
        rows = batch if len(ids) == 0 else batch.filter(pc.equal(ids, id_))
        name = names[id_]
        pairs = pa.RecordBatch.from_arrays([rows.column(1), rows.column(2)], names=["key", "value"])
        yield name, without_own_config(name, pairs)


def without_own_config(collection: str, pairs: Any) -> Any:
    """The rows that move: all but the few config entries that speak about a store itself."""
    import pyarrow as pa

    if collection != CONFIG:
        return pairs
    return pairs.filter(pa.array([not is_own_config(CONFIG, key) for key in pairs.column(0).to_pylist()]))


def digest_pairs(collection: str, pairs: Any) -> Digest:
    """The digest of a `(key, value)` record batch."""
    return digest_collection(
        collection, zip(pairs.column(0).to_pylist(), pairs.column(1).to_pylist(), strict=True)
    )


def stage_range(location: str, batch: str, stash_url: str, export: Any, low: int, high: int) -> Part:
    """Copy one range of the stash's heap into files of a batch, and read them back."""
    from hermit.stash import bulk

    ranges = bulk.read_range(stash_url, export, low, high)
    return _stage(
        location, batch, (part for rows in ranges for part in split_by_collection(rows, export.collections))
    )


def stage_rows(location: str, batch: str, rows: Iterable[Row]) -> Part:
    """Put rows, sorted by collection, into files of a batch, and read them back."""
    import pyarrow as pa

    def batches() -> Iterator[tuple[str, Any]]:
        for name, group in itertools.groupby(rows, lambda row: row.collection):
            while chunk := list(itertools.islice(group, _BATCH_ROWS)):
                columns = [pa.array([row.key for row in chunk]), pa.array([row.value for row in chunk])]
                yield name, pa.RecordBatch.from_arrays(columns, names=["key", "value"])

    return _stage(location, batch, batches())


def _stage(location: str, batch: str, parts: Iterable[tuple[str, Any]]) -> Part:
    from hermit.persist.batch import BatchWriter, read_file

    read: dict[str, Digest] = {}
    with BatchWriter(location, batch) as writer:
        for name, pairs in parts:
            read[name] = read.get(name, Digest()) + digest_pairs(name, pairs)
            writer.write(name, pairs)
        files = writer.finish()
    staged: dict[str, Digest] = {}
    for file in files:
        for pairs in read_file(location, file, ["key", "value"]).to_batches():
            name = file.collection
            staged[name] = staged.get(name, Digest()) + digest_pairs(name, pairs)
    return Part(
        files=[file.to_json() for file in files],
        read=read,
        staged=staged,
        rows=sum(file.rows for file in files),
        bytes=sum(file.bytes for file in files),
    )


@dataclass(frozen=True)
class Source:
    """A file of one collection as it is, or, where diffs must be summed up first, all of the collection."""

    collection: str
    collection_id: int
    file: dict[str, Any] | None
    as_of: int
    bytes: int


@dataclass(frozen=True)
class Piece:
    """A part of the way back: what one task copies in one transaction."""

    id: str
    sources: list[Source]


def plan_restore(persist: PersistCatalog, ids: Mapping[str, int], partitions: int) -> list[Piece]:
    """Cut the shard into pieces of about equal size that can be copied side by side."""
    sources = list(_sources(persist, ids))
    if sum(source.bytes for source in sources) < _SMALL_BYTES:
        partitions = 1
    bins: list[list[Source]] = [[] for _ in range(partitions)]
    sizes = [0] * partitions
    for source in sorted(sources, key=lambda source: -source.bytes):
        smallest = sizes.index(min(sizes))
        bins[smallest].append(source)
        sizes[smallest] += source.bytes + 1
    return [Piece(f"part_{number}", sources) for number, sources in enumerate(bins) if sources]


def _sources(persist: PersistCatalog, ids: Mapping[str, int]) -> Iterator[Source]:
    state = persist.client.state()
    for name in MOVED:
        as_of, files = state.upper(name) - 1, state.files([name])
        if persist.client.is_consolidated([name]):
            for file in files:
                yield Source(name, ids[name], file.to_json(), as_of, file.bytes)
        else:
            yield Source(name, ids[name], None, as_of, sum(file.bytes for file in files))


def restore(location: str, stash_url: str, organization_id: UUID, side: str, piece: Piece) -> Part:
    """Copy one piece of the shard into the side table; a piece that is there already is not added twice."""
    import pyarrow as pa

    from hermit.stash import bulk

    read: dict[str, Digest] = {}
    schema = pa.schema([("collection_id", pa.int64()), ("key", pa.binary()), ("value", pa.binary())])

    def batches() -> Iterator[Any]:
        for source in piece.sources:
            name = source.collection
            for pairs in _pairs(location, source):
                read[name] = read.get(name, Digest()) + digest_pairs(name, pairs)
                ids = pa.repeat(pa.scalar(source.collection_id, pa.int64()), pairs.num_rows)
                yield pa.RecordBatch.from_arrays([ids, *pairs.columns], schema=schema)

    reader = pa.RecordBatchReader.from_batches(schema, batches())
    rows = bulk.write_side(stash_url, organization_id, side, reader, part=piece.id)
    return Part([], read, {}, rows, sum(source.bytes for source in piece.sources))


def _pairs(location: str, source: Source) -> Iterator[Any]:
    import pyarrow as pa

    from hermit.persist import PersistClient
    from hermit.persist.batch import read_file
    from hermit.persist.commit import DataFile

    if source.file is None:
        client = PersistClient.open(location, mode="ro")
        found: Iterable[Any] = client.snapshot_arrow([source.collection], source.as_of)
    else:
        table = read_file(location, DataFile.from_json(source.file), ["key", "value"])
        found = table.to_batches(max_chunksize=_BATCH_ROWS)
    for batch in found:
        columns = [batch.column("key"), batch.column("value")]
        pairs = pa.RecordBatch.from_arrays(columns, names=["key", "value"])
        yield without_own_config(source.collection, pairs)


def stage_stash(
    stores: Stores, stash: StashCatalog, batch: str, partitions: int, run: Run
) -> tuple[int, Part]:
    """Stage all of the stash under one exported snapshot; gives the content version that it shows."""
    from hermit.stash import bulk

    location, url = stores.location, stores.stash_url
    with bulk.export(stash.stash, partitions) as export:
        pages = export.ranges[-1][1] if export.ranges else 0
        ranges = export.ranges if pages * _PAGE_BYTES >= _SMALL_BYTES else [(0, pages)]
        parts = run(lambda r: stage_range(location, batch, url, export, *r), ranges)
    return export.version, merge(parts)


def stage_shard(
    stores: Stores, stash: StashCatalog, persist: PersistCatalog, side: str, partitions: int, run: Run
) -> tuple[int, Part]:
    """Stage all of the shard in a side table; gives the content version that it was at."""
    from hermit.stash import bulk

    version = persist.content_version()
    location, url, organization_id = stores.location, stores.stash_url, stores.organization_id
    ids = bulk.create_side(stash.stash, side, MOVED)
    pieces = plan_restore(persist, ids, partitions)
    part = merge(run(lambda piece: restore(location, url, organization_id, side, piece), pieces))
    return version, replace(part, staged=bulk.digests(stash.stash, side=side))

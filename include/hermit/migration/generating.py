"""Filling an empty stash with a generated catalog in partitions: the one that `./hermit generate` makes.

A generated catalog is made of pieces that do not need one another (see `hermit.formats.generate`), so that
the same objects, seed, version and metrics give the same rows whoever makes them: only their order in the
table is another. Each partition is one part of a side table, in one transaction; one that runs twice finds
that it is there. A single cut-over makes the side table the contents: before it the stash holds no catalog.

What a run that died left is dropped by the next. Its tasks, if any are still alive, find their table gone.
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

from hermit.durable.contents import MOVED
from hermit.formats.generate import Recipe
from hermit.migration.executors import each
from hermit.migration.load import open_empty
from hermit.migration.parts import Part
from hermit.migration.work import Task, Workers

if TYPE_CHECKING:
    from hermit.stash import StashClient

_PREFIX = "generate_"
# Fewer than elsewhere: made row by row, they are Python objects first.
_BATCH_ROWS = 4_096


def generate(client: StashClient, recipe: Recipe, workers: Workers) -> int:
    """Make the catalog of a recipe; gives the number of its rows. A stash that holds one is refused."""
    from hermit.stash import bulk

    # What cannot be generated is refused before anything is touched.
    tasks = list(cut(recipe, workers))
    side = f"{_PREFIX}{secrets.token_hex(6)}"
    with open_empty(client) as stash:
        for left in bulk.sides(client):
            if left.startswith(_PREFIX):
                bulk.drop_side(stash, left)
        ids = bulk.create_side(stash, side, MOVED)
        made = each(workers, partial(fill, client.url, client.organization_id, side, recipe, ids), tasks)
        bulk.replace_from_side(stash, side, config={})
    return made.rows


def cut(recipe: Recipe, workers: Workers) -> Iterator[Task]:
    """The pieces of a catalog, dealt out to partitions."""
    pieces = list(recipe.pieces())
    wanted = workers.partitions(sum(piece.rows for piece in pieces), sum(piece.bytes for piece in pieces))
    for number in range(min(wanted, len(pieces))):
        yield f"part_{number}", pieces[number::wanted]


def fill(
    stash_url: str, organization_id: UUID, side: str, recipe: Recipe, ids: Mapping[str, int], task: Task
) -> Part:
    """Make the rows of one partition in the side table; if they are there already, nothing is added."""
    import pyarrow as pa

    from hermit.stash import bulk

    name, pieces = task
    schema = pa.schema([("collection_id", pa.int64()), ("key", pa.binary()), ("value", pa.binary())])
    size = 0

    def batches() -> Iterator[Any]:
        nonlocal size
        for piece in pieces:
            rows = recipe.rows(piece)
            while chunk := list(itertools.islice(rows, _BATCH_ROWS)):
                numbers = [ids[row.collection] for row in chunk]
                columns = [numbers, [row.key for row in chunk], [row.value for row in chunk]]
                arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
                batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
                size += batch.nbytes
                yield batch

    reader = pa.RecordBatchReader.from_batches(schema, batches())
    rows = bulk.write_side(stash_url, organization_id, side, reader, part=name)
    return Part([], {}, {}, rows, size)

"""Makes catalogs of any size in any version: for tests, for load, and for demonstrations.

The facts of a generated catalog depend on the seed alone; the version only decides how they are encoded.
The default mix is that of a busy environment: mostly items and audit events. Given metrics of a real
catalog, the mix follows their row counts, and the text of items and the entries of the update log are
stretched to their sizes. (`hermit status --json` prints such metrics.)

A catalog is made of pieces, at most a block of one collection each, which do not need one another: whoever
makes all of them, wherever, has made the very catalog that `rows` gives.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from hermit.errors import InvalidInput
from hermit.formats import config, frame
from hermit.formats.collections import COLLECTIONS, MESSAGES
from hermit.formats.generate_facts import BLOCK_ROWS, FACTS, Fact, Plan
from hermit.formats.generate_old import EARLIER, to_json
from hermit.formats.metrics import Size
from hermit.formats.versions import MIN_STASH_VERSION, STASH_VERSION
from hermit.rows import Row

GENERATED = tuple(name for name in COLLECTIONS if name != config.COLLECTION)

# Shares of a busy environment, in rows per thousand.
_MIX = {
    "audit_log": 150,
    "clusters": 3,
    "cluster_replicas": 6,
    "cluster_introspection_source_indexes": 12,
    "databases": 3,
    "default_privileges": 4,
    "id_allocators": 2,
    "items": 700,
    "roles": 10,
    "schemas": 15,
    "settings": 1,
    "storage_usage": 60,
    "system_configurations": 3,
    "system_object_mappings": 20,
    "system_privileges": 2,
    "timestamps": 1,
    "update_log": 8,
}


# JSON escapes the quotes of SQL and names every field: as many bytes hold less of a statement.
_SQL_SHARE = {False: 1.0, True: 0.77}
# Of a row of the default mix, about.
_ROW_BYTES = 250


class Piece(NamedTuple):
    """Some rows of one collection: at most so many, with about so many bytes."""

    collection: str
    block: int
    rows: int
    bytes: int


@dataclass(frozen=True)
class Recipe:
    """All that a generated catalog depends on; see `rows`. May be sent to other processes."""

    objects: int | None
    seed: int
    version: int = STASH_VERSION
    like: Mapping[str, Any] | None = None

    def pieces(self) -> Iterator[Piece]:
        """What the catalog is made of."""
        if not MIN_STASH_VERSION <= self.version <= STASH_VERSION:
            raise InvalidInput(
                f"there is no format {self.version}", hint=f"from {MIN_STASH_VERSION} to {STASH_VERSION}"
            )
        sizes = self._sizes()
        plan = Plan(self.seed, _counts(self.objects, sizes))
        yield Piece(config.COLLECTION, 0, 1, _ROW_BYTES)
        for collection in GENERATED:
            row_bytes = _row_bytes(sizes, collection) or _ROW_BYTES
            for block in plan.blocks(collection):
                rows = min(BLOCK_ROWS, plan.counts[collection] - block * BLOCK_ROWS)
                yield Piece(collection, block, rows, round(rows * row_bytes))

    def rows(self, piece: Piece) -> Iterator[Row]:
        """The rows of one piece, the same whoever makes them."""
        if piece.collection == config.COLLECTION:
            key, value = config.encode_key(config.USER_VERSION), config.encode_value(self.version)
            yield Row(config.COLLECTION, key, value)
            return
        sizes = self._sizes()
        row_bytes = _row_bytes(sizes, piece.collection)
        text_bytes = row_bytes * _SQL_SHARE[self.version < 15] if row_bytes else None
        encode = _encoder(self.version)
        plan = Plan(self.seed, _counts(self.objects, sizes), text_bytes, piece.block)
        for fact in FACTS[piece.collection](plan):
            row = encode(_in_version(fact, self.version))
            if row is not None:
                yield row

    def _sizes(self) -> dict[str, Size]:
        return _sizes(self.like) if self.like else {}


def rows(
    objects: int | None,
    seed: int,
    version: int = STASH_VERSION,
    like: Mapping[str, Any] | None = None,
) -> Iterator[Row]:
    """A catalog of `objects` rows beside config, encoded in `version`.

    `like` gives rows and bytes per collection; without `objects`, their very numbers are made. What
    `hermit status --json` prints is understood as well: then the store that holds the truth is followed.
    """
    recipe = Recipe(objects, seed, version, like)
    for piece in recipe.pieces():
        yield from recipe.rows(piece)


def _row_bytes(sizes: Mapping[str, Size], collection: str) -> float | None:
    size = sizes.get(collection, Size())
    return size.bytes / size.rows if size.rows and size.bytes else None


def _sizes(like: Mapping[str, Any]) -> dict[str, Size]:
    """Rows and bytes per collection, from metrics as given."""
    store = like.get("source_of_truth")
    collections = like[store].get("collections") if isinstance(store, str) and store in like else like
    if not isinstance(collections, Mapping):
        raise InvalidInput("metrics map collections to rows and bytes", hint="see `hermit status --json`")
    return {name: _size(name, size) for name, size in collections.items()}


def _size(collection: str, size: Any) -> Size:
    if collection not in COLLECTIONS:
        raise InvalidInput(f"there is no collection {collection!r}", hint=f"one of {', '.join(COLLECTIONS)}")
    if isinstance(size, Size):
        return size
    numbers: list[Any] = [size.get(name) for name in Size._fields] if isinstance(size, Mapping) else []
    if len(numbers) != 2 or not all(isinstance(number, int) and number >= 0 for number in numbers):
        raise InvalidInput(f"metrics of {collection} need rows and bytes, neither negative")
    return Size(*numbers)


def _counts(objects: int | None, like: Mapping[str, Size]) -> dict[str, int]:
    """Rows per collection: shares of `objects` by largest remainder, so that they add up exactly."""
    shares = {name: like[name].rows if name in like else 0 for name in GENERATED} if like else _MIX
    if objects is None:
        if not like:
            raise InvalidInput("say how many objects to generate", hint="or give metrics to follow")
        return dict(shares)
    total = sum(shares.values())
    if objects < 0 or not total:
        raise InvalidInput(f"cannot generate {objects} objects from {total} rows")
    counts = {name: objects * share // total for name, share in shares.items()}
    by_remainder = sorted(shares, key=lambda name: (-(objects * shares[name] % total), name))
    for name in by_remainder[: objects - sum(counts.values())]:
        counts[name] += 1
    return counts


def _in_version(fact: Fact, version: int) -> Fact:
    for newer in range(STASH_VERSION, version, -1):
        if newer in EARLIER:
            fact = EARLIER[newer](fact)
    return fact


@lru_cache
def _encoder(version: int) -> Callable[[Fact], Row | None]:
    if version < 15:
        return to_json
    module = importlib.import_module(f"hermit.formats.gen.objects_v{version}_pb2")
    types: dict[str, tuple[Any, Any]] = {
        name: (getattr(module, f"{stem}Key"), getattr(module, f"{stem}Value"))
        for name, stem in MESSAGES.items()
        if hasattr(module, f"{stem}Key")
    }

    def encode(fact: Fact) -> Row:
        collection, key, value = fact
        key_type, value_type = types[collection]
        return Row(collection, frame.write(key_type(**key)), frame.write(value_type(**value)))

    return encode

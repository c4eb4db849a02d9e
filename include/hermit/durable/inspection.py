"""Looking at a catalog without opening it: any format, nothing decoded, nothing written.

An inspection keeps the epoch that it found and fails once somebody opens the catalog, as every reader.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import TracebackType

from hermit.digest import Digest, digest_collection
from hermit.durable.bootstrap import Rows
from hermit.durable.contents import MOVED, is_own_config
from hermit.durable.model import CollectionMetrics
from hermit.durable.store import Store
from hermit.rows import Row, Update


class Contents:
    """What can be told of a catalog's contents from their bytes."""

    def __init__(self, rows: Mapping[str, Rows]) -> None:
        self._rows = rows

    def snapshot(self) -> Iterator[Row]:
        return (
            Row(collection, key, value)
            for collection in MOVED
            for key, value in sorted(self._rows[collection].items())
            if not is_own_config(collection, key)
        )

    def digests(self) -> dict[str, Digest]:
        return {name: digest_collection(name, self._moved(name)) for name in MOVED}

    def metrics(self) -> list[CollectionMetrics]:
        return [_metrics(name, self._moved(name)) for name in MOVED]

    def dump(self) -> str:
        from hermit.durable.dump import dump_rows

        return dump_rows(self._rows)

    def _moved(self, name: str) -> list[tuple[bytes, bytes]]:
        return [pair for pair in self._rows[name].items() if not is_own_config(name, pair[0])]


def _metrics(name: str, pairs: list[tuple[bytes, bytes]]) -> CollectionMetrics:
    return CollectionMetrics(name, len(pairs), sum(len(key) + len(value) for key, value in pairs))


class Inspection:
    """A catalog as it is stored."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def content_version(self) -> int:
        """A number that grows exactly when the contents change."""
        return self._store.check().version

    def snapshot(self) -> Iterator[Row]:
        """Every row of the contents, in one consistent state."""
        return self._contents().snapshot()

    def snapshot_unconsolidated(self) -> Iterator[Update]:
        """Every update that the store still holds."""
        self._store.check()
        return iter(self._store.updates())

    def digests(self) -> dict[str, Digest]:
        """A digest of the contents per collection."""
        return self._contents().digests()

    def metrics(self) -> list[CollectionMetrics]:
        """Rows and bytes per collection."""
        return self._contents().metrics()

    def dump(self) -> str:
        """The whole catalog as JSON; what is not of the current format, as bytes."""
        return self._contents().dump()

    def close(self) -> None:
        self._store.close()

    def __enter__(self) -> Inspection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _contents(self) -> Contents:
        return Contents(self._store.read(MOVED)[1])

"""The manifest that a Spark job leaves behind: what it staged, from which contents, with which digest.

A job gives no result back through Airflow, so that the next task reads the manifest. It is written once,
whole, after everything it names is durable. A staged snapshot may be used again exactly while the
contents that it was taken from have not changed: `source_version` is the content version of the source.
Verifying stands behind that in any case.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hermit.digest import Digest, combine
from hermit.errors import CorruptData
from hermit.migration.protocol import Direction
from hermit.migration.shelf import Shelf


@dataclass(frozen=True)
class Manifest:
    """One staged snapshot."""

    batch: str
    direction: Direction
    source_version: int
    digests: Mapping[str, Digest]
    """Of the source: as it was read on the way there, and as it was when both sides were found equal."""
    staged_digests: Mapping[str, Digest]
    """Of the rows as they were read back from where they were staged; only a dry run's has it."""
    files: Sequence[Mapping[str, Any]]
    rows: int
    bytes: int
    seconds: float
    verified_source_version: int | None = None
    verified_target_version: int | None = None
    """Content versions of both sides when they were found equal: what a cut-over must find again."""
    rows_reused: int = 0
    """Rows of partitions that an earlier attempt had finished."""

    @property
    def digest(self) -> Digest:
        return combine(self.digests.values())

    @property
    def number(self) -> int:
        """The batch's name as a config value: what `replace` leaves in the store, with the contents."""
        return int.from_bytes(hashlib.sha256(self.batch.encode()).digest()[:8])

    def to_json(self) -> dict[str, Any]:
        return {
            "batch": self.batch,
            "direction": self.direction.value,
            "source_version": self.source_version,
            "digests": {name: str(digest) for name, digest in sorted(self.digests.items())},
            "staged_digests": {name: str(digest) for name, digest in sorted(self.staged_digests.items())},
            "files": list(self.files),
            "rows": self.rows,
            "bytes": self.bytes,
            "seconds": self.seconds,
            "verified_source_version": self.verified_source_version,
            "verified_target_version": self.verified_target_version,
            "rows_reused": self.rows_reused,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Manifest:
        return cls(
            batch=data["batch"],
            direction=Direction(data["direction"]),
            source_version=int(data["source_version"]),
            digests={name: Digest.parse(text) for name, text in data["digests"].items()},
            staged_digests={name: Digest.parse(text) for name, text in data["staged_digests"].items()},
            files=data["files"],
            rows=int(data["rows"]),
            bytes=int(data["bytes"]),
            seconds=float(data["seconds"]),
            verified_source_version=data["verified_source_version"],
            verified_target_version=data["verified_target_version"],
            rows_reused=int(data.get("rows_reused", 0)),
        )


class Manifests:
    """The manifests of one shard, on the shelf beside its data."""

    def __init__(self, location: str) -> None:
        self._shelf = Shelf(location)

    def write(self, manifest: Manifest) -> None:
        """Put it in place whole."""
        self._shelf.put(manifest.batch, manifest.to_json())

    def read(self, batch: str) -> Manifest | None:
        """The manifest of a batch, or None if its job never came that far."""
        data = self._shelf.raw(batch)
        try:
            return None if data is None else Manifest.from_json(json.loads(data))
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptData(f"the manifest of staged batch {batch} is unreadable: {error}") from error

    def remove(self, batch: str) -> None:
        """Forget a batch, with whatever else is known of it."""
        self._shelf.remove(batch)
        self._shelf.clear(batch)

    def all(self) -> list[Manifest]:
        """Every manifest that can be read, newest batch name last. One that was torn is as good as none."""
        found = []
        for name in self._shelf.names():
            if "/" not in name:
                with contextlib.suppress(CorruptData):
                    found.append(self.read(name))
        return [manifest for manifest in found if manifest is not None]

    def batches(self) -> set[str]:
        """Every batch of which something is known, finished or not."""
        return {name.partition("/")[0] for name in self._shelf.names()}

    def unfinished(self, direction: Direction, version: int) -> str | None:
        """A batch that an earlier attempt began to stage from these contents, and did not finish."""
        from hermit.migration import parts

        return parts.find_unfinished(self._shelf, direction.value, version)

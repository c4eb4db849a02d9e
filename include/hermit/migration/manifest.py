"""The manifest that a Spark job leaves behind: what it staged, from which contents, with which digest.

A job gives no result back through Airflow, so that the next task reads the manifest. It is written once,
whole, after everything it names is durable. A staged snapshot may be used again exactly while the
contents that it was taken from have not changed: `source_version` is the content version of the source.
Verifying stands behind that in any case.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hermit.digest import Digest, combine
from hermit.errors import CorruptData
from hermit.migration.beside import Beside
from hermit.migration.protocol import Direction

_DIRECTORY = "staged"


@dataclass(frozen=True)
class Manifest:
    """One staged snapshot."""

    batch: str
    direction: Direction
    source_version: int
    digests: Mapping[str, Digest]
    """Of the rows as they were read from the source."""
    staged_digests: Mapping[str, Digest]
    """Of the rows as they were read back from where they were staged."""
    files: Sequence[Mapping[str, Any]]
    rows: int
    bytes: int
    seconds: float
    verified_source_version: int | None = None
    verified_target_version: int | None = None
    """Content versions of both sides when they were found equal: what a cut-over must find again."""

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
        )


class Manifests:
    """The manifests of one shard, beside its data."""

    def __init__(self, location: str) -> None:
        self._files = Beside(location, _DIRECTORY)

    def write(self, manifest: Manifest) -> None:
        """Put it in place whole."""
        self._files.write_json(_name(manifest.batch), manifest.to_json())

    def read(self, batch: str) -> Manifest | None:
        """The manifest of a batch, or None if its job never came that far."""
        found = self._files.read_json(_name(batch))
        try:
            return None if found is None else Manifest.from_json(found)
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptData(f"the manifest of staged batch {batch} is unreadable: {error}") from error

    def remove(self, batch: str) -> None:
        """Forget a batch."""
        self._files.remove(_name(batch))

    def all(self) -> list[Manifest]:
        """Every manifest that can be read, newest batch name last. One that was torn is as good as none."""
        found = []
        for name in self._files.names(".json"):
            with contextlib.suppress(CorruptData):
                found.append(self.read(name.removesuffix(".json")))
        return [manifest for manifest in found if manifest is not None]


def _name(batch: str) -> str:
    return f"{batch}.json"

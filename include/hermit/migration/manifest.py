"""The manifest that a Spark job leaves behind: what it staged, from which contents, with which digest.

A job gives no result back through Airflow, so that the next task reads the manifest. It is written once,
whole, after everything it names is durable. A staged snapshot may be used again exactly while the
contents that it was taken from have not changed: `source_version` is the content version of the source.
Verifying stands behind that in any case.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hermit.digest import Digest, combine
from hermit.errors import CorruptData
from hermit.migration.protocol import Direction

_DIRECTORY = "_hermit/staged"


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
    """The manifests of one shard, beside its data, on any file system that Arrow knows."""

    def __init__(self, location: str) -> None:
        from pyarrow import fs

        self._filesystem, path = (
            fs.FileSystem.from_uri(location)
            if "://" in location
            else (
                fs.LocalFileSystem(),
                location,
            )
        )
        self._directory = f"{path}/{_DIRECTORY}"

    def write(self, manifest: Manifest) -> None:
        """Put it in place whole."""
        self._filesystem.create_dir(self._directory, recursive=True)
        draft = f"{self._directory}/{manifest.batch}.draft"
        with self._filesystem.open_output_stream(draft) as stream:
            stream.write(json.dumps(manifest.to_json(), indent=1).encode())
        self._filesystem.move(draft, self._path(manifest.batch))

    def read(self, batch: str) -> Manifest | None:
        """The manifest of a batch, or None if its job never came that far."""
        try:
            with self._filesystem.open_input_stream(self._path(batch)) as stream:
                return Manifest.from_json(json.loads(stream.read()))
        except FileNotFoundError:
            return None
        except (ValueError, KeyError) as error:
            raise CorruptData(f"the manifest of staged batch {batch} is unreadable: {error}") from error

    def remove(self, batch: str) -> None:
        """Forget a batch."""
        try:
            self._filesystem.delete_file(self._path(batch))
        except FileNotFoundError:
            return

    def all(self) -> list[Manifest]:
        """Every manifest, newest batch name last."""
        from pyarrow import fs

        selector = fs.FileSelector(self._directory, allow_not_found=True)
        names = sorted(
            info.base_name.removesuffix(".json")
            for info in self._filesystem.get_file_info(selector)
            if info.base_name.endswith(".json")
        )
        return [manifest for manifest in map(self.read, names) if manifest is not None]

    def _path(self, batch: str) -> str:
        return f"{self._directory}/{batch}.json"

"""The shelf: small JSON files beside a shard, by which the parts of a staging job tell each other things.

Executors, the driver, the CLI and the next attempt meet here, wherever they run: the one place that all of
them can reach is the shard's location. A note is put whole or not at all. It is not synced: what a power cut
tears or loses reads as absent, and whoever misses it does the work again.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from hermit.persist.storage.abc import Blob

_FOLDER = "_hermit"
STAGED = "staged"


class _Place(Protocol):
    """Where the notes are."""

    def put(self, key: str, data: bytes) -> None: ...
    def get(self, key: str) -> bytes | None: ...
    def list(self, folder: str) -> list[str]: ...
    def delete(self, key: str) -> None: ...
    def clear(self, folder: str) -> None: ...


class Shelf:
    """The notes on one board of a location's shelf. Names may have folders, parted by `/`."""

    def __init__(self, location: str, board: str = STAGED) -> None:
        from hermit.persist.storage.local import LocalBlob
        from hermit.persist.storage.open import open_storage

        storage, folder = open_storage(location), f"{_FOLDER}/{board}"
        self._place: _Place = (
            _Directory(f"{storage.location}/{folder}")
            if isinstance(storage.blob, LocalBlob)
            else _Objects(storage.blob, folder)
        )

    def put(self, name: str, note: Mapping[str, Any]) -> None:
        """Put a note in place of any of this name."""
        self._place.put(f"{name}.json", json.dumps(note).encode())

    def get(self, name: str) -> dict[str, Any] | None:
        """The note, or None if there is none that can be read."""
        data = self._place.get(f"{name}.json")
        try:
            found = None if data is None else json.loads(data)
        except ValueError:
            return None
        return found if isinstance(found, dict) else None

    def raw(self, name: str) -> bytes | None:
        """The bytes of a note, for whoever must tell an unreadable one from none."""
        return self._place.get(f"{name}.json")

    def put_text(self, name: str, text: str) -> None:
        """Put a text, for people to read, in place of any of this name."""
        self._place.put(f"{name}.md", text.encode())

    def text(self, name: str) -> str | None:
        """The text, or None if there is none."""
        data = self._place.get(f"{name}.md")
        return None if data is None else data.decode()

    def names(self, folder: str = "") -> list[str]:
        """Names of all notes below a folder, relative to it, in order."""
        return [key.removesuffix(".json") for key in self._place.list(folder) if key.endswith(".json")]

    def all(self, folder: str) -> dict[str, dict[str, Any]]:
        """All notes below a folder that can be read."""
        found = {name: self.get(f"{folder}/{name}") for name in self.names(folder)}
        return {name: note for name, note in found.items() if note is not None}

    def remove(self, name: str) -> None:
        """Remove a note, if it is there."""
        self._place.delete(f"{name}.json")

    def clear(self, folder: str) -> None:
        """Remove a folder with all its notes."""
        self._place.clear(folder)


class _Directory:
    """Notes as files, on a disk or a path that machines share."""

    def __init__(self, root: str) -> None:
        self._root = root

    def put(self, key: str, data: bytes) -> None:
        path = f"{self._root}/{key}"
        draft = f"{path}.{uuid.uuid4().hex}"
        try:
            self._write(draft, data)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            self._write(draft, data)
        os.replace(draft, path)

    @staticmethod
    def _write(path: str, data: bytes) -> None:
        with open(path, "wb") as file:
            file.write(data)

    def get(self, key: str) -> bytes | None:
        try:
            with open(f"{self._root}/{key}", "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def list(self, folder: str) -> list[str]:
        top = f"{self._root}/{folder}" if folder else self._root
        found = []
        for directory, _, files in os.walk(top):
            below = os.path.relpath(directory, top)
            found += files if below == "." else [f"{below}/{name}" for name in files]
        return sorted(found)

    def delete(self, key: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(f"{self._root}/{key}")

    def clear(self, folder: str) -> None:
        shutil.rmtree(f"{self._root}/{folder}", ignore_errors=True)


class _Objects:
    """Notes as objects of the store that holds the shard."""

    def __init__(self, blob: Blob, root: str) -> None:
        self._blob, self._root = blob, root

    def put(self, key: str, data: bytes) -> None:
        self._blob.replace(f"{self._root}/{key}", data)

    def get(self, key: str) -> bytes | None:
        return self._blob.get(f"{self._root}/{key}")

    def list(self, folder: str) -> list[str]:
        top = f"{self._root}/{folder}" if folder else self._root
        return sorted(info.key.removeprefix(f"{top}/") for info in self._blob.list(top))

    def delete(self, key: str) -> None:
        self._blob.delete(f"{self._root}/{key}")

    def clear(self, folder: str) -> None:
        for name in self.list(folder):
            self.delete(f"{folder}/{name}")

"""Small files beside a shard's data: manifests, progress, reports. Any file system that Arrow knows will do.

They live under `_hermit/` in the shard's own directory, where no Delta reader and no vacuum looks. A file is
put in place whole, so that a reader finds all of it or none.
"""

from __future__ import annotations

import json
import secrets
from typing import Any

from hermit.errors import CorruptData


class Beside:
    """One directory of small files beside a shard."""

    def __init__(self, location: str, name: str) -> None:
        from pyarrow import fs

        self._filesystem, path = (
            fs.FileSystem.from_uri(location) if "://" in location else (fs.LocalFileSystem(), location)
        )
        self._directory = f"{path}/_hermit/{name}"

    def write(self, name: str, text: str) -> None:
        """Put a file in place whole, replacing the one of that name."""
        self._filesystem.create_dir(self._directory, recursive=True)
        draft = f"{self._directory}/{name}.{secrets.token_hex(4)}.draft"
        with self._filesystem.open_output_stream(draft) as stream:
            stream.write(text.encode())
        self._filesystem.move(draft, f"{self._directory}/{name}")

    def write_json(self, name: str, data: Any) -> None:
        """The same, for an object."""
        self.write(name, json.dumps(data, indent=1))

    def read(self, name: str) -> str | None:
        """A file's text, or None if there is none."""
        try:
            with self._filesystem.open_input_stream(f"{self._directory}/{name}") as stream:
                return bytes(stream.read()).decode()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except UnicodeDecodeError as error:
            raise CorruptData(f"{self._directory}/{name} is unreadable: {error}") from error

    def read_json(self, name: str) -> Any:
        """The object in a file, or None if there is none."""
        text = self.read(name)
        try:
            return None if text is None else json.loads(text)
        except ValueError as error:
            raise CorruptData(f"{self._directory}/{name} is unreadable: {error}") from error

    def remove(self, name: str) -> None:
        """Forget a file, if it is there."""
        try:
            self._filesystem.delete_file(f"{self._directory}/{name}")
        except FileNotFoundError:
            return

    def names(self, suffix: str = "") -> list[str]:
        """The files with this suffix, sorted."""
        from pyarrow import fs

        selector = fs.FileSelector(self._directory, allow_not_found=True)
        found = (info.base_name for info in self._filesystem.get_file_info(selector) if info.is_file)
        return sorted(name for name in found if name.endswith(suffix) and not name.endswith(".draft"))

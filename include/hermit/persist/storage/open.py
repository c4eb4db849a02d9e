"""From the text that names a location to the storage behind it.

`memory:NAME` is in this process; a path or `file://` URL is a directory; any other URL is an object
store, reached through delta-rs with its storage options.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from hermit.persist.storage.abc import Storage


def open_storage(location: str | Path, storage_options: dict[str, str] | None = None) -> Storage:
    """The storage of a location. Nothing is read or written yet."""
    text = str(location)
    if text.startswith("memory:"):
        from hermit.persist.storage.memory import memory_storage

        return memory_storage(text)
    if "://" in text and not text.startswith("file://"):
        from hermit.persist.storage.object_store import object_storage

        return object_storage(text, storage_options)
    from hermit.persist.storage.local import local_storage

    if text.startswith("file://"):
        return local_storage(unquote(urlsplit(text).path))
    return local_storage(text)

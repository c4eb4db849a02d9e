"""Files that this process is about to read or to name: a vacuum in the same process spares them.

Against a vacuum in another process, its retention protects: it deletes nothing younger, and nothing that was
removed from the contents more recently.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from hermit.persist.commit import DataFile

_pinned: dict[str, Counter[str]] = {}
_lock = threading.Lock()


@contextmanager
def pin(location: str, files: Iterable[DataFile]) -> Iterator[None]:
    """Protect files from a vacuum in this process."""
    paths = [file.path for file in files]
    with _lock:
        _pinned.setdefault(location, Counter()).update(paths)
    try:
        yield
    finally:
        with _lock:
            counts = _pinned[location]
            counts.subtract(paths)
            _pinned[location] = +counts


def pinned(location: str) -> set[str]:
    """The files that somebody in this process is at."""
    with _lock:
        return set(_pinned.get(location, ()))

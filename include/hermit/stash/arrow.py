"""Connections that carry Arrow: ADBC's, quick to open again in the same process.

Opening the first one to a server reads the catalog of its types, which takes as long as copying tens of
thousands of rows. A process that copies one part after the other keeps what was read, and with it one idle
connection, until it asks for another server or ends.
"""

from __future__ import annotations

import atexit
import threading
from typing import Any

_lock = threading.Lock()
_known: dict[str, Any] = {}


def connect(url: str) -> Any:
    """A new connection, in a transaction. Whoever asked closes it."""
    import adbc_driver_postgresql.dbapi as adbc

    with _lock:
        if url not in _known:
            _forget()
            _known[url] = adbc.connect(url, autocommit=True)
        return _known[url].adbc_clone()


def _forget() -> None:
    while _known:
        _known.popitem()[1].close()


atexit.register(_forget)

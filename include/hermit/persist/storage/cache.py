"""A cache of data files in memory, in front of a blob.

Only names that never change their contents are kept: data files, which carry their checksum. The least
recently used ones make room when the given number of bytes is exceeded. With 0 bytes it does nothing.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping

from hermit.persist.metrics import Metrics
from hermit.persist.storage.abc import Blob, BlobInfo, Upload


class CachingBlob:
    """A blob that remembers what it read and wrote."""

    def __init__(self, blob: Blob, bytes_max: int, metrics: Metrics) -> None:
        self._blob = blob
        self._bytes_max = bytes_max
        self._metrics = metrics
        self._files: OrderedDict[str, bytes] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, key: str) -> bytes | None:
        if not _is_immutable(key):
            return self._blob.get(key)
        with self._lock:
            data = self._files.get(key)
            if data is not None:
                self._files.move_to_end(key)
        if data is not None:
            self._metrics.add("cache_hits")
            return data
        self._metrics.add("cache_misses")
        data = self._blob.get(key)
        if data is not None:
            self._remember(key, data)
        return data

    def put(self, items: Mapping[str, bytes]) -> None:
        self._blob.put(items)
        for key, data in items.items():
            self._remember(key, data)

    def put_if_absent(self, key: str, data: bytes) -> bool:
        return self._blob.put_if_absent(key, data)

    def replace(self, key: str, data: bytes) -> None:
        self._blob.replace(key, data)

    def upload(self) -> Upload:
        return self._blob.upload()

    def delete(self, key: str) -> None:
        self._blob.delete(key)
        with self._lock:
            self._bytes -= len(self._files.pop(key, b""))

    def list(self, folder: str) -> Iterator[BlobInfo]:
        return self._blob.list(folder)

    def _remember(self, key: str, data: bytes) -> None:
        # One file must not push out everything else.
        if not _is_immutable(key) or len(data) > self._bytes_max // 4:
            return
        with self._lock:
            self._bytes += len(data) - len(self._files.pop(key, b""))
            self._files[key] = data
            while self._bytes > self._bytes_max:
                self._bytes -= len(self._files.popitem(last=False)[1])


def _is_immutable(key: str) -> bool:
    return key.endswith(".parquet") and not key.startswith("_")

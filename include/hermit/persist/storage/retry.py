"""Transient errors of a store, retried a bounded number of times with growing pauses.

Every call of a blob may be repeated: names are unique and bytes belong to names. An append to the log
may not be repeated blindly, because the first attempt may have succeeded without our hearing of it: the same
commit is put again at the same version, and if the place is taken, the commit in it says whether it is ours.
"""

from __future__ import annotations

import errno
import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from hermit.persist.commit import Commit
from hermit.persist.errors import TransientError
from hermit.persist.metrics import Metrics
from hermit.persist.storage.abc import Blob, BlobInfo, Log, Storage, StoredCommit, Upload

T = TypeVar("T")

_TRANSIENT = frozenset(
    {errno.EAGAIN, errno.EBUSY, errno.EINTR, errno.EMFILE, errno.ENFILE, errno.ESTALE, errno.ETIMEDOUT}
)


@dataclass(frozen=True)
class RetryPolicy:
    """How often and how patiently. The last error goes to the caller."""

    attempts_max: int = 8
    pause_first_s: float = 0.02
    pause_max_s: float = 2.0
    sleep: Callable[[float], None] = time.sleep

    def run(self, call: Callable[[], T], metrics: Metrics) -> T:
        pause_s = self.pause_first_s
        for _ in range(self.attempts_max - 1):
            try:
                return call()
            except (TransientError, OSError) as error:
                if not is_transient(error):
                    raise
            metrics.add("retries")
            self.sleep(pause_s * random.uniform(0.5, 1.0))
            pause_s = min(2 * pause_s, self.pause_max_s)
        return call()


def is_transient(error: BaseException) -> bool:
    """Whether trying the same again may help."""
    return isinstance(error, TransientError) or (isinstance(error, OSError) and error.errno in _TRANSIENT)


class RetryingBlob:
    """A blob whose calls are retried."""

    def __init__(self, blob: Blob, policy: RetryPolicy, metrics: Metrics) -> None:
        self._blob = blob
        self._policy = policy
        self._metrics = metrics

    def get(self, key: str) -> bytes | None:
        self._metrics.add("blob_reads")
        return self._policy.run(lambda: self._blob.get(key), self._metrics)

    def put(self, items: Mapping[str, bytes]) -> None:
        self._metrics.add("blob_writes", len(items))
        self._policy.run(lambda: self._blob.put(items), self._metrics)

    def put_if_absent(self, key: str, data: bytes) -> bool:
        return self._policy.run(lambda: self._blob.put_if_absent(key, data), self._metrics)

    def replace(self, key: str, data: bytes) -> None:
        self._policy.run(lambda: self._blob.replace(key, data), self._metrics)

    def upload(self) -> Upload:
        return self._blob.upload()

    def delete(self, key: str) -> None:
        self._policy.run(lambda: self._blob.delete(key), self._metrics)

    def list(self, folder: str) -> Iterator[BlobInfo]:
        return iter(self._policy.run(lambda: list(self._blob.list(folder)), self._metrics))


class RetryingLog:
    """A log whose calls are retried; an append is settled by the commit's own ID."""

    def __init__(self, log: Log, policy: RetryPolicy, metrics: Metrics) -> None:
        self._log = log
        self._policy = policy
        self._metrics = metrics

    def read(self, version: int) -> StoredCommit | None:
        self._metrics.add("log_reads")
        return self._policy.run(lambda: self._log.read(version), self._metrics)

    def exists(self, version: int) -> bool:
        self._metrics.add("log_checks")
        return self._policy.run(lambda: self._log.exists(version), self._metrics)

    def is_gone(self) -> bool | None:
        return self._log.is_gone()

    def append(self, version: int, commit: Commit) -> str | None:
        self._metrics.add("log_appends")
        unsure = False

        def attempt() -> str | None:
            nonlocal unsure
            try:
                checksum = self._log.append(version, commit)
            except (TransientError, OSError):
                unsure = True
                raise
            if checksum is None and unsure:
                return self._ours(version, commit)
            return checksum

        return self._policy.run(attempt, self._metrics)

    def sync(self) -> None:
        self._log.sync()

    def wait(self, version: int, timeout_s: float) -> bool:
        return self._log.wait(version, timeout_s)

    def delete(self, version: int) -> None:
        self._policy.run(lambda: self._log.delete(version), self._metrics)

    def _ours(self, version: int, commit: Commit) -> str | None:
        """The checksum of our commit if an attempt that seemed to fail put it there."""
        stored = self._log.read(version)
        if stored is None or stored.commit.id != commit.id:
            return None
        self._log.sync()
        return stored.checksum


def with_retries(storage: Storage, policy: RetryPolicy, metrics: Metrics) -> Storage:
    """The same storage, with both halves retried."""
    return Storage(
        storage.location,
        RetryingBlob(storage.blob, policy, metrics),
        RetryingLog(storage.log, policy, metrics),
    )

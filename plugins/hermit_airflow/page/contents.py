"""Rows, bytes and digest of both sides, each computed once per version of the contents.

Rows and bytes of a shard are in its log, those of a stash one aggregate. A digest costs a pass over all rows:
it is worked out beside the requests, one at a time, streaming, and for a large catalog only when asked for.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any
from uuid import UUID

from hermit.digest import Digest, combine, digest_collection
from hermit.durable.contents import MOVED, is_own_config
from hermit.persist import PersistClient
from hermit.stash import StashClient, StashTransaction
from hermit.stash.metrics import metrics
from hermit_airflow.page.shards import Watched

DIGEST_ROWS_MAX = 200_000
"""Above this a digest waits until somebody asks for it."""
_KEPT_MAX = 400
_log = logging.getLogger(__name__)


class Once:
    """Remembers what was computed for a key; the oldest go first."""

    def __init__(self, workers: int) -> None:
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="hermit-page")
        self._futures: dict[Hashable, Future[Any]] = {}
        self._lock = threading.Lock()

    def start(self, key: Hashable, compute: Callable[[], Any]) -> Future[Any]:
        """The computation of this key, begun now if it was not."""
        with self._lock:
            future = self._futures.get(key)
            if future is None or (future.done() and future.exception() is not None):
                future = self._futures[key] = self._pool.submit(compute)
                while len(self._futures) > _KEPT_MAX:
                    del self._futures[next(iter(self._futures))]
            return future

    def wait(self) -> None:
        """Until nothing is being computed."""
        with self._lock:
            begun = list(self._futures.values())
        wait(begun)

    def peek(self, key: Hashable) -> Future[Any] | None:
        """The computation of this key, if it was begun."""
        with self._lock:
            return self._futures.get(key)


class Contents:
    """What both sides of the catalogs hold."""

    def __init__(self) -> None:
        self._sizes = Once(workers=2)
        self._digests = Once(workers=1)

    def stash(self, client: StashClient, version: Hashable, *, ask: bool) -> dict[str, Any]:
        """Of a stash at this content version."""
        key = ("stash", client.organization_id, version)
        sizes: dict[str, Any] = self._sizes.start(key, lambda: _stash_sizes(client)).result()
        return {**sizes, **self._digest(key, sizes["rows"], ask, lambda: _stash_digest(client))}

    def persist(
        self, organization_id: UUID, location: str, watched: Watched, version: Hashable, *, ask: bool
    ) -> dict[str, Any]:
        """Of a shard at this content version."""
        key = ("persist", organization_id, location, version)
        sizes = _shard_sizes(watched)
        return {**sizes, **self._digest(key, sizes["rows"], ask, lambda: _shard_digest(location))}

    def wait(self) -> None:
        """Until every digest that was asked for is known."""
        self._digests.wait()

    def _digest(self, key: Hashable, rows: int, ask: bool, compute: Callable[[], Digest]) -> dict[str, Any]:
        if ask or rows <= DIGEST_ROWS_MAX:
            future = self._digests.start(key, compute)
        else:
            found = self._digests.peek(key)
            if found is None:
                return {"digest": None, "digest_state": "on request"}
            future = found
        if not future.done():
            return {"digest": None, "digest_state": "working"}
        error = future.exception()
        if error is not None:
            _log.warning("a digest could not be worked out: %s", error)
            return {"digest": None, "digest_state": "failed"}
        return {"digest": str(future.result()), "digest_state": "known"}


def _stash_sizes(client: StashClient) -> dict[str, Any]:
    collections = _nothing()
    for size in metrics(client):
        if size.name in collections:
            collections[size.name] = {"rows": size.live_rows, "bytes": size.bytes, "updates": size.rows}
    return _totals(collections)


def _shard_sizes(watched: Watched) -> dict[str, Any]:
    collections = _nothing()
    for file in watched.state().files(MOVED):
        size = collections[file.collection]
        size["updates"] += file.rows
        size["bytes"] += file.bytes
    for name, live in watched.live_rows(collections).items():
        collections[name]["rows"] = live
    return _totals(collections)


def _nothing() -> dict[str, dict[str, int]]:
    return {name: {"rows": 0, "bytes": 0, "updates": 0} for name in MOVED}


def _totals(collections: dict[str, dict[str, int]]) -> dict[str, Any]:
    total = {
        field: sum(size[field] for size in collections.values()) for field in ("rows", "bytes", "updates")
    }
    return {**total, "collections": collections}


def _stash_digest(client: StashClient) -> Digest:
    def look(transaction: StashTransaction | None) -> Digest:
        if transaction is None:
            return Digest()
        held = transaction.collections()
        return combine(_moved(name, transaction.rows(name)) for name in MOVED if name in held)

    return client.look(look)


def _shard_digest(location: str) -> Digest:
    with PersistClient.open(location, mode="ro") as client:
        upper = client.state().upper(MOVED[0])
        if upper == 0:
            return Digest()
        return combine(_moved(name, _pairs(client, name, upper - 1)) for name in MOVED)


def _pairs(client: PersistClient, name: str, as_of: int) -> Iterator[tuple[bytes, bytes]]:
    return ((key, value) for _, key, value, _ in client.snapshot([name], as_of))


def _moved(name: str, pairs: Iterator[tuple[bytes, bytes]]) -> Digest:
    return digest_collection(name, (pair for pair in pairs if not is_own_config(name, pair[0])))

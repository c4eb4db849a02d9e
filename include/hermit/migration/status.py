"""Where the truth is, and why: the same facts for the CLI, the UI and sensors.

Rows, bytes and digest cost a pass over the contents. They are kept in a small cache under the content
version they belong to, so that asking again costs nothing until the contents change.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hermit.digest import combine
from hermit.identity import shard_id
from hermit.migration.stores import Stores


def status(stores: Stores, cache: Path | None = None) -> dict[str, Any]:
    """Everything that `hermit status --json` prints."""
    state = stores.state()
    return {
        "organization_id": str(stores.organization_id),
        "source_of_truth": state.truth.store.value,
        "why": state.truth.why,
        "protocol": state.protocol.name,
        "stash": _side(stores.stash, cache, _stash_facts(stores, cache)),
        "persist": _side(stores.persist, cache, _persist_facts(stores)),
    }


def _side(unopened: Any, cache: Path | None, facts: dict[str, Any]) -> dict[str, Any]:
    initialized = unopened.is_initialized()
    upgrade = unopened.last_upgrade()
    contents = _contents(unopened, cache) if initialized else {"rows": 0, "bytes": 0, "digest": None}
    return {
        "initialized": initialized,
        "epoch": unopened.epoch(),
        "tombstone": unopened.tombstone(),
        "deploy_generation": unopened.deploy_generation(),
        "format_version": unopened.format_version(),
        "last_upgrade": None if upgrade is None else upgrade.to_json(),
        **contents,
        **facts,
    }


def _contents(unopened: Any, cache: Path | None) -> dict[str, Any]:
    with unopened.inspect() as view:
        key = f"{unopened.store} {unopened.identity} {view.content_version()}"
        return _cached(cache, key, lambda: _measure(view))


def _measure(view: Any) -> dict[str, Any]:
    metrics = view.metrics()
    return {
        "rows": sum(metric.live_rows for metric in metrics),
        "bytes": sum(metric.bytes for metric in metrics),
        "digest": str(combine(view.digests().values())),
        "collections": {metric.name: {"rows": metric.live_rows, "bytes": metric.bytes} for metric in metrics},
    }


def _cached(cache: Path | None, key: str, measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    if cache is None:
        return measure()
    path = cache / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"
    try:
        found: dict[str, Any] = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        found = measure()
        cache.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(".draft")
        draft.write_text(json.dumps(found))
        draft.rename(path)
    return found


def _stash_facts(stores: Stores, cache: Path | None) -> dict[str, Any]:
    """What is stored, history included: it changes with a write, and when updates are merged."""
    from hermit.stash.metrics import metrics, unmerged

    client = stores.stash.client
    fence = client.fence()
    version = fence.version if fence is not None else None
    key = f"stored {stores.stash.identity} {version} {unmerged(client)}"
    return {"stored": _cached(cache, key, lambda: {m.name: _stored(m) for m in metrics(client)})}


def _stored(metrics: Any) -> dict[str, int]:
    return {"rows": metrics.rows, "live_rows": metrics.live_rows, "bytes": metrics.bytes}


def _persist_facts(stores: Stores) -> dict[str, Any]:
    return {**stores.persist.frontiers(), "shard_id": shard_id(stores.organization_id)}

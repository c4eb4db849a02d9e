"""The traffic of a catalog: contents to begin with, and what was committed on top of them, in order.

It comes from a catalog's own history, from following one as it changes, or from a file that was recorded
before. A file has one JSON object per line: the contents first, then one line per commit, with keys
and values as `hermit debug dump` shows them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hermit.durable.abc import CatalogInspection, DurableCatalogState, UnopenedCatalogState
from hermit.durable.contents import moved_rows
from hermit.durable.dump import row_to_json, show
from hermit.durable.transaction import kind_named
from hermit.errors import InvalidInput
from hermit.formats import codec, config
from hermit.formats.versions import STASH_VERSION
from hermit.rows import Row, Update, consolidate

Changes = Sequence[tuple[Row, int]]
_USER_VERSION = config.encode_key(config.USER_VERSION)


@dataclass(frozen=True)
class Traffic:
    """Where it starts, and the commits from there on."""

    contents: Sequence[Row]
    commits: Iterable[Changes]


def from_history(unopened: UnopenedCatalogState) -> Traffic:
    """Everything that the store still knows, from the oldest state that is spelled in the current format."""
    with unopened.inspect() as found:
        times = _by_time(found)
    start = _first_current(times)
    contents = consolidate(update for updates in times[:start] for update in updates)
    if any(_is_older(row) for row in contents):
        with unopened.open_savepoint() as upgraded:
            return Traffic(list(upgraded.snapshot()), [])
    return Traffic(list(moved_rows(contents)), [_changes(updates) for updates in times[start:]])


def follow(catalog: DurableCatalogState, seconds: float, commits_max: int | None = None) -> Traffic:
    """What is committed from now on, for a while."""
    subscription = catalog.subscribe()
    contents = list(catalog.snapshot())

    def commits() -> Iterator[Changes]:
        deadline_s, count = time.monotonic() + seconds, 0
        while commits_max is None or count < commits_max:
            batch = subscription.next(timeout_s=max(0.0, deadline_s - time.monotonic()))
            if batch is None:
                return
            count += 1
            yield _changes(batch.updates)

    return Traffic(contents, commits())


def write(traffic: Traffic, path: Path) -> int:
    """Record traffic in a file, each commit as soon as it happens; returns their number."""
    count = 0
    with path.open("w") as file:
        file.write(_line([(row, 1) for row in traffic.contents]))
        for changes in traffic.commits:
            file.write(_line(changes))
            file.flush()
            count += 1
    return count


def read(path: Path) -> Traffic:
    """Traffic that was recorded."""
    try:
        lines = [_parse(line) for line in path.read_text().splitlines() if line.strip()]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidInput(f"{path} holds no recorded traffic: {error}") from error
    if not lines:
        raise InvalidInput(f"{path} holds no recorded traffic: it is empty")
    return Traffic([row for row, _ in lines[0]], lines[1:])


def _line(changes: Changes) -> str:
    shown = [{"kind": row.collection, "diff": diff, **row_to_json(*row)} for row, diff in changes]
    return json.dumps(shown, ensure_ascii=False) + "\n"


def _parse(line: str) -> Changes:
    def row(shown: dict[str, Any]) -> tuple[Row, int]:
        kind = kind_named(shown["kind"])
        key = codec.encode_key(kind, codec.from_json(kind, "key", shown["key"]))
        value = codec.encode_value(kind, codec.from_json(kind, "value", shown["value"]))
        return Row(kind.name, key, value), int(shown["diff"])

    return [row(shown) for shown in json.loads(line)]


def _by_time(found: CatalogInspection) -> list[list[Update]]:
    times: dict[int, list[Update]] = {}
    for update in found.snapshot_unconsolidated():
        times.setdefault(update.time, []).append(update)
    return [updates for _, updates in sorted(times.items())]


def _first_current(times: list[list[Update]]) -> int:
    """The first commit after everything that initialized or upgraded the catalog."""
    setup = [
        index
        for index, updates in enumerate(times)
        if any(update.key == _USER_VERSION or _is_older(update.row) for update in updates)
    ]
    return setup[-1] + 1 if setup else 0


def _is_older(row: Row) -> bool:
    shown = show(row.collection, "key", row.key), show(row.collection, "value", row.value)
    return any(part.version != STASH_VERSION for part in shown)


def _changes(updates: Sequence[Update]) -> Changes:
    # What a transaction did is what is left of it: a row that came and went in one is no change.
    return list(consolidate(updates).items())

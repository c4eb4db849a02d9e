"""The shards that the page looks at, each kept open and read again only when somebody committed.

Whether anybody did is one call to the store. Nothing is fenced: looking raises no epoch.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hermit.durable.bootstrap import read_config
from hermit.durable.contents import CONFIG
from hermit.durable.shard import Shard, position_of, upper_of
from hermit.persist.batch import read_file
from hermit.persist.errors import ReadBeforeSince
from hermit.persist.storage.open import open_storage

if TYPE_CHECKING:
    from hermit.persist.commit import DataFile
    from hermit.persist.state import State

_ATTEMPTS_MAX = 10
_KEPT_MAX = 1000
_COMMITS_MAX = 200
_COMPACTION = "OPTIMIZE"


@dataclass(frozen=True)
class ShardFacts:
    """What a shard says of itself at one version; -1 is one that does not exist yet."""

    version: int = -1
    content_version: int = 0
    epoch: int | None = None
    opened_by: str | None = None
    deploy_generation: int | None = None
    upper: int = 0
    since: int = 0
    config: Mapping[str, int] = field(default_factory=dict)


class Watched:
    """One shard, with what was last read from it."""

    def __init__(self, location: str) -> None:
        self._shard = Shard(location)
        self._facts = ShardFacts()
        self._lock = threading.Lock()
        self._sums: dict[str, int] = {}
        self._compacted: tuple[int, int | None] = (-1, None)

    def state(self) -> State:
        """The files and frontiers, as they are now."""
        return self._shard.client.state()

    def facts(self) -> ShardFacts:
        """What it says of itself now."""
        with self._lock:
            if self._facts.version < 0 or not self._shard.client.is_current(self._facts.version):
                self._facts = self._read()
            return self._facts

    def live_rows(self, names: Iterable[str]) -> dict[str, int]:
        """What the diffs of each collection sum to. A file whose diffs differ is read once."""
        state, live = self.state(), dict.fromkeys(names, 0)
        for file in state.files(live):
            live[file.collection] += self._sum(file)
        self._sums = {path: total for path, total in self._sums.items() if path in state.live}
        return live

    def _sum(self, file: DataFile) -> int:
        if file.diff_min == file.diff_max:
            return file.rows * file.diff_min
        if file.path not in self._sums:
            column = read_file(self._shard.location, file, ["diff"])["diff"]
            self._sums[file.path] = int(column.to_numpy().sum())
        return self._sums[file.path]

    def compacted_ms(self) -> int | None:
        """When files were last merged, as far back as the log is kept, and 200 commits at most."""
        newest = self.state().version
        seen, found = self._compacted
        log = open_storage(self._shard.location).log
        for version in range(newest, max(seen, newest - _COMMITS_MAX), -1):
            stored = log.read(version)
            if stored is None:
                break
            if stored.commit.operation == _COMPACTION:
                found = stored.commit.timestamp_ms
                break
        self._compacted = (newest, found)
        return found

    def _read(self) -> ShardFacts:
        for attempt in range(1, _ATTEMPTS_MAX + 1):
            state = self._shard.client.state()
            try:
                return self._at(state)
            except ReadBeforeSince:
                # It was compacted past what was just read; what is there now can be read.
                if attempt == _ATTEMPTS_MAX:
                    raise
        return ShardFacts()

    def _at(self, state: State) -> ShardFacts:
        upper = upper_of(state)
        fence = self._shard.fence(upper)
        return ShardFacts(
            version=state.version,
            content_version=position_of(state).version,
            epoch=fence.epoch if fence else None,
            opened_by=fence.opened_by if fence else None,
            deploy_generation=fence.deploy_generation if fence else None,
            upper=upper,
            since=state.since(CONFIG),
            config=read_config(self._shard.rows(CONFIG, upper).items()),
        )


class Shards:
    """All shards that were looked at lately."""

    def __init__(self) -> None:
        self._watched: dict[str, Watched] = {}
        self._lock = threading.Lock()

    def get(self, location: str) -> Watched:
        """The shard there; the one that was not asked for longest goes first."""
        with self._lock:
            watched = self._watched.pop(location, None) or Watched(location)
            self._watched[location] = watched
            while len(self._watched) > _KEPT_MAX:
                del self._watched[next(iter(self._watched))]
            return watched

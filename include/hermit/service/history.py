"""The versions that a node holds in memory: found by number and by time in a few comparisons.

Versions without a gap, oldest first, in one list, and their activation times in another, which only grow.
Both lists are appended to and never changed otherwise, catalog first, so that readers need no lock: whoever
finds a time finds its catalog. Forgetting old versions makes a new pair of lists.
"""

from __future__ import annotations

from bisect import bisect_right

from hermit.errors import invariant
from hermit.service.catalog import Catalog
from hermit.service.clock import HybridTimestamp, physical_ms
from hermit.service.errors import TimestampCompacted, VersionCompacted, VersionNotYetAvailable


class History:
    """Consecutive versions, from the earliest that is held to the latest."""

    __slots__ = ("_catalogs", "_times", "earliest")

    def __init__(self, first: Catalog) -> None:
        self.earliest = first.version
        self._catalogs = [first]
        self._times: list[int] = [first.time]

    @property
    def latest(self) -> Catalog:
        """The newest version."""
        return self._catalogs[-1]

    def append(self, catalog: Catalog) -> None:
        """Add the next version."""
        latest = self._catalogs[-1]
        invariant(
            catalog.version == latest.version + 1, "versions follow each other", version=catalog.version
        )
        invariant(catalog.time > latest.time, "activation times only grow", version=catalog.version)
        self._catalogs.append(catalog)
        self._times.append(catalog.time)

    def at_version(self, version: int) -> Catalog:
        """The catalog at a version."""
        index = version - self.earliest
        if index >= 0:
            try:
                return self._catalogs[index]
            except IndexError:
                raise VersionNotYetAvailable(
                    f"version {version} has not arrived on this node: the latest is {self.latest.version}",
                    version=version,
                    earliest=self.earliest,
                    latest=self.latest.version,
                ) from None
        raise VersionCompacted(
            f"version {version} is no longer available: the earliest is {self.earliest}",
            hint=f"ask for version {self.earliest} or later",
            version=version,
            earliest=self.earliest,
            latest=self.latest.version,
        )

    def at_time(self, timestamp: HybridTimestamp) -> Catalog:
        """The version last active at a time."""
        index = bisect_right(self._times, timestamp)
        if index:
            return self._catalogs[index - 1]
        first_ms = physical_ms(HybridTimestamp(self._times[0]))
        raise TimestampCompacted(
            f"the catalog of {physical_ms(timestamp)} ms is no longer available: "
            f"the earliest version is {self.earliest}, active since {first_ms} ms",
            timestamp=timestamp,
            earliest=self.earliest,
        )

    def from_version(self, version: int) -> History:
        """The same history, without the versions before this one."""
        index = max(0, version - self.earliest)
        kept = History(self._catalogs[index])
        for catalog in self._catalogs[index + 1 :]:
            kept.append(catalog)
        return kept

    def __len__(self) -> int:
        return len(self._times)

"""Who still needs which versions: readers on this node, and all nodes of the cluster.

A reader pins the version that it works with; the version stays readable on its node until it lets go. A
node tells the others, through one row of the log, the lowest version that it needs: the lowest one pinned,
or the last one that it applied, whichever is lower. Such a claim expires, so that a node which died does
not keep the log from being compacted for ever; a node that was merely away for longer finds out (see
`VERSIONS_SKIPPED`).
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from hermit.service.errors import LogDamaged


class Claim(NamedTuple):
    """The lowest version that a node needs, and until when (ms) that counts."""

    version: int
    expires_ms: int


class Readers:
    """The claims of all nodes."""

    def __init__(self, claims: Mapping[str, Claim]) -> None:
        self.claims = dict(claims)

    def lowest(self, now_ms: int, *, but: str | None = None) -> tuple[int, str] | None:
        """The lowest version that anybody, but for one node, needs, and who."""
        live = [
            (claim.version, node)
            for node, claim in self.claims.items()
            if claim.expires_ms > now_ms and node != but
        ]
        return min(live, default=None)

    def with_claim(self, node: str, claim: Claim | None, now_ms: int) -> Readers:
        """With a node's claim renewed or given up, and without those that expired."""
        claims = {name: each for name, each in self.claims.items() if each.expires_ms > now_ms}
        claims.pop(node, None)
        if claim is not None:
            claims[node] = claim
        return Readers(claims)

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> Readers:
        """The claims, as the log holds them."""
        try:
            return cls({node: Claim(int(claim[0]), int(claim[1])) for node, claim in facts.items()})
        except (ValueError, TypeError, IndexError) as error:
            raise LogDamaged("the claims of readers in the log cannot be read") from error


class Pins:
    """The versions that readers on this node work with."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self._lock = threading.Lock()

    @contextmanager
    def hold(self, version: int) -> Iterator[None]:
        """Keep a version readable here for as long as the block runs."""
        self.add(version)
        try:
            yield
        finally:
            self.remove(version)

    def add(self, version: int) -> None:
        """Keep a version readable here until it is removed as often."""
        with self._lock:
            self._counts[version] += 1

    def remove(self, version: int) -> None:
        """Let go of a version."""
        with self._lock:
            self._counts[version] -= 1
            if not self._counts[version]:
                del self._counts[version]

    def lowest(self) -> int | None:
        """The lowest version that is pinned."""
        with self._lock:
            return min(self._counts, default=None)

    @contextmanager
    def unchanged(self) -> Iterator[int | None]:
        """The lowest version that is pinned, while nobody pins or lets go."""
        with self._lock:
            yield min(self._counts, default=None)

"""A node's link to the catalog: found, joined, lost and found again.

All nodes of a service write under one fencing token. Who opened the catalog wrote that token into it
(setting `catalog_service.owner`); the others find that it is the current one and go on as the same
opener. Nodes do not fence each other then: the compare-and-set of each append decides between them.

Anybody else who opens the catalog, above all a move, raises the epoch: every node is fenced at once. From
then on a node only reads, through a handle that fences nobody, wherever the truth is; and waits

- until the token in the catalog is the current one again: another node has taken over, and it joins;
- until the truth is in another store: the move is over, and it takes over there, unless somebody has opened
  that since, as the next move does: then it waits again;
- until its patience ends: then it takes the catalog back, and a move that still runs is the one fenced.

The nodes wait for a random moment before they take over, so that usually one does and the rest join it. If
two do, the later one fences the earlier one, which then joins.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable

from hermit.durable.abc import DurableCatalogState, UnopenedCatalogState
from hermit.durable.errors import UpgradeNeeded
from hermit.durable.token import FenceToken
from hermit.errors import InvalidInput, NotInitialized
from hermit.service.clock import monotonic_ms
from hermit.service.errors import LogDamaged
from hermit.service.homes import Home
from hermit.service.log import UpdateLog
from hermit.service.settings import ServiceSettings
from hermit.service.wire.marshaller import UpdateLogMarshaller

OWNER = "catalog_service.owner"


class Link:
    """The way to the log: none, to read, or to read and write."""

    def __init__(
        self,
        home: Home,
        settings: ServiceSettings,
        marshaller: UpdateLogMarshaller,
        now_ms: Callable[[], int] = monotonic_ms,
    ) -> None:
        self._home = home
        self._settings = settings
        self._marshaller = marshaller
        self._now_ms = now_ms
        self._left: str | None = None
        self._take_over_ms: int | None = None
        self._opener: FenceToken | None = None
        self.log: UpdateLog | None = None
        self.writable = False

    @property
    def store(self) -> str | None:
        """The store that the log is read from."""
        return None if self.log is None else self.log.state.store

    def improve(self) -> bool:
        """Try to get from nothing to reading, and from reading to writing. Whether the log is another one.

        After this the log, if there is one, was in the store that holds the truth.
        """
        if self.writable:
            return False
        truth = self._home.locate()
        changed = self._read_from(truth)
        if self.log is not None:
            token = self.log.state.token
            if _is_same(owner(self.log.state), token):
                return self._attach(truth.resume(token), writable=True)
        if self._may_take_over(truth):
            return self._take_over()
        return changed

    def lose(self) -> None:
        """Let go of a log that somebody else owns now."""
        if self.writable:
            self._left = self.store
            self._take_over_ms = self._opener = None
        if self.log is not None:
            self.log.close()
        self.log = None
        self.writable = False

    def _read_from(self, truth: UnopenedCatalogState) -> bool:
        """Follow the truth without fencing anybody, unless there is nothing there to follow."""
        if self.store == truth.store:
            return False
        try:
            return self._attach(truth.open_read_only(preload=False), writable=False)
        except (NotInitialized, UpgradeNeeded):
            return False

    def _may_take_over(self, truth: UnopenedCatalogState) -> bool:
        now_ms = self._now_ms()
        jitter_ms = random.randrange(self._settings.take_over_jitter_ms + 1)
        opener = None if self.log is None else self.log.state.token
        is_opened_anew = self._opener is not None and not _is_same(self._opener, opener)
        was_in = self._left or (self._opener.store if self._opener else truth.store)
        if was_in != truth.store:
            # The truth has moved: there is nothing to wait for but the other nodes.
            self._left = None
            self._take_over_ms = now_ms + jitter_ms
        elif self._take_over_ms is None or is_opened_anew:
            must_wait = self._left is not None or is_opened_anew or self._home.is_moving()
            self._take_over_ms = now_ms + jitter_ms + must_wait * self._settings.move_patience_ms
        self._opener = opener
        return now_ms >= self._take_over_ms

    def _take_over(self) -> bool:
        self._take_over_ms = None
        state = self._home.take_over()
        try:
            state.set_setting(OWNER, json.dumps(state.token.to_json(), sort_keys=True))
        except BaseException:
            state.close()
            raise
        return self._attach(state, writable=True)

    def _attach(self, state: DurableCatalogState, *, writable: bool) -> bool:
        if self.log is not None:
            self.log.close()
        self.log = UpdateLog(state, self._marshaller)
        self.writable = writable
        if writable:
            self._left = self._take_over_ms = self._opener = None
        return True


def owner(state: DurableCatalogState) -> FenceToken | None:
    """The token under which the nodes of the service write."""
    found = state.get_setting_by_name(OWNER)
    if found is None:
        return None
    try:
        return FenceToken.from_json(json.loads(found.value.value))
    except (ValueError, InvalidInput) as error:
        raise LogDamaged(f"the setting {OWNER} holds no fencing token") from error


def _is_same(owner: FenceToken | None, token: FenceToken | None) -> bool:
    if owner is None or token is None:
        return owner is token
    return (owner.store, owner.epoch, owner.nonce) == (token.store, token.epoch, token.nonce)

"""What the page knows of every catalog, read from the stores themselves and never guessed.

The list costs a few statements per stash, whatever the number of catalogs, and one look at those shards that
decide something. What is read is kept for half a second and shared: many open pages cost as much as one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar
from uuid import UUID

from hermit.durable.contents import MOVE_PROTOCOL, OWN_CONFIG
from hermit.durable.reads import as_tombstone
from hermit.errors import HermitError, InvalidInput, Unavailable
from hermit.formats import config as config_keys
from hermit.identity import parse_organization_id, shard_id
from hermit.migration.history import History
from hermit.migration.protocol import Protocol, Tombstones, by_number
from hermit.stash import StashClient
from hermit.stash.survey import Surveyed, Surveyor
from hermit_airflow.page.contents import Contents
from hermit_airflow.page.diagram import state_id, transitions
from hermit_airflow.page.place import Place
from hermit_airflow.page.shards import ShardFacts, Shards, Watched

T = TypeVar("T")
_FRESH_S = 0.5
_PLACES_FRESH_S = 30.0
_REPORTS_FRESH_S = 3.0
_KEPT_MAX = 4096
_ATTEMPTS_MAX = 5
_WORKERS = 8


class NoSuchCatalog(HermitError):
    """No configured stash holds this organization."""


@dataclass(frozen=True)
class Sighting:
    """Both sides of one catalog as they were together at one moment."""

    place: Place
    stash: Surveyed
    shard: ShardFacts | None
    """None where nobody asked for it."""
    upper: int = 0
    since: int = 0
    restless: bool = False
    """Whether it kept changing, so that both sides were never seen together."""

    @property
    def organization_id(self) -> UUID:
        """Whose catalog it is."""
        return self.stash.organization_id

    @property
    def protocol(self) -> Protocol:
        """The protocol that it is under."""
        return by_number(self.stash.config.get(MOVE_PROTOCOL))

    @property
    def needs_shard(self) -> bool:
        """Whether the shard's tombstone decides where the truth is."""
        try:
            return self.protocol.watches_persist
        except InvalidInput:
            return False  # A protocol of a later release: its line says so.

    @property
    def tombstones(self) -> Tombstones:
        """What both sides say of themselves."""
        shard = self.shard.config if self.shard else {}
        return Tombstones(
            as_tombstone(self.stash.config.get(config_keys.TOMBSTONE)),
            as_tombstone(shard.get(config_keys.TOMBSTONE)),
        )

    @property
    def location(self) -> str:
        """Where its shard is."""
        return f"{self.place.shards.rstrip('/')}/{shard_id(self.organization_id)}"


@dataclass
class _Kept:
    lock: threading.Lock = field(default_factory=threading.Lock)
    made_s: float | None = None
    value: Any = None


class Shared:
    """Answers that are worked out once for everybody who asks within a moment."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, _Kept] = {}
        self._lock = threading.Lock()

    def get(self, key: Hashable, fresh_s: float, make: Callable[[], T]) -> T:
        """What was made for this key at most so long ago, or else made now by one of those who wait."""
        with self._lock:
            kept = self._kept[key] = self._kept.pop(key, None) or _Kept()
            while len(self._kept) > _KEPT_MAX:
                del self._kept[next(iter(self._kept))]
        with kept.lock:
            if kept.made_s is None or time.monotonic() - kept.made_s > fresh_s:
                kept.value = make()
                kept.made_s = time.monotonic()
            found: T = kept.value
            return found


class Catalogs:
    """Every configured catalog."""

    def __init__(self, find_places: Callable[[], list[Place]]) -> None:
        self._find_places = find_places
        self._shared = Shared()
        self._shards = Shards()
        self._surveyors: dict[str, Surveyor] = {}
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(_WORKERS, thread_name_prefix="hermit-page")
        self.contents = Contents()

    def close(self) -> None:
        """Let go of all connections."""
        with self._lock:
            for surveyor in self._surveyors.values():
                surveyor.close()

    # Which there are

    def places(self) -> list[Place]:
        """The pairs of connections, looked up now and then."""
        return self._shared.get("places", _PLACES_FRESH_S, self._find_places)

    def list(self) -> tuple[list[Sighting], list[dict[str, str]]]:
        """All catalogs, and the places that did not answer."""
        return self._shared.get("list", _FRESH_S, self._list)

    def find(self, organization_id: str) -> Sighting:
        """One catalog, both sides read together."""
        wanted = parse_organization_id(organization_id)
        return self._shared.get(wanted, _FRESH_S, lambda: self._find(wanted))

    def watched(self, sighting: Sighting) -> Watched:
        """The shard of a catalog."""
        return self._shards.get(sighting.location)

    def _list(self) -> tuple[list[Sighting], list[dict[str, str]]]:
        found: list[Sighting] = []
        silent = []
        for place in self.places():
            try:
                found += self._in_place(place)
            except HermitError:
                # What exactly went wrong may name hosts and users: that is for the log, not for the page.
                silent.append({"place": place.name, "error": f"{place.stash_conn_id} does not answer"})
        return found, silent

    def _in_place(self, place: Place) -> list[Sighting]:
        surveyor = self._surveyor(place)
        stashes = surveyor.survey()
        pending = [Sighting(place, stash, None) for stash in stashes.values()]
        done = [sighting for sighting in pending if not sighting.needs_shard]
        pending = [sighting for sighting in pending if sighting.needs_shard]
        for _ in range(_ATTEMPTS_MAX):
            if not pending:
                break
            seen = list(self._pool.map(self._with_shard, pending))
            marks = surveyor.marks([one.organization_id for one in seen])
            done += [one for one in seen if marks.get(one.organization_id) == one.stash.mark]
            moving = [one.organization_id for one in seen if marks.get(one.organization_id) != one.stash.mark]
            again = surveyor.survey(moving) if moving else {}
            pending = [Sighting(place, stash, None) for stash in again.values()]
        done += [replace(one, restless=True) for one in pending]
        return sorted(done, key=lambda one: one.organization_id)

    def _find(self, organization_id: UUID) -> Sighting:
        silent: Unavailable | None = None
        for place in self.places():
            try:
                found = self._find_in(place, organization_id)
            except Unavailable as error:
                silent = error
            else:
                if found is not None:
                    return found
        raise silent or NoSuchCatalog(f"no configured stash holds a catalog of {organization_id}")

    def _find_in(self, place: Place, organization_id: UUID) -> Sighting | None:
        surveyor = self._surveyor(place)
        for _ in range(_ATTEMPTS_MAX):
            before = surveyor.survey([organization_id]).get(organization_id)
            if before is None:
                return None
            upper, since = surveyor.frontiers(organization_id)
            seen = self._with_shard(Sighting(place, before, None, upper, since))
            # While the stash stood still, what both say was true together.
            if surveyor.marks([organization_id]).get(organization_id) == before.mark:
                return seen
        raise Unavailable("the stash keeps changing while its state is being read", hint="try again")

    def _with_shard(self, sighting: Sighting) -> Sighting:
        return replace(sighting, shard=self.watched(sighting).facts())

    def _surveyor(self, place: Place) -> Surveyor:
        with self._lock:
            return self._surveyors.setdefault(place.stash_url, Surveyor(place.stash_url))

    # What they say

    def shared(self, key: Hashable, fresh_s: float, make: Callable[[], T]) -> T:
        """What is worked out once for all who ask within a moment."""
        return self._shared.get(key, fresh_s, make)

    def reports(self, sighting: Sighting, limit: int) -> list[dict[str, Any]]:
        """The reports that moves left beside the shard, newest first."""
        key = ("reports", sighting.organization_id, limit)
        return self._shared.get(key, _REPORTS_FRESH_S, lambda: History(sighting.location).list(limit))

    def sizes(self, sighting: Sighting, *, ask: bool) -> dict[str, Any]:
        """Rows, bytes and digest of both sides."""
        client = StashClient(sighting.place.stash_url, sighting.organization_id)
        stash_version = (sighting.stash.heap, sighting.stash.version)
        shard_version = sighting.shard.content_version if sighting.shard else 0
        stash = self.contents.stash(client, stash_version, ask=ask)
        persist = self.contents.persist(
            sighting.organization_id, sighting.location, self.watched(sighting), shard_version, ask=ask
        )
        return {
            "stash": _without_own(stash, sighting.stash.config),
            "persist": _without_own(persist, sighting.shard.config if sighting.shard else {}),
        }


def summary(sighting: Sighting) -> dict[str, Any]:
    """One line of the list."""
    try:
        protocol = sighting.protocol
    except InvalidInput as error:
        return {"organization_id": str(sighting.organization_id), "error": str(error)}
    if sighting.restless:
        return {"organization_id": str(sighting.organization_id), "error": "it keeps changing"}
    tombstones = sighting.tombstones
    truth = protocol.truth(tombstones)
    return {
        "organization_id": str(sighting.organization_id),
        "place": sighting.place.name,
        "protocol": protocol.name,
        "state": state_id(protocol, tombstones),
        "source_of_truth": truth.store.value,
        "why": truth.why,
        "reachable": truth.reachable,
        "settled": protocol.is_settled(tombstones),
        "epoch": max(sighting.stash.epoch or 0, (sighting.shard.epoch if sighting.shard else 0) or 0),
        "format_version": sighting.stash.config.get(config_keys.USER_VERSION),
    }


def facts(sighting: Sighting) -> dict[str, Any]:
    """Both backends side by side, as far as that costs nothing."""
    shard = sighting.shard or ShardFacts()
    tombstones = sighting.tombstones
    return {
        **summary(sighting),
        "transitions": transitions(sighting.protocol, tombstones),
        "stash": {
            **_config(sighting.stash.config),
            "initialized": config_keys.USER_VERSION in sighting.stash.config,
            "epoch": sighting.stash.epoch,
            "opened_by": sighting.stash.opened_by or None,
            "tombstone": tombstones.stash,
            "upper": sighting.upper,
            "since": sighting.since,
            "content_version": sighting.stash.version,
        },
        "persist": {
            **_config(shard.config),
            "initialized": shard.upper > 0,
            "epoch": shard.epoch,
            "opened_by": shard.opened_by,
            "tombstone": tombstones.persist,
            "upper": shard.upper,
            "since": shard.since,
            "content_version": shard.content_version,
            "delta_version": shard.version if shard.version >= 0 else None,
            "shard_id": shard_id(sighting.organization_id),
        },
    }


def _config(config: Any) -> dict[str, Any]:
    return {
        "format_version": config.get(config_keys.USER_VERSION),
        "deploy_generation": config.get(config_keys.DEPLOY_GENERATION),
    }


def _without_own(sizes: dict[str, Any], config: Any) -> dict[str, Any]:
    """Config entries that speak of the store are no contents: both sides count alike."""
    own = sum(key in config for key in OWN_CONFIG)
    collections = {name: dict(size) for name, size in sizes["collections"].items()}
    if own and "config" in collections:
        collections["config"]["rows"] -= own
    return {
        **sizes,
        "rows": sizes["rows"] - (own if "config" in collections else 0),
        "collections": collections,
    }

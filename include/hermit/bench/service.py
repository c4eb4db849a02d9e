"""The bars of the versioned catalog service.

The first ones are of memory alone. Recovery and group commit run on both stores, the stash on a PostgreSQL
of its own that syncs as it would in earnest. Rounds take turns, and the best of each side counts: the
machine is shared. Where a store takes part, the two sides of each round are compared, and the median counts:
what the disk and other processes do to it changes by the second, and two bests would be of two moments.
"""

from __future__ import annotations

import itertools
import statistics
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from hermit.bench import Bar
from hermit.durable import init_persist_catalog_state, init_stash_catalog_state
from hermit.durable.abc import UnopenedCatalogState
from hermit.embedded.postgres import EmbeddedPostgres
from hermit.service.catalog import Catalog
from hermit.service.clock import HybridClock, HybridTimestamp, hybrid
from hermit.service.commands import ColumnDefinition, CreateTable
from hermit.service.descriptors import SchemaDescriptor, ZoneDescriptor
from hermit.service.entries import UpdateEntry
from hermit.service.follower import Follower
from hermit.service.history import History
from hermit.service.homes import OneStore
from hermit.service.log import Appendable, UpdateLog
from hermit.service.manager import CatalogManager
from hermit.service.service import CatalogService
from hermit.service.settings import ServiceSettings
from hermit.service.snapshot import take
from hermit.service.types import ColumnType
from hermit.service.update import VersionedUpdate
from hermit.service.wire.marshaller import UpdateLogMarshaller

_VERSIONS = 10_000
_VERSIONS_FEW = 1_000
_CLIENTS = 64
_COMMANDS_EACH = 25
_COMMANDS_ONE_BY_ONE = 100
_CALLS = 2_000
_CALLS_TIMED = 20
_TARGETS = 500
_LIMIT_US = 5.0

Unopened = Callable[[], UnopenedCatalogState]


def run(quick: bool, workdir: Path) -> list[Bar]:
    """Every speed bar of the service."""
    bars = [*_lookups(5 if quick else 15), *_applying(50 if quick else 150)]
    server = EmbeddedPostgres(workdir / "postgres")
    server.start()
    try:
        organization_ids = iter(uuid.uuid4, None)
        for store, unopened in (
            ("stash", lambda: init_stash_catalog_state(server.url(), next(organization_ids))),
            ("persist", lambda: init_persist_catalog_state(workdir / str(next(organization_ids)))),
        ):
            bars.append(_recovery(store, unopened(), 20 if quick else 40))
            bars.append(_group_commit(store, unopened(), 7 if quick else 15))
    finally:
        server.release()
    return bars


# Memory


def _lookups(rounds: int) -> list[Bar]:
    """By version and by time: few µs, and the same whatever the number of versions."""
    services = {count: _service(count) for count in (_VERSIONS_FEW, _VERSIONS)}
    bars = []
    for by in ("version", "timestamp"):
        times: dict[int, list[float]] = {count: [] for count in services}
        for _ in range(rounds):
            for count, service in services.items():
                times[count].append(_median_us(_lookup_calls(service, by, count)))
        few, many = times[_VERSIONS_FEW], times[_VERSIONS]
        what = f"catalog_at({by}) with {_VERSIONS:,} versions"
        bars.append(Bar(f"{what}: µs at the median", min(many), _LIMIT_US))
        bars.append(Bar(f"{what}, to {_VERSIONS_FEW:,}", _ratio(many, few), 1.5))
    return bars


def _service(versions: int) -> CatalogService:
    """A service that holds so many versions, one ms apart."""
    service = CatalogService(HybridClock())
    history = History(Catalog())
    for version in range(1, versions):
        history.append(history.latest.at(version, hybrid(version)))
    service._history = history
    service._complete_until = hybrid(versions)
    return service


def _lookup_calls(service: CatalogService, by: str, count: int) -> list[Callable[[], object]]:
    # The same number of different versions in either case: what differs is how many they are found among.
    numbers = [number * 7919 % _TARGETS * count // _TARGETS for number in range(_CALLS)]
    if by == "version":
        return [partial(service.catalog_at, number) for number in numbers]
    return [partial(service.catalog_at, timestamp=hybrid(number)) for number in numbers]


def _applying(rounds: int) -> list[Bar]:
    """Applying an entry copies no catalog: 100 times the objects, about the same time."""
    small, large = _filled(1_000), _filled(100_000)
    bars = []
    for what, update_of in (("create a table", _create), ("rename a table", _rename)):
        times: dict[int, list[float]] = {}
        for _ in range(rounds):
            for catalog in (small, large):
                calls = [partial(update_of(catalog, number).apply, catalog) for number in range(100)]
                times.setdefault(len(catalog), []).append(_median_us(calls))
        ratio = _ratio(times[len(large)], times[len(small)])
        bars.append(Bar(f"applying '{what}' to 100,000 objects, to 1,000", ratio, 1.5))
    return bars


def _ratio(many: Sequence[float], few: Sequence[float]) -> float:
    """Round by round, because a core may run at half its speed for seconds, and that hits both of a round."""
    return statistics.median(one / other for one, other in zip(many, few, strict=True))


def _median_us(calls: Sequence[Callable[[], object]]) -> float:
    """The median of a call, a few timed at once: one takes not much longer than a look at the clock."""
    times = []
    clock = time.perf_counter_ns
    for start in range(0, len(calls), _CALLS_TIMED):
        few = calls[start : start + _CALLS_TIMED]
        begun = clock()
        for call in few:
            call()
        times.append((clock() - begun) / len(few))
    return statistics.median(times) / 1000


def _command(number: int) -> CreateTable:
    return CreateTable(
        schema="public",
        name=f"table_{number:06}",
        columns=(
            ColumnDefinition(name="id", type=ColumnType.INT64, nullable=False),
            ColumnDefinition(name="name", type=ColumnType.STRING, length=100),
            ColumnDefinition(name="amount", type=ColumnType.DECIMAL, precision=12, scale=2),
            ColumnDefinition(name="at", type=ColumnType.TIMESTAMP, precision=6),
        ),
        primary_key=("id",),
    )


def _create(catalog: Catalog, number: int) -> VersionedUpdate:
    return _update(catalog, _command(500_000 + number).plan(catalog))


def _rename(catalog: Catalog, number: int) -> VersionedUpdate:
    from hermit.service.entries import RenameEntry

    table = catalog.table("public", f"table_{number:06}")
    return _update(catalog, [RenameEntry(table.id if table else 0, f"renamed_{number}")])


def _update(catalog: Catalog, entries: Sequence[UpdateEntry]) -> VersionedUpdate:
    version = catalog.version + 1
    return VersionedUpdate(version, hybrid(version), tuple(entries))


def _first() -> Catalog:
    """A zone and a schema."""
    return (
        Catalog(next_id=3, default_zone_id=1)
        .put(ZoneDescriptor(id=1, name="default"))
        .put(SchemaDescriptor(id=2, name="public"))
        .at(1, hybrid(1))
    )


def _history(versions: int) -> Iterator[tuple[VersionedUpdate, Catalog]]:
    """Versions that each create a table."""
    catalog = _first()
    while catalog.version < versions:
        update = _update(catalog, _command(catalog.version).plan(catalog))
        catalog = update.apply(catalog)
        yield update, catalog


def _filled(objects: int) -> Catalog:
    catalog = _first()
    for number in range(objects - 2):
        for entry in _command(number).plan(catalog):
            catalog = entry.apply(catalog, HybridTimestamp(1))
    return catalog


# Stores


def _recovery(store: str, unopened: UnopenedCatalogState, rounds: int) -> Bar:
    """All retained versions, ready to be read, against the part of it that reads the rows they are in."""
    marshaller = UpdateLogMarshaller()
    with unopened.open(preload=False) as state:
        _write_compacted(UpdateLog(state, marshaller), marshaller)
    ratios = []
    for _ in range(rounds):
        with _opened(unopened, marshaller) as log:
            follower = Follower(HybridClock())
            begun = time.perf_counter()
            contents = log.read()
            was_read = time.perf_counter()
            follower.adopt(contents)
            found = follower.catalog_latest().table("public", f"table_{_VERSIONS // 2:06}")
            ratios.append((time.perf_counter() - begun) / (was_read - begun))
        if found is None or follower.catalog_latest().version != _VERSIONS:
            raise AssertionError("recovery gave another catalog")
    name = f"recovering {_VERSIONS:,} compacted versions from {store}, to reading their bytes"
    return Bar(name, statistics.median(ratios), 1.5)


@contextmanager
def _opened(unopened: UnopenedCatalogState, marshaller: UpdateLogMarshaller) -> Iterator[UpdateLog]:
    with unopened.open_read_only(preload=False) as state:
        yield UpdateLog(state, marshaller)


def _write_compacted(log: UpdateLog, marshaller: UpdateLogMarshaller) -> None:
    """A log of 10,000 versions, compacted as far as it goes."""
    latest = None
    pending = [Appendable(VersionedUpdate(1, hybrid(1), ()), b"")]
    for update, catalog in _history(_VERSIONS):
        pending.append(Appendable(update, marshaller.marshal(update)))
        if len(pending) == 1_000:
            log.append(pending)
            pending = []
        latest = catalog
    log.append(pending)
    if latest is not None:
        head, parts = take(latest, marshaller.registry)
        log.save_snapshot(_VERSIONS, marshaller.marshal(head), [marshaller.marshal(part) for part in parts])


def _group_commit(store: str, unopened: UnopenedCatalogState, rounds: int) -> Bar:
    """Commands per second of 64 clients at once, against one after the other.

    Either side lasts about as long. Commands are built before, as what is measured is `execute`.
    """
    settings = ServiceSettings(delay_duration_ms=0, poll_interval_ms=5)
    numbers = iter(range(10**9))
    ratios = []
    with CatalogManager(OneStore(unopened), settings=settings) as node:
        node.catalog_ready(1).result(60)

        def execute(commands: Sequence[CreateTable]) -> None:
            for command in commands:
                node.execute(command).result(60)

        def all_at_once(clients: ThreadPoolExecutor, shares: Sequence[Sequence[CreateTable]]) -> None:
            list(clients.map(execute, shares))

        def build(count: int) -> list[CreateTable]:
            return [_command(number) for number in itertools.islice(numbers, count)]

        with ThreadPoolExecutor(_CLIENTS) as clients:
            for _ in range(rounds):
                alone = build(_COMMANDS_ONE_BY_ONE)
                shares = [build(_COMMANDS_EACH) for _ in range(_CLIENTS)]
                single = _per_second(len(alone), partial(execute, alone))
                grouped = _per_second(_CLIENTS * _COMMANDS_EACH, partial(all_at_once, clients, shares))
                ratios.append(grouped / single)
    name = f"commands a second of {_CLIENTS} clients on {store}, to one after the other"
    return Bar(name, statistics.median(ratios), 10, at_most=False)


def _per_second(count: int, work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return count / (time.perf_counter() - begun)

"""The durable catalog: what opening costs in time and memory, and what a commit costs on a large catalog.

Bare protobuf, decoding the very bytes that a catalog keeps in memory, runs in turns with opening it. Small
and large catalogs commit in turns too, so that whatever else the machine does falls on both alike. Memory
is what the operating system says a fresh process has grown by.
"""

from __future__ import annotations

import gc
import json
import statistics
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from hermit.bench import Bar
from hermit.durable import init_persist_catalog_state, init_stash_catalog_state
from hermit.durable.fence import Fence
from hermit.durable.persist import UnopenedPersistCatalog
from hermit.durable.shard import Shard, fence_records
from hermit.durable.stash import UnopenedStashCatalog
from hermit.embedded.postgres import EmbeddedPostgres
from hermit.formats.gen import objects_pb2 as pb
from hermit.formats.generate import rows as generate
from hermit.formats.metrics import Size
from hermit.formats.versions import MIN_STASH_VERSION
from hermit.objects import KINDS
from hermit.rows import Row

_OBJECTS = 100_000
_OBJECTS_SMALL = 1_000
# Of a generated catalog so much is kept in memory; the rest are audit events and the like.
_CACHED_SHARE = 0.782
_TRANSACTIONS = 50

Unopened = UnopenedStashCatalog | UnopenedPersistCatalog


def run(quick: bool, workdir: Path) -> list[Bar]:
    """Every speed bar of the durable catalog."""
    with _server(workdir) as server:
        large = _Catalogs(server.url(), workdir / "large", _OBJECTS)
        small = _Catalogs(server.url(), workdir / "small", _OBJECTS_SMALL)
        return [
            *_opening(large, rounds=5 if quick else 15),
            *_memory(large),
            *_committing(small, large, rounds=100 if quick else 400),
            _upgrading(workdir / "old", items=10_000 if quick else 200_000),
        ]


@contextmanager
def _server(workdir: Path) -> Iterator[EmbeddedPostgres]:
    server = EmbeddedPostgres(workdir / "postgres")
    server.start()
    try:
        yield server
    finally:
        server.release()


class _Catalogs:
    """The same generated catalog on both stores."""

    def __init__(self, url: str, folder: Path, objects: int) -> None:
        rows = list(generate(round(objects / _CACHED_SHARE), seed=1))
        self.url = url
        self.organization_id = uuid.uuid4()
        self.location = str(folder / "shard")
        self.cached = [row for row in rows if KINDS[row.collection].cached]
        stash = init_stash_catalog_state(url, self.organization_id)
        stash.client.open(lambda transaction: transaction.append((row, 1) for row in rows))[0].close()
        shard = Shard(self.location)
        fence = fence_records(0, None, Fence.next(None, 1, None))
        shard.append(shard.state(), [(row, 1) for row in rows], fence)

    def unopened(self) -> dict[str, Unopened]:
        return {
            "stash": init_stash_catalog_state(self.url, self.organization_id),
            "persist": init_persist_catalog_state(self.location),
        }

    @property
    def size_bytes(self) -> int:
        return sum(len(row.key) + len(row.value) for row in self.cached)


def _opening(catalogs: _Catalogs, rounds: int) -> list[Bar]:
    bare: list[float] = []
    opened: dict[str, list[float]] = {"stash": [], "persist": []}
    for _ in range(rounds):
        bare.append(_timed(lambda: _decode(catalogs.cached)))
        for store, unopened in catalogs.unopened().items():
            with ExitStack() as handles:
                opened[store].append(_timed(partial(_open, unopened, handles)))
    return [
        Bar(f"open {_OBJECTS:,} objects on {store}, to bare protobuf decode", min(times) / min(bare), 2.0)
        for store, times in opened.items()
    ]


def _open(unopened: Unopened, handles: ExitStack) -> None:
    handles.enter_context(unopened.open())


def _decode(rows: list[Row]) -> None:
    decoders = {name: (kind.key.FromString, kind.value.FromString) for name, kind in KINDS.items()}
    for collection, key, value in rows:
        key_of, value_of = decoders[collection]
        key_of(key)
        value_of(value)


_CHILD = """
import gc, json, sys, uuid
from hermit.durable import init_persist_catalog_state, init_stash_catalog_state
def resident():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096
store, url, organization_id, location, small_id, small_location = sys.argv[1:]
def unopened(organization_id, location):
    if store == "stash":
        return init_stash_catalog_state(url, uuid.UUID(organization_id))
    return init_persist_catalog_state(location)
unopened(small_id, small_location).open().close()
before = resident()
catalog = unopened(organization_id, location).open()
after = resident()
assert len(catalog.get_roles()) > 0
print(json.dumps(after - before))
"""


def _memory(catalogs: _Catalogs) -> list[Bar]:
    """A process of its own per store, which has opened an empty catalog before: what is new are objects."""
    bars = []
    for store in ("stash", "persist"):
        other = [str(uuid.uuid4()), f"{catalogs.location}-empty"]
        where = [store, catalogs.url, str(catalogs.organization_id), catalogs.location, *other]
        child = subprocess.run(
            [sys.executable, "-c", _CHILD, *where], check=True, capture_output=True, text=True
        )
        ratio = json.loads(child.stdout) / catalogs.size_bytes
        bars.append(Bar(f"memory of {_OBJECTS:,} objects on {store}, to their serialized size", ratio, 3.0))
    return bars


_UPGRADE = """
import pathlib, sys
from hermit.durable import init_persist_catalog_state
init_persist_catalog_state(sys.argv[1]).open().close()
print(pathlib.Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])
"""


def _upgrading(location: Path, items: int) -> Bar:
    """The peak of a process that opens a shard of the oldest format, and so upgrades it through all steps."""
    like = {"items": Size(items), "roles": Size(100), "schemas": Size(100)}
    rows = [(row, 1) for row in generate(None, seed=1, version=MIN_STASH_VERSION, like=like)]
    shard = Shard(str(location))
    shard.append(shard.state(), rows, fence_records(0, None, Fence.next(None, 1, None)))
    child = subprocess.run(
        [sys.executable, "-c", _UPGRADE, str(location)], check=True, capture_output=True, text=True
    )
    name = f"peak memory of upgrading {items:,} items on persist / 1 GiB"
    return Bar(name, int(child.stdout) * 1024 / (1 << 30), 1.0)


def _committing(small: _Catalogs, large: _Catalogs, rounds: int) -> list[Bar]:
    bars = []
    for store in ("stash", "persist"):
        with small.unopened()[store].open() as one, large.unopened()[store].open() as other:
            at_small, at_large = _commit_in_turns((one, other), rounds)
            name = f"commit of one object on {store}, at {_OBJECTS:,} to at {_OBJECTS_SMALL:,}"
            bars.append(Bar(name, at_large / at_small, 1.3))
            begun = min(_timed(other.transaction) for _ in range(_TRANSACTIONS))
            name = f"opening a transaction on {_OBJECTS:,} objects on {store}, in ms"
            bars.append(Bar(name, begun * 1_000, 1.0))
    return bars


def _commit_in_turns(catalogs: Sequence[Any], rounds: int) -> list[float]:
    """The median of a commit on each. The first one builds the index of names, and does not count."""
    times: list[list[float]] = [[] for _ in catalogs]
    for number in range(rounds + 1):
        for catalog, taken in zip(catalogs, times, strict=True):
            taken.append(_timed(partial(_commit, catalog, number)))
    return [statistics.median(taken[1:]) for taken in times]


def _commit(catalog: Any, number: int) -> None:
    key = pb.ItemKey(gid=pb.GlobalId(user=10_000_000 + number))
    value = pb.ItemValue(
        schema_id=pb.SchemaId(user=1),
        name=f"bench_{number}",
        create_sql="CREATE TABLE bench (a int)",
        owner_id=pb.RoleId(user=1),
        item_type=pb.ITEM_TYPE_TABLE,
    )
    with catalog.transaction() as transaction:
        transaction.items.insert(key, value)
        catalog.commit_transaction(transaction)


def _timed(call: Callable[[], object]) -> float:
    gc.collect()
    start = time.perf_counter()
    call()
    return time.perf_counter() - start

"""One node of the service in a process of its own, with clients that write down all they do.

    python -m tests.service.worker HOME OUTPUT NAME SEED

HOME is JSON: what `worker_home` takes. Every line of OUTPUT is one JSON record with the time of the
machine's monotonic clock, which all processes share; a process that is killed leaves its last line torn.
The node obeys its standard input (see `Node`) until that is closed; then it writes what it knows of every
version, and ends.
"""

from __future__ import annotations

import hashlib
import json
import random
import sys
import threading
import time
from pathlib import Path
from typing import Any
from uuid import UUID

from hermit.durable import init_persist_catalog_state, init_stash_catalog_state
from hermit.errors import HermitError
from hermit.migration.stores import connect
from hermit.service import commands
from hermit.service.catalog import Catalog
from hermit.service.errors import CommandRefused, CompactionHeld, NodeBehind, VersionCompacted
from hermit.service.homes import Home, OneStore, TwoStores
from hermit.service.manager import CatalogManager
from hermit.service.settings import ServiceSettings
from hermit.service.snapshot import take
from hermit.service.wire.marshaller import UpdateLogMarshaller

CLIENTS = 3
SETTINGS = ServiceSettings(
    delay_duration_ms=100, poll_interval_ms=5, take_over_jitter_ms=50, move_patience_ms=20_000, claim_ms=1_500
)
Spec = tuple[str, dict[str, Any]]
"""A command as data: its name, and what it is given."""


def worker_home(given: dict[str, str]) -> Home:
    """The home that a test describes."""
    if "shards" in given:
        return TwoStores(connect(given["url"], given["shards"], UUID(given["organization_id"])))
    if "url" in given:
        return OneStore(init_stash_catalog_state(given["url"], UUID(given["organization_id"])))
    return OneStore(init_persist_catalog_state(given["location"]))


def fingerprint(catalog: Catalog) -> str:
    """The same on all nodes exactly if the catalogs are."""
    marshaller = UpdateLogMarshaller()
    snapshot, parts = take(catalog, marshaller.registry)
    data = b"".join(marshaller.marshal(each) for each in (snapshot, *parts))
    return hashlib.sha256(data).hexdigest()


def build(specs: list[Spec]) -> list[commands.CatalogCommand]:
    """The commands that are described."""
    return [getattr(commands, name)(**given) for name, given in specs]


def draw(rng: random.Random) -> Spec:
    """A command about one of few objects that everybody fights for."""
    schema, other, name = f"s{rng.randrange(3)}", f"s{rng.randrange(3)}", f"o{rng.randrange(3)}"
    zone, in_schema = f"z{rng.randrange(3)}", {"schema": schema, "name": name}
    options: list[Spec] = [
        ("CreateSchema", {"name": schema}),
        ("CreateSchema", {"name": schema, "if_not_exists": True}),
        ("DropSchema", {"name": schema}),
        ("DropSchema", {"name": schema, "cascade": True}),
        ("RenameSchema", {"name": schema, "new_name": other}),
        ("CreateSequence", in_schema),
        ("AlterSequence", {**in_schema, "increment": rng.randrange(1, 5)}),
        ("DropSequence", in_schema),
        ("RenameSequence", {**in_schema, "new_name": f"o{rng.randrange(3)}"}),
        ("CreateView", {**in_schema, "query": "select 1", "depends_on": [[other, f"o{rng.randrange(3)}"]]}),
        ("CreateView", {**in_schema, "query": "select 1"}),
        ("DropView", in_schema),
        ("CreateZone", {"name": zone}),
        ("AlterZone", {"name": zone, "replicas": rng.randrange(1, 9)}),
        ("DropZone", {"name": zone}),
    ]
    return rng.choice(options)


class Recorder:
    """Lines of JSON, each written at once."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", buffering=1)
        self._lock = threading.Lock()

    def write(self, kind: str, **facts: Any) -> int:
        now = time.monotonic_ns()
        with self._lock:
            self._file.write(json.dumps({"kind": kind, "at": now, **facts}) + "\n")
        return now


class Client:
    """Executes and reads, one thing after the other, until told to stop."""

    def __init__(self, node: CatalogManager, out: Recorder, name: str, seed: int) -> None:
        self._node = node
        self._out = out
        self._name = name
        self._rng = random.Random(seed)

    def run(self, stop: threading.Event) -> None:
        number = 0
        while not stop.is_set():
            number += 1
            # Every change also makes a schema named after itself, so that the log tells whose it is.
            id_ = f"{self._name}-{number}"
            marker: Spec = ("CreateSchema", {"name": id_})
            self._execute(id_, [marker] if self._rng.random() < 0.3 else [draw(self._rng), marker])
            if self._rng.random() < 0.3:
                self._execute(f"{id_}?", [("CreateSchema", {"name": "public", "if_not_exists": True})])
            self._read_present()
            if self._rng.random() < 0.2:
                self._read_finally()

    def _execute(self, id_: str, specs: list[Spec]) -> None:
        out = self._out
        begun = out.write("invoke", id=id_, commands=specs)
        try:
            applied = self._node.execute(build(specs)).result(120)
        except CommandRefused as refused:
            out.write("refused", id=id_, begun=begun, error=type(refused).__name__, commands=specs)
        except HermitError as error:
            out.write("failed", id=id_, begun=begun, error=type(error).__name__)
        else:
            out.write("ok" if applied.changed else "seen", id=id_, begun=begun, version=applied.version)

    def _read_present(self) -> None:
        begun = time.monotonic_ns()
        try:
            found = self._node.catalog_at(timestamp=self._node.clock.now())
        except NodeBehind:
            self._out.write("behind", begun=begun)
        else:
            self._out.write("read", begun=begun, version=found.version)

    def _read_finally(self) -> None:
        """Ask for a time whose answer nothing can change any more."""
        timestamp = self._node.clock.now()
        try:
            self._node.wait_for_metadata_completeness(timestamp).result(120)
            found = self._node.catalog_at(timestamp=timestamp)
        except HermitError as error:
            self._out.write("failed", error=type(error).__name__)
        else:
            self._out.write("final", time=timestamp, version=found.version)


class Orders:
    """What the test tells this process to do, a line each, and a line as the answer."""

    def __init__(self, node: CatalogManager, clients: list[threading.Thread], stop: threading.Event) -> None:
        self._node = node
        self._clients = clients
        self._stop = stop

    def obey(self, order: str, *arguments: str) -> str:
        return str(getattr(self, f"_{order}")(*map(int, arguments)))

    def _finish(self) -> str:
        self._stop.set()
        for each in self._clients:
            each.join()
        return "finished"

    def _reach(self, version: int) -> int:
        return self._node.catalog_ready(version).result(120).version

    def _latest(self) -> int:
        return self._node.catalog_latest().version

    def _compact(self, version: int) -> int:
        """How far the log was compacted, at most to a version; 0 if somebody still needs all of it."""
        low_watermark = self._node.catalog_ready(version).result(120).time
        try:
            return self._node.compact(low_watermark).earliest
        except CompactionHeld:
            return 0

    def _earliest(self, version: int) -> int:
        """The earliest version, as the error for one that is gone names it; 0 if it can be read."""
        try:
            self._node.catalog_at(version)
        except VersionCompacted as gone:
            return gone.earliest
        return 0


def main(home: str, output: str, name: str, seed: str) -> None:
    """Run a node until standard input ends."""
    out, stop = Recorder(Path(output)), threading.Event()
    node = CatalogManager(worker_home(json.loads(home)), settings=SETTINGS)
    node.subscribe(lambda event: out.write("event", version=event.version, type=event.type))
    with node:
        node.catalog_ready(1).result(120)
        clients = [
            threading.Thread(target=Client(node, out, f"{name}.{n}", int(seed) * 100 + n).run, args=(stop,))
            for n in range(CLIENTS)
        ]
        print("ready", flush=True)
        for each in clients:
            each.start()
        orders = Orders(node, clients, stop)
        for line in sys.stdin:
            print(orders.obey(*line.split()), flush=True)
        stop.set()
        for version in range(node.earliest_version, node.catalog_latest().version + 1):
            out.write("state", version=version, digest=fingerprint(node.catalog_at(version)))


if __name__ == "__main__":
    main(*sys.argv[1:])

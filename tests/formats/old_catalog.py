"""A few rows of one version, and what a single step makes of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import ModuleType

from google.protobuf.message import Message

from hermit.formats import config
from hermit.formats.upgrades import Step
from hermit.rows import Row
from tests.formats import frozen
from tests.formats.store import MemoryStore

Pairs = Mapping[str, Iterable[tuple[Message, Message]]]


def version_of(module: ModuleType) -> int:
    return int(module.DESCRIPTOR.package.rpartition("_v")[2])


class OldCatalog:
    """Rows in types of the version that a step starts from."""

    def __init__(self, module: ModuleType, pairs: Pairs) -> None:
        self.version = version_of(module)
        rows = [frozen.row(name, key, value) for name, each in pairs.items() for key, value in each]
        rows.append(Row("config", config.encode_key(config.USER_VERSION), config.encode_value(self.version)))
        self.store = MemoryStore(rows)

    def run(self, step: Step) -> MemoryStore:
        """Run this one step."""
        self.store.upgrade(arms=lambda version, build: step if version == self.version else None)
        return self.store

    def after(self, step: Step, module: ModuleType) -> dict[str, list[tuple[Message, Message]]]:
        """The rows after the step, in types of the version that it leads to."""
        found: dict[str, list[tuple[Message, Message]]] = {}
        for row in sorted(self.run(step).rows()):
            if row.collection != "config":
                found.setdefault(row.collection, []).append(frozen.parse(version_of(module), row))
        return found

"""What opening a catalog does to its contents: initialize, upgrade, or nothing.

Pure over a small view of the contents, so that the stash runs it inside its one transaction, and persist,
savepoints and `check_open` run it in memory. Whatever it wants to write goes through the view; if it
raises, the caller writes nothing and raises no epoch: a process that cannot serve a catalog never fences
the one that does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from hermit.durable.contents import CONFIG
from hermit.durable.errors import GenerationTooOld
from hermit.errors import invariant
from hermit.formats import config
from hermit.rows import Row

if TYPE_CHECKING:
    from hermit.formats.metrics import UpgradeReport

Pairs = Iterable[tuple[bytes, bytes]]
Rows = dict[bytes, bytes]


class Contents(Protocol):
    """The live rows of a catalog, readable and changeable within one atomic step."""

    def rows(self, collection: str) -> Pairs: ...
    def write(self, changes: Iterable[tuple[Row, int]]) -> None: ...


@dataclass(frozen=True)
class OpenRequest:
    """How somebody wants to open a catalog."""

    now_ms: int
    deploy_generation: int | None = None
    clear_tombstone: bool = False


class Outcome(NamedTuple):
    """What opening found and did."""

    initialized: bool
    upgrade: UpgradeReport | None
    deploy_generation: int | None


def read_config(pairs: Pairs) -> dict[str, int]:
    """The config collection, which every format spells alike."""
    return {config.decode_key(key): config.decode_value(value) for key, value in pairs}


def bootstrap(contents: Contents, request: OpenRequest) -> Outcome:
    """Bring the contents to the current format, and the config to what the opener asks for."""
    stored = read_config(contents.rows(CONFIG))
    version = stored.get(config.USER_VERSION)
    if version is None:
        return _initialize(contents, request)
    generation = _generation(stored.get(config.DEPLOY_GENERATION), request.deploy_generation)
    upgrade = _upgrade(contents, version)
    wanted: dict[str, int] = {}
    if generation is not None:
        wanted[config.DEPLOY_GENERATION] = generation
    if request.clear_tombstone and stored.get(config.TOMBSTONE):
        wanted[config.TOMBSTONE] = 0
    contents.write(list(config_changes(stored, wanted)))
    return Outcome(False, upgrade, generation)


def config_changes(stored: dict[str, int], wanted: dict[str, int]) -> Iterator[tuple[Row, int]]:
    """The updates that make config entries what they shall be."""
    for name, value in wanted.items():
        before = stored.get(name)
        if before == value:
            continue
        key = config.encode_key(name)
        if before is not None:
            yield Row(CONFIG, key, config.encode_value(before)), -1
        yield Row(CONFIG, key, config.encode_value(value)), +1


def _initialize(contents: Contents, request: OpenRequest) -> Outcome:
    from hermit.formats.initial import initialize

    initialize(
        contents.rows, contents.write, now_ms=request.now_ms, deploy_generation=request.deploy_generation
    )
    return Outcome(True, None, request.deploy_generation)


def _generation(stored: int | None, given: int | None) -> int | None:
    if given is None:
        return stored
    if stored is not None and given < stored:
        raise GenerationTooOld(
            f"deploy generation {given} cannot open a catalog that generation {stored} took over",
            hint="this deployment was replaced; start the newer one",
            given=given,
            stored=stored,
        )
    return given


def _upgrade(contents: Contents, version: int) -> UpgradeReport | None:
    from hermit.formats.upgrade import upgrade

    report = upgrade(version, contents.rows, contents.write)
    return report if report.steps else None


class MemoryContents:
    """Contents that keep in memory what is written over rows that are only read."""

    def __init__(self, base: Callable[[str], Rows]) -> None:
        self._base = base
        self._net: dict[str, dict[tuple[bytes, bytes], int]] = {}

    def rows(self, collection: str) -> Iterator[tuple[bytes, bytes]]:
        # The state at the moment of the call: whoever reads may write before it has read to the end.
        net = dict(self._net.get(collection, {}))
        pairs = self._base(collection).items()
        return _laid_over(pairs, net) if net else iter(pairs)

    def table(self, collection: str) -> Rows:
        """The rows by key; those of the base themselves where nothing was written."""
        return dict(self.rows(collection)) if self._net.get(collection) else self._base(collection)

    def write(self, changes: Iterable[tuple[Row, int]]) -> None:
        for row, diff in changes:
            net = self._net.setdefault(row.collection, {})
            pair = (row.key, row.value)
            total = net.get(pair, 0) + diff
            if total:
                net[pair] = total
            else:
                net.pop(pair, None)

    def changes(self) -> list[tuple[Row, int]]:
        """What all writes together come to."""
        return [
            (Row(collection, *pair), diff)
            for collection, net in self._net.items()
            for pair, diff in net.items()
        ]


def _laid_over(base: Pairs, net: dict[tuple[bytes, bytes], int]) -> Iterator[tuple[bytes, bytes]]:
    for pair in base:
        diff = net.pop(pair, 0)
        invariant(diff in (0, -1), "a row is added that is there already")
        if not diff:
            yield pair
    for pair, diff in net.items():
        invariant(diff == 1, "a row is retracted that is not there")
        yield pair

"""Both stores as a model: a few variables each, every call one atomic action.

The step functions of production run over it unchanged. Before every action the model calls `point`, where
a scheduler may let somebody else go on first, or never come back: a process that died, or one that wakes up
much later, is one that is not scheduled for a while. What the model knows of a store is what the real ones
promise: an action under a token that is not current raises `Fenced` and does nothing.
"""

from __future__ import annotations

import contextlib
import itertools
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from hermit.digest import Digest
from hermit.durable.contents import MOVE_PROTOCOL, OWN_CONFIG
from hermit.durable.token import FenceToken
from hermit.errors import Fenced
from hermit.formats import config
from hermit.migration import protocol as protocols
from hermit.migration.manifest import Manifest
from hermit.migration.protocol import Tombstones
from hermit.migration.stores import StashSays, State, read_state
from hermit.rows import Row

ORGANIZATION = uuid.UUID("6f1c0f0e-53f9-4f0f-8c1a-0a5f3c0f9b1d")
Contents = frozenset[str]
_nonces = itertools.count()


def digests_of(contents: Contents) -> dict[str, Digest]:
    """A model digest: equal exactly when the contents are."""
    return {"items": Digest(len(contents), hash(contents) & (2**64 - 1))}


def rows_of(contents: Contents) -> list[Row]:
    return [Row("items", row.encode(), b"") for row in sorted(contents)]


@dataclass
class ModelStore:
    """One store. `version` counts changes of contents, `files` is what the last replacing batch brought."""

    name: str
    point: Callable[[str], None]
    epoch: int = 0
    nonce: str = ""
    config: dict[str, int] = field(default_factory=dict)
    contents: Contents = frozenset()
    version: int = 0
    files: set[str] = field(default_factory=set)

    @property
    def tombstone(self) -> bool | None:
        value = self.config.get(config.TOMBSTONE)
        return None if value is None else bool(value)


class ModelUnopened:
    """A store before it is opened."""

    def __init__(self, store: ModelStore) -> None:
        self.model = store

    def is_initialized(self) -> bool:
        self.model.point("is_initialized")
        return self.model.epoch > 0

    def epoch(self) -> int | None:
        self.model.point("epoch")
        return self.model.epoch or None

    def config(self, key: str) -> int | None:
        self.model.point("config")
        return self.model.config.get(key)

    def format_version(self) -> int | None:
        return 1 if self.model.epoch else None

    def tombstone(self) -> bool | None:
        self.model.point("tombstone")
        return self.model.tombstone

    def open(self, *, epoch_min: int = 1, preload: bool = True, **_: Any) -> ModelHandle:
        self.model.point("open")
        self.model.epoch = max(self.model.epoch + 1, epoch_min)
        self.model.nonce = str(next(_nonces))
        return ModelHandle(self.model, FenceToken(self.model.name, self.model.epoch, self.model.nonce))

    def resume(self, token: FenceToken) -> ModelHandle:
        return ModelHandle(self.model, token)


class ModelHandle:
    """An opened store: every action compares the token first, in the same atomic step."""

    def __init__(self, store: ModelStore, token: FenceToken) -> None:
        self.model = store
        self.token = token
        self.epoch = token.epoch
        self.store = store.name

    def __enter__(self) -> ModelHandle:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        pass

    def _act(self, what: str) -> ModelStore:
        self.model.point(what)
        if (self.model.epoch, self.model.nonce) != (self.token.epoch, self.token.nonce):
            raise Fenced(
                f"{self.model.name} was taken over", epoch=self.token.epoch, current=self.model.epoch
            )
        return self.model

    def confirm_leadership(self) -> None:
        self._act("confirm_leadership")

    def tombstone(self) -> bool | None:
        return self._act("read tombstone").tombstone

    def get_config_by_key(self, key: str) -> int | None:
        return self._act("read config").config.get(key)

    def set_tombstone(self, value: bool) -> None:
        self.set_config(config.TOMBSTONE, int(value))

    def set_config(self, key: str, value: int) -> None:
        store = self._act("set_config")
        store.config[key] = value
        store.version += 1

    def content_version(self) -> int:
        return self._act("content_version").version

    def digests(self) -> dict[str, Digest]:
        return digests_of(self._act("digests").contents)

    def snapshot(self) -> list[Row]:
        return rows_of(self._act("snapshot").contents)

    def insert(self, row: str) -> None:
        """What a user of the catalog does."""
        store = self._act("insert")
        store.contents |= {row}
        store.version += 1

    def read(self) -> tuple[int, Contents]:
        store = self._act("read")
        return store.version, store.contents

    def _replace(self, contents: Contents, forced: Mapping[str, int | None]) -> ModelStore:
        store = self._act("replace")
        own = {key: value for key, value in store.config.items() if key in OWN_CONFIG}
        store.config = {key: value for key, value in {**own, **forced}.items() if value is not None}
        store.contents = contents
        store.version += 1
        return store

    def replace_with_staged(self, files: Any, *, config: Mapping[str, int | None]) -> None:
        contents = frozenset(file["path"].partition("/")[2] for file in files) - {""}
        self._replace(contents, config).files = {file["path"] for file in files}

    def replace_from_side(self, side: str, *, config: Mapping[str, int | None]) -> None:
        self._replace(self.model.sides.pop(side), config)  # type: ignore[attr-defined]


class ModelManifests:
    """Manifests are written whole and survive everything."""

    def __init__(self) -> None:
        self.stored: dict[str, Manifest] = {}

    def write(self, manifest: Manifest) -> None:
        self.stored[manifest.batch] = manifest

    def read(self, batch: str) -> Manifest | None:
        return self.stored.get(batch)

    def remove(self, batch: str) -> None:
        self.stored.pop(batch, None)

    def all(self) -> list[Manifest]:
        return list(self.stored.values())

    def unfinished(self, direction: protocols.Direction, version: int) -> str | None:
        """Staging is one action here: it is done or was never begun."""
        return None


class ModelStores:
    """Both stores of one catalog, as `hermit.migration.stores.Stores` gives them to the steps."""

    organization_id = ORGANIZATION
    location = "model"

    def __init__(self, point: Callable[[str], None], contents: Contents) -> None:
        self.stash_model = ModelStore("stash", point, contents=contents)
        self.persist_model = ModelStore("persist", point)
        self.side_tables: dict[str, Contents] = {}
        self.stash_model.sides = self.side_tables  # type: ignore[attr-defined]
        self.staged: dict[str, set[str]] = {}
        self.stash = ModelUnopened(self.stash_model)
        self.persist = ModelUnopened(self.persist_model)
        self._manifests = ModelManifests()

    def manifests(self) -> ModelManifests:
        return self._manifests

    def state(self) -> State:
        return read_state(self)  # type: ignore[arg-type]

    def stash_says(self) -> StashSays:
        model = self.stash_model
        model.point("stash_says")
        return StashSays((model.epoch, model.nonce), model.config.get(MOVE_PROTOCOL), model.tombstone)

    def staged_batches(self) -> set[str]:
        return {batch for batch, files in self.staged.items() if not files & self.persist_model.files}

    def live_files(self, persist: ModelHandle) -> set[str]:
        return set(self.persist_model.files)

    def sides(self) -> set[str]:
        return set(self.side_tables)

    def side_digests(self, stash: ModelHandle, side: str) -> dict[str, Digest]:
        stash.confirm_leadership()
        return digests_of(self.side_tables[side])

    def side_of(self, stash: ModelHandle, side: str) -> Any:
        rows = rows_of(self.side_tables[side])
        return lambda visit: visit(rows)

    @contextlib.contextmanager
    def resumed(self, fencing: Any) -> Iterator[tuple[ModelHandle, ModelHandle]]:
        stash, persist = self.stash.resume(fencing.stash), self.persist.resume(fencing.persist)
        stash.confirm_leadership()
        persist.confirm_leadership()
        yield stash, persist

    # What the checker looks at, without an action

    def now(self) -> State:
        stash, persist = self.stash_model, self.persist_model
        protocol = protocols.by_number(stash.config.get(MOVE_PROTOCOL))
        return State(protocol, Tombstones(stash.tombstone, persist.tombstone))

    def truth(self) -> ModelStore:
        return {"stash": self.stash_model, "persist": self.persist_model}[self.now().truth.store.value]

    def fingerprint(self) -> object:
        """Everything that whoever opens the stores next can tell; batches by the order in which they came."""
        batches = {one.batch: number for number, one in enumerate(self._manifests.all())}
        numbers = {one.number: ("batch", batches[one.batch]) for one in self._manifests.all()}

        def files(paths: set[str]) -> object:
            parts = (path.partition("/") for path in paths)
            return frozenset((batches.get(batch), row) for batch, _, row in parts)

        return (
            *(
                (
                    one.epoch,
                    frozenset((key, numbers.get(value, value)) for key, value in one.config.items()),
                    one.contents,
                    one.version,
                    files(one.files),
                )
                for one in (self.stash_model, self.persist_model)
            ),
            *(
                (
                    one.direction,
                    one.source_version,
                    one.verified_source_version,
                    one.verified_target_version,
                    str(one.digest),
                    files(self.staged.get(one.batch, set())),
                    self.side_tables.get(one.batch),
                )
                for one in self._manifests.all()
            ),
        )

    def stage(self, direction: protocols.Direction, fencing: Any, batch: str) -> None:
        """What the Spark job does: one consistent read, then a manifest."""
        with self.resumed(fencing) as (stash, persist):
            source = stash if direction is protocols.Direction.MIGRATE else persist
            version, contents = source.read()
        files = [{"path": f"{batch}/{row}"} for row in sorted(contents) or [""]]
        if direction is protocols.Direction.MIGRATE:
            self.staged[batch] = {file["path"] for file in files}
        else:
            self.side_tables[batch] = contents
        staged = digests_of(contents)
        self._manifests.write(
            Manifest(batch, direction, version, staged, staged, files, len(contents), 0, 1.0)
        )

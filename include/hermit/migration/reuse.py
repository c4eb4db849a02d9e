"""What an earlier attempt staged, and whether this run can go on from there.

A staged snapshot fits exactly when the contents that it was taken from have not changed since; both its
manifest and the source know the content version. Where it fits, the run enters the row of steps behind
`snapshot`, or, when the files already are the target's contents, behind `replace`. Verifying comes after
in any case, over what both stores hold then. An attempt that died while staging leaves no manifest, but the
partitions that it had finished: the run stages under the same name and does the rest (see `parts`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hermit.migration.protocol import Direction, Step

if TYPE_CHECKING:
    from hermit.durable.persist import PersistCatalog
    from hermit.migration.manifest import Manifest
    from hermit.migration.stores import Stores


@dataclass(frozen=True)
class Reuse:
    """A staged batch that fits, and the step to go on with."""

    batch: str
    next: Step
    reason: str


def find(stores: Stores, direction: Direction, version: int, persist: PersistCatalog) -> Reuse | None:
    """The newest batch that was staged from exactly these contents and is still whole."""
    for manifest in reversed(stores.manifests().all()):
        if manifest.direction is direction and manifest.source_version == version:
            found = (
                _files(manifest, stores, persist)
                if direction is Direction.MIGRATE
                else _side(manifest, stores)
            )
            if found is not None:
                return found
    return None


def unfinished(stores: Stores, direction: Direction, version: int) -> str | None:
    """A batch of which an earlier attempt staged some partitions, from exactly these contents."""
    return stores.manifests().unfinished(direction, version)


def _files(manifest: Manifest, stores: Stores, persist: PersistCatalog) -> Reuse | None:
    staged = {str(file["path"]) for file in manifest.files}
    live = stores.live_files(persist)
    if staged and staged <= live:
        return Reuse(
            manifest.batch, Step.VERIFY, f"batch {manifest.batch} already is the contents of persist"
        )
    if not staged & live and manifest.batch in stores.staged_batches():
        return Reuse(
            manifest.batch, Step.REPLACE, f"batch {manifest.batch} was staged from the same contents"
        )
    return None


def _side(manifest: Manifest, stores: Stores) -> Reuse | None:
    if manifest.batch not in stores.sides():
        return None
    return Reuse(
        manifest.batch, Step.VERIFY, f"side table {manifest.batch} was staged from the same contents"
    )

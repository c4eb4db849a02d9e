"""What is staged for a catalog, what holds it, and what a run would make of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hermit.durable.contents import MOVED
from hermit.migration.manifest import Manifest, Manifests
from hermit.migration.protocol import Direction, Store
from hermit.persist.batch import list_staged
from hermit.stash import StashClient, bulk
from hermit_airflow.page.catalogs import Catalogs, Sighting
from hermit_airflow.page.forecast import Staged, forecast


def look(catalogs: Catalogs, sighting: Sighting) -> Staged:
    """All that is staged for a catalog now."""
    client = StashClient(sighting.place.stash_url, sighting.organization_id)
    return Staged(
        found=Manifests(sighting.location).all(),
        batches=list_staged(sighting.location),
        side_tables=set(bulk.sides(client)),
        live={file.path for file in catalogs.watched(sighting).state().files(MOVED)},
    )


def forecasts(sighting: Sighting, staged: Staged) -> dict[str, Any]:
    """What a run of each direction would do."""
    return {
        direction.value: forecast(
            sighting.protocol, sighting.tombstones, direction, _reusable(sighting, staged, direction)
        )
        for direction in Direction
    }


def _reusable(sighting: Sighting, staged: Staged, direction: Direction) -> Any:
    return staged.reusable(direction, _source_version(sighting, direction))


def _source_version(sighting: Sighting, direction: Direction) -> int:
    if direction.source is Store.STASH:
        return sighting.stash.version
    return sighting.shard.content_version if sighting.shard else 0


def batches(sighting: Sighting, staged: Staged, active: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Every staged batch, with or without a manifest, and what keeps it from being cleared away."""
    manifests = {manifest.batch: manifest for manifest in staged.found}
    names = sorted({*manifests, *staged.batches, *staged.side_tables})
    reusable = {
        found.batch: direction
        for direction in Direction
        if (found := _reusable(sighting, staged, direction)) is not None
    }
    running = next((run for run in active if run["direction"]), None)
    listed = []
    for name in names:
        manifest = manifests.get(name)
        listed.append(
            {
                "batch": name,
                "kind": "side table" if name in staged.side_tables else "files",
                "direction": manifest.direction.value if manifest else name.partition("_")[0],
                "rows": manifest.rows if manifest else None,
                "bytes": manifest.bytes if manifest else staged.batches.get(name),
                "verified": manifest is not None and manifest.verified_source_version is not None,
                "held_by": _holder(name, manifest, reusable, running),
            }
        )
    return listed


def _holder(
    name: str,
    manifest: Manifest | None,
    reusable: Mapping[str, Direction],
    running: Mapping[str, Any] | None,
) -> str:
    if running is not None and running["direction"] == name.partition("_")[0]:
        return f"the run {running['run_id']}"
    if name in reusable:
        return f"its manifest: the next {reusable[name]} goes on from it"
    if manifest is not None:
        return "its manifest, but the contents it was staged from have changed"
    return "nothing: no manifest names it"

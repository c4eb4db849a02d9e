"""A catalog as an Airflow asset: other DAGs may be scheduled on its moves.

There is one asset per catalog, `hermit://catalog/<organization>`. A run learns which catalog it moves only
from its params, so that the task of the cut-over has an alias as its outlet and names the asset when it ran.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, AssetAlias

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from airflow.sdk import Context

    from hermit.migration.manifest import Manifest
    from hermit.migration.move import Fencing, Move

MOVED_CATALOGS = AssetAlias("hermit_moved_catalogs")


def catalog_asset(organization_id: UUID | str) -> Asset:
    """The asset of one catalog; what another DAG gives as its schedule."""
    return Asset(name=f"catalog_{organization_id}", uri=f"hermit://catalog/{organization_id}", group="hermit")


def publish(
    context: Context, move: Move, fencing: Fencing, result: Mapping[str, Any], manifest: Manifest
) -> None:
    """Say that the catalog moved: where its truth is, under which epochs, how many rows, which digest."""
    context["outlet_events"][MOVED_CATALOGS].add(
        catalog_asset(move.organization_id),
        extra={
            "source_of_truth": result["source_of_truth"],
            "epochs": {"stash": fencing.stash.epoch, "persist": fencing.persist.epoch},
            "rows": manifest.rows,
            "digest": str(manifest.digest),
            "run_id": move.run_id,
        },
    )

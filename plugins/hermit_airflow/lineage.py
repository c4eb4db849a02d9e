"""What a move reads and writes, in OpenLineage's words, for an Airflow that has its provider installed.

Nothing here is called, nor needed, without that provider.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from uuid import UUID

    from hermit.migration.stores import Stores

_POSTGRES_PORT = "5432"


class Name(NamedTuple):
    """A dataset's name as OpenLineage's conventions have it."""

    namespace: str
    name: str


def stash_name(url: str, organization_id: UUID) -> Name:
    """The schema that holds a catalog's stash. Nothing secret is in it."""
    from psycopg.conninfo import conninfo_to_dict

    from hermit.stash.schema import schema_name

    facts = conninfo_to_dict(url)
    host = str(facts.get("host") or "localhost")
    if host.startswith("/"):
        host = "localhost"
    return Name(
        f"postgres://{host}:{facts.get('port') or _POSTGRES_PORT}",
        f"{facts.get('dbname') or 'postgres'}.{schema_name(organization_id)}",
    )


def persist_name(location: str) -> Name:
    """The Delta table that holds a catalog's shard."""
    parts = urlsplit(location)
    if parts.scheme in ("", "file"):
        return Name("file", parts.path)
    return Name(f"{parts.scheme}://{parts.netloc}", parts.path.strip("/"))


def of_move(stores: Stores, migrating: bool, rows: int, size: int) -> Any:
    """An `OperatorLineage` from the source to the target, with the size of what was copied."""
    from airflow.providers.openlineage.extractors import OperatorLineage
    from openlineage.client.event_v2 import InputDataset, OutputDataset
    from openlineage.client.facet_v2 import output_statistics_output_dataset as statistics

    stash, persist = stash_name(stores.stash_url, stores.organization_id), persist_name(stores.location)
    source, target = (stash, persist) if migrating else (persist, stash)
    counted = statistics.OutputStatisticsOutputDatasetFacet(rowCount=rows, size=size)
    return OperatorLineage(
        inputs=[InputDataset(*source)],
        outputs=[OutputDataset(*target, outputFacets={"outputStatistics": counted})],
    )

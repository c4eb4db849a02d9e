"""The connection to persist: the directory or object-store URI under which shards live."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from airflow.sdk import BaseHook


class HermitPersistHook(BaseHook):
    """Gives the root location of the shards."""

    conn_name_attr = "persist_conn_id"
    default_conn_name = "hermit_persist_default"
    conn_type = "hermit_persist"
    hook_name = "Hermit persist (Delta Lake)"

    def __init__(self, persist_conn_id: str = default_conn_name) -> None:
        super().__init__()
        self.persist_conn_id = persist_conn_id

    @staticmethod
    def get_ui_field_behaviour() -> dict[str, Any]:
        """The form: the location in `host` or in `extra`, everything else hidden."""
        return {
            "hidden_fields": ["port", "schema", "login", "password"],
            "relabeling": {"host": "Location"},
            "placeholders": {"host": "/srv/hermit/shards or s3://bucket/prefix"},
        }

    def location(self) -> str:
        """The root under which every catalog's shard lives."""
        return self.location_of(self.get_connection(self.persist_conn_id))

    async def alocation(self) -> str:
        """The same, for triggers."""
        return self.location_of(await self.aget_connection(self.persist_conn_id))

    def location_of(self, connection: Any) -> str:
        """The same, of a connection that somebody else looked up."""
        location = connection.extra_dejson.get("location") or connection.host
        if not location:
            raise ValueError(f"connection {self.persist_conn_id!r} names no location")
        return str(location)

    def test_connection(self) -> tuple[bool, str]:
        """What the button in the connection form does."""
        location = self.location()
        problem = why_not_writable(location)
        return problem is None, problem or f"shards live under {location}"


def why_not_writable(location: str) -> str | None:
    """What stands in the way of making shards there; object stores are asked when they are used."""
    if "://" in location:
        return None
    parent = Path(location)
    while not parent.exists():
        parent = parent.parent
    return None if os.access(parent, os.W_OK) else f"cannot write to {parent}"

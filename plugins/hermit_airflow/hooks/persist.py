"""The connection to persist: the directory or object-store URI under which shards live."""

from __future__ import annotations

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
        connection = self.get_connection(self.persist_conn_id)
        location = connection.extra_dejson.get("location") or connection.host
        if not location:
            raise ValueError(f"connection {self.persist_conn_id!r} names no location")
        return str(location)

    def test_connection(self) -> tuple[bool, str]:
        """What the button in the connection form does."""
        import os

        location = self.location()
        if "://" in location:
            return True, f"shards live under {location}"
        parent = location
        while not os.path.exists(parent):
            parent = os.path.dirname(parent)
        if not os.access(parent, os.W_OK):
            return False, f"cannot write to {parent}"
        return True, f"shards live under {location}"

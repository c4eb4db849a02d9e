"""The connection to a stash: a PostgreSQL, given by its fields or by one libpq URI."""

from __future__ import annotations

from typing import Any

from airflow.sdk import BaseHook


class HermitStashHook(BaseHook):
    """Gives the URL of the PostgreSQL that holds the stash."""

    conn_name_attr = "stash_conn_id"
    default_conn_name = "hermit_stash_default"
    conn_type = "hermit_stash"
    hook_name = "Hermit stash (PostgreSQL)"

    def __init__(self, stash_conn_id: str = default_conn_name) -> None:
        super().__init__()
        self.stash_conn_id = stash_conn_id

    @staticmethod
    def get_ui_field_behaviour() -> dict[str, Any]:
        """The form: the usual fields of PostgreSQL, and in `extra` a URL or libpq options."""
        return {
            "hidden_fields": [],
            "relabeling": {"schema": "Database"},
            "placeholders": {"extra": '{"sslmode": "verify-full"} or {"url": "postgresql://..."}'},
        }

    def url(self) -> str:
        """A libpq connection string. It may hold a password: never log it."""
        return self.url_of(self.get_connection(self.stash_conn_id))

    async def aurl(self) -> str:
        """The same, for triggers."""
        return self.url_of(await self.aget_connection(self.stash_conn_id))

    @staticmethod
    def url_of(connection: Any) -> str:
        """The same, of a connection that somebody else looked up."""
        extra = dict(connection.extra_dejson)
        given = extra.pop("url", None)
        if given:
            return str(given)
        from psycopg.conninfo import make_conninfo

        fields = {
            "host": connection.host,
            "port": connection.port,
            "user": connection.login,
            "password": connection.password,
            "dbname": connection.schema,
            **extra,
        }
        return make_conninfo("", **{name: value for name, value in fields.items() if value})

    def test_connection(self) -> tuple[bool, str]:
        """What the button in the connection form does."""
        import psycopg

        try:
            with psycopg.connect(self.url(), connect_timeout=5) as connection:
                version = connection.info.parameter_status("server_version")
        except psycopg.Error as error:
            return False, str(error).strip().splitlines()[0]
        return True, f"connected to PostgreSQL {version}"

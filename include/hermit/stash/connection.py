"""Connecting as libpq does, and telling nobody the password.

The connection string goes to libpq as it is: URIs, service files, passfiles, TLS options and the
environment work as with psql. We only add defaults that the string, the environment and a service do
not set: an application name, a connection timeout, and keepalives that notice a dead server. The server is
asked for the same, to notice a dead client.
"""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import quote

import psycopg
from psycopg.conninfo import conninfo_to_dict

from hermit.stash.errors import ConnectionFailed, InvalidUrl
from hermit.stash.retry import RetryPolicy, is_refusal

_SECRETS = ("password", "sslpassword", "scram_client_key", "scram_server_key", "oauth_client_secret")
_DEFAULTS: dict[str, Any] = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
# What the server does for us as keepalives do for it: notice that the other host is gone. Without this it
# would take two hours, for which a transaction holds whatever it holds.
DEAD_CLIENT = """
SELECT set_config('tcp_keepalives_idle', '10', false), set_config('tcp_keepalives_interval', '5', false),
       set_config('tcp_keepalives_count', '3', false)
"""
# A process that stops while its transaction is open must not hold the fence's row for ever, names are
# text whatever the database or the environment says, and a COMMIT that was acknowledged must be on disk even
# where the server's default says otherwise.
_SESSION = """
SET idle_in_transaction_session_timeout = '60s';
SET client_encoding = 'UTF8';
SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off';
"""


class Target:
    """Where to connect to. Its text form names host, database and user, never a secret."""

    def __init__(self, url: str) -> None:
        try:
            self._parts = conninfo_to_dict(url)
        except psycopg.ProgrammingError:
            # libpq quotes the string in its message, password included.
            raise InvalidUrl("the connection string of the stash cannot be parsed") from None
        self.url = url

    def __repr__(self) -> str:
        names = ("service", "user", "host", "port", "dbname")
        found = [f"{name}={self._parts[name]}" for name in names if self._parts.get(name)]
        return f"postgresql({' '.join(found)})"

    def redact(self, text: str) -> str:
        """The text without this target's secrets, in whatever form they were given."""
        for name in _SECRETS:
            secret = self._parts.get(name)
            if secret:
                text = text.replace(str(secret), "***").replace(quote(str(secret), safe=""), "***")
        return text.replace(self.url, repr(self)) if self.url else text

    def connect(self) -> psycopg.Connection:
        """One attempt; the error is psycopg's own."""
        connection = psycopg.connect(self.url, autocommit=True, **self._defaults())
        try:
            # CockroachDB, which gives its own version away, looks after dead clients by itself.
            is_postgresql = connection.info.parameter_status("crdb_version") is None
            connection.execute(_SESSION + DEAD_CLIENT if is_postgresql else _SESSION)
        except BaseException:
            connection.close()
            raise
        return connection

    def connect_patiently(self, policy: RetryPolicy) -> psycopg.Connection:
        """Connect, and try again for a while if the server is away; refusals are not tried again."""
        delays = policy.delays()
        attempts = 0
        while True:
            attempts += 1
            try:
                return self.connect()
            except psycopg.Error as error:
                if is_refusal(error) or next(delays, delays) is delays:
                    detail = self.redact(" ".join(str(error).split()))
                    raise ConnectionFailed(
                        f"cannot connect to {self!r}: {detail}", attempts=attempts
                    ) from None

    def _defaults(self) -> dict[str, Any]:
        added: dict[str, Any] = {}
        if "application_name" not in self._parts and "PGAPPNAME" not in os.environ:
            added["fallback_application_name"] = "hermit"
        if "service" in self._parts or "PGSERVICE" in os.environ:
            return added  # What the service file sets would lose against what is given here.
        for name, value in _DEFAULTS.items():
            from_environment = name == "connect_timeout" and "PGCONNECT_TIMEOUT" in os.environ
            if name not in self._parts and not from_environment:
                added[name] = value
        return added

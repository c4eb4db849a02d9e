"""A place where catalogs live: one stash, and the root of the shards that belong to it."""

from __future__ import annotations

from dataclasses import dataclass, field

DEFAULT = "default"
STASH, PERSIST = "hermit_stash_", "hermit_persist_"


@dataclass(frozen=True)
class Place:
    """One stash and the root of its shards. Neither is ever shown: a URL may hold a password."""

    name: str
    stash_url: str = field(repr=False)
    shards: str = field(repr=False)

    @property
    def stash_conn_id(self) -> str:
        """The connection to PostgreSQL."""
        return STASH + self.name

    @property
    def persist_conn_id(self) -> str:
        """The connection to Delta Lake."""
        return PERSIST + self.name

    @property
    def is_default(self) -> bool:
        """Whether the DAGs work here."""
        return self.name == DEFAULT

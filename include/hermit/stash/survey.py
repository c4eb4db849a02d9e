"""Every catalog that a database holds, at one glance: fence and config of all schemas in three queries.

What a client tells about one catalog costs a connection. A page that lists a hundred of them asks here: the
number of round trips does not depend on the number of catalogs. Nothing is opened and nothing written.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar
from uuid import UUID

import psycopg
from psycopg import sql

from hermit.errors import HermitError
from hermit.formats import config
from hermit.stash.connection import Target
from hermit.stash.errors import ConnectionFailed, translate
from hermit.stash.schema import BEGIN_READ, CATALOG, ROLLBACK, schema_name

# A schema is a stash when it has a fence; one that this user may not read is somebody else's.
_SCHEMAS = """
SELECT n.nspname FROM pg_namespace n JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = 'fence'
WHERE n.nspname ~ '^hermit_[0-9a-f]{32}$' AND has_schema_privilege(n.oid, 'USAGE')
  AND has_table_privilege(c.oid, 'SELECT')
ORDER BY n.nspname
"""
_FENCE = """
SELECT {name}, f.epoch, f.version, f.heap, f.opened_by,
    (SELECT collection_id FROM {schema}.collections WHERE component = {component} AND name = 'config')
FROM {schema}.fence f WHERE f.component = {component}
"""
_MARK = "SELECT {name}, epoch, version, heap FROM {schema}.fence WHERE component = {component}"
_FRONTIERS = """
SELECT {name}, coalesce(max(u.upper), 0), coalesce(min(s.since), 0) FROM {schema}.collections c
JOIN {schema}.uppers u USING (collection_id) JOIN {schema}.sinces s USING (collection_id)
WHERE c.component = {component}
"""
_CONFIG = """
SELECT {name}, key, value FROM {schema}.{heap} WHERE collection_id = {id}
GROUP BY key, value HAVING sum(diff) > 0
"""
_CHUNK = 200
_ATTEMPTS_MAX = 5
T = TypeVar("T")


Mark = tuple[int, int, str]
"""What changes whenever a stash does: epoch, version and heap of its fence."""


@dataclass(frozen=True)
class Surveyed:
    """What one catalog's stash says of itself."""

    organization_id: UUID
    epoch: int | None
    version: int
    """Counts changes of the contents."""
    heap: str
    opened_by: str
    config: Mapping[str, int] = field(default_factory=dict)

    @property
    def mark(self) -> Mark:
        return (self.epoch or 0, self.version, self.heap)


class Surveyor:
    """Looks at one database, over one connection that is kept: the server knows its tables by then."""

    def __init__(self, url: str) -> None:
        self._target = Target(url)
        self._connection: psycopg.Connection | None = None
        self._lock = threading.Lock()

    def survey(self, only: Collection[UUID] | None = None) -> dict[UUID, Surveyed]:
        """All catalogs of this database, or those named that it holds, in one snapshot."""
        return self._run(lambda connection: _survey(connection, only))

    def marks(self, only: Collection[UUID]) -> dict[UUID, Mark]:
        """The marks of these catalogs now: whether anything changed since they were surveyed."""

        def read(connection: psycopg.Connection) -> dict[UUID, Mark]:
            places = [{"schema": schema} for schema in _schemas(connection, only)]
            rows = _all(connection, _MARK, places)
            return {_organization(schema): (epoch, version, heap) for schema, epoch, version, heap in rows}

        return self._run(read)

    def frontiers(self, organization_id: UUID) -> tuple[int, int]:
        """The largest upper and the smallest since of a catalog."""

        def read(connection: psycopg.Connection) -> tuple[int, int]:
            places = [{"schema": schema} for schema in _schemas(connection, [organization_id])]
            for _, upper, since in _all(connection, _FRONTIERS, places):
                return upper, since
            return 0, 0

        return self._run(read)

    def close(self) -> None:
        """Let the connection go."""
        with self._lock:
            self._drop()

    def _run(self, read: Callable[[psycopg.Connection], T]) -> T:
        with self._lock:
            for attempt in range(1, _ATTEMPTS_MAX + 1):
                try:
                    return self._attempt(read)
                except psycopg.Error as error:
                    # A connection that broke while nobody looked, or a catalog that was dropped, or its
                    # contents replaced, after its name was read: what is there now can be read.
                    self._drop()
                    if attempt == _ATTEMPTS_MAX or isinstance(error, psycopg.errors.InsufficientPrivilege):
                        raise self._translated(error) from None
        raise ConnectionFailed(f"cannot ask {self._target!r}")

    def _attempt(self, read: Callable[[psycopg.Connection], T]) -> T:
        if self._connection is None or self._connection.closed:
            try:
                self._connection = self._target.connect()
            except psycopg.Error as error:
                detail = self._target.redact(" ".join(str(error).split()))
                raise ConnectionFailed(f"cannot connect to {self._target!r}: {detail}") from None
        self._connection.execute(BEGIN_READ)
        found = read(self._connection)
        self._connection.execute(ROLLBACK)
        return found

    def _translated(self, error: psycopg.Error) -> HermitError:
        return translate(error, "survey of the stash", self._target.redact, writing=False)

    def _drop(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(psycopg.Error):
                self._connection.close()
            self._connection = None


def _schemas(connection: psycopg.Connection, only: Collection[UUID] | None) -> list[str]:
    found = [row[0] for row in connection.execute(_SCHEMAS)]
    if only is None:
        return found
    wanted = {schema_name(organization_id) for organization_id in only}
    return [schema for schema in found if schema in wanted]


def _survey(connection: psycopg.Connection, only: Collection[UUID] | None) -> dict[UUID, Surveyed]:
    schemas = _schemas(connection, only)
    fences = _all(connection, _FENCE, [{"schema": schema} for schema in schemas])
    places = [{"schema": row[0], "heap": row[3], "id": row[5]} for row in fences if row[5] is not None]
    entries: dict[str, dict[str, int]] = {}
    for schema, key, value in _all(connection, _CONFIG, places):
        entries.setdefault(schema, {})[config.decode_key(key)] = config.decode_value(value)
    return {
        _organization(schema): Surveyed(
            organization_id=_organization(schema),
            epoch=epoch or None,
            version=version,
            heap=heap,
            opened_by=opened_by,
            config=entries.get(schema, {}),
        )
        for schema, epoch, version, heap, opened_by, _ in fences
    }


def _organization(schema: str) -> UUID:
    return UUID(schema.removeprefix("hermit_"))


def _all(
    connection: psycopg.Connection, template: str, places: Sequence[Mapping[str, str | int]]
) -> list[tuple[Any, ...]]:
    """The rows of one statement over many schemas, in as few queries as PostgreSQL plans well."""
    found: list[tuple[Any, ...]] = []
    for start in range(0, len(places), _CHUNK):
        query = sql.SQL(" UNION ALL ").join(_one(template, place) for place in places[start : start + _CHUNK])
        found += connection.execute(query, binary=True).fetchall()
    return found


def _one(template: str, place: Mapping[str, str | int]) -> sql.Composed:
    names = {key: sql.Identifier(str(place[key])) for key in ("schema", "heap") if key in place}
    return sql.SQL(template).format(
        name=sql.Literal(place["schema"]),
        component=sql.Literal(CATALOG),
        id=sql.Literal(place.get("id")),
        **names,
    )

"""Every catalog that a database holds, at one glance: fence and config of all schemas in two queries.

What a client tells about one catalog costs a connection. A page that lists a hundred of them asks here: the
number of round trips does not depend on the number of catalogs. Nothing is opened and nothing written.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

import psycopg
from psycopg import sql

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
    (SELECT collection_id FROM {schema}.collections WHERE component = {component} AND name = 'config'),
    (SELECT coalesce(max(u.upper), 0) FROM {schema}.uppers u JOIN {schema}.collections c
        USING (collection_id) WHERE c.component = {component}),
    (SELECT coalesce(min(s.since), 0) FROM {schema}.sinces s JOIN {schema}.collections c
        USING (collection_id) WHERE c.component = {component})
FROM {schema}.fence f WHERE f.component = {component}
"""
_CONFIG = """
SELECT {name}, key, value FROM {schema}.{heap} WHERE collection_id = {id}
GROUP BY key, value HAVING sum(diff) > 0
"""
_CHUNK = 200
_ATTEMPTS_MAX = 5


@dataclass(frozen=True)
class Surveyed:
    """What one catalog's stash says of itself."""

    organization_id: UUID
    epoch: int | None
    version: int
    """Counts changes of the contents."""
    heap: str
    opened_by: str
    upper: int
    since: int
    config: Mapping[str, int] = field(default_factory=dict)


def survey(url: str, only: Collection[UUID] | None = None) -> dict[UUID, Surveyed]:
    """All catalogs of this database, or those named that it holds, in one snapshot."""
    target = Target(url)
    for attempt in range(1, _ATTEMPTS_MAX + 1):
        try:
            with target.connect() as connection:
                return _read(connection, only)
        except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName) as error:
            # A catalog was dropped, or its contents replaced, after its name was read.
            if attempt == _ATTEMPTS_MAX:
                raise translate(error, "survey of the stash", target.redact, writing=False) from None
        except psycopg.OperationalError as error:
            raise ConnectionFailed(f"cannot ask {target!r}: {target.redact(str(error))}") from None
    return {}


def _read(connection: psycopg.Connection, only: Collection[UUID] | None) -> dict[UUID, Surveyed]:
    connection.execute(BEGIN_READ)
    try:
        schemas = [row[0] for row in connection.execute(_SCHEMAS)]
        if only is not None:
            wanted = {schema_name(organization_id) for organization_id in only}
            schemas = [schema for schema in schemas if schema in wanted]
        found: dict[UUID, Surveyed] = {}
        for start in range(0, len(schemas), _CHUNK):
            found |= _read_chunk(connection, schemas[start : start + _CHUNK])
        return found
    finally:
        connection.execute(ROLLBACK)


def _read_chunk(connection: psycopg.Connection, schemas: Sequence[str]) -> dict[UUID, Surveyed]:
    fences = connection.execute(_union(_FENCE, [{"schema": schema} for schema in schemas])).fetchall()
    places = [{"schema": row[0], "heap": row[3], "id": row[5]} for row in fences if row[5] is not None]
    entries: dict[str, dict[str, int]] = {}
    if places:
        for schema, key, value in connection.execute(_union(_CONFIG, places), binary=True):
            entries.setdefault(schema, {})[config.decode_key(key)] = config.decode_value(value)
    return {
        (organization := UUID(schema.removeprefix("hermit_"))): Surveyed(
            organization_id=organization,
            epoch=epoch or None,
            version=version,
            heap=heap,
            opened_by=opened_by,
            upper=upper,
            since=since,
            config=entries.get(schema, {}),
        )
        for schema, epoch, version, heap, opened_by, _, upper, since in fences
    }


def _union(template: str, places: Sequence[Mapping[str, str | int]]) -> sql.Composed:
    def one(place: Mapping[str, str | int]) -> sql.Composed:
        names = {key: sql.Identifier(str(place[key])) for key in ("schema", "heap") if key in place}
        return sql.SQL(template).format(
            name=sql.Literal(place["schema"]),
            component=sql.Literal(CATALOG),
            id=sql.Literal(place.get("id")),
            **names,
        )

    return sql.SQL(" UNION ALL ").join(map(one, places))

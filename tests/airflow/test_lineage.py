"""The names by which lineage knows the two stores of a catalog."""

from __future__ import annotations

from uuid import UUID

import pytest

from hermit_airflow.lineage import persist_name, stash_name

_ORGANIZATION = UUID("6f1c0f0e-53f9-4f0f-8c1a-0a5f3c0f9b1d")


@pytest.mark.parametrize(
    ("url", "namespace", "database"),
    [
        ("postgresql://ann:secret@db.example:6432/stash", "postgres://db.example:6432", "stash"),
        ("host=/run/postgres dbname=hermit user=ann password=secret", "postgres://localhost:5432", "hermit"),
    ],
)
def test_a_stash_is_named_by_server_database_and_schema(url: str, namespace: str, database: str) -> None:
    found = stash_name(url, _ORGANIZATION)
    assert found == (namespace, f"{database}.hermit_{_ORGANIZATION.hex}")
    assert "secret" not in str(found)


@pytest.mark.parametrize(
    ("location", "namespace", "name"),
    [
        ("/srv/shards/s1", "file", "/srv/shards/s1"),
        ("s3://bucket/shards/s1", "s3://bucket", "shards/s1"),
    ],
)
def test_a_shard_is_named_by_its_location(location: str, namespace: str, name: str) -> None:
    assert persist_name(location) == (namespace, name)

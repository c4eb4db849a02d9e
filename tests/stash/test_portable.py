"""The control statements stay with what CockroachDB also understands."""

from __future__ import annotations

import re
from uuid import UUID

import pytest

from hermit.stash.schema import CATALOG, control, create_schema, schema_name

ONLY_POSTGRESQL = re.compile(
    r"\b(ctid|xmin|regclass|pg_\w+|copy|lock table|listen|notify|plpgsql|do \$|set local|temp|brin)\b"
)


def statements() -> dict[str, str]:
    schema = schema_name(UUID(int=1))
    found = {f"create {n}": text.decode() for n, text in enumerate(create_schema(schema))}
    found |= {
        name: text.decode()
        for name, text in vars(control(schema, CATALOG)).items()
        if isinstance(text, bytes)
    }
    return found


@pytest.mark.parametrize("name", statements())
def test_a_control_statement_uses_nothing_that_only_postgresql_has(name: str) -> None:
    assert not ONLY_POSTGRESQL.search(statements()[name].lower())

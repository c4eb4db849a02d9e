"""Where catalogs live: pairs of connections of the types `hermit_stash` and `hermit_persist`.

A pair shares the end of its name: `hermit_stash_eu` goes with `hermit_persist_eu`. The DAGs work on the pair
`…_default`, which is always looked up, since a secrets backend can give a connection but not list them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from airflow.exceptions import AirflowNotFoundException
from airflow.models.connection import Connection
from airflow.utils.session import create_session
from sqlalchemy import select

from hermit_airflow.hooks.persist import HermitPersistHook
from hermit_airflow.hooks.stash import HermitStashHook
from hermit_airflow.page.place import DEFAULT, PERSIST, STASH, Place

_VARIABLE = "AIRFLOW_CONN_"


def places() -> list[Place]:
    """Every pair that is configured, the DAGs' own first."""
    known = {*_in_environment(), *_in_database()}
    names = {
        conn_id.removeprefix(STASH)
        for conn_id in known
        if conn_id.startswith(STASH) and PERSIST + conn_id.removeprefix(STASH) in known
    }
    found = [_place(name) for name in (DEFAULT, *sorted(names - {DEFAULT}))]
    return [place for place in found if place is not None]


def _place(name: str) -> Place | None:
    try:
        stash = Connection.get_connection_from_secrets(STASH + name)
        persist = Connection.get_connection_from_secrets(PERSIST + name)
    except AirflowNotFoundException:
        return None
    return Place(name, HermitStashHook.url_of(stash), HermitPersistHook(PERSIST + name).location_of(persist))


def _in_environment() -> Iterable[str]:
    return (name.removeprefix(_VARIABLE).lower() for name in os.environ if name.startswith(_VARIABLE))


def _in_database() -> list[str]:
    types = (HermitStashHook.conn_type, HermitPersistHook.conn_type)
    with create_session() as session:
        return list(session.scalars(select(Connection.conn_id).where(Connection.conn_type.in_(types))))

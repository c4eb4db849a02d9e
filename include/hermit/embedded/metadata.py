"""Airflow's metadata database: started, made or upgraded, and held for as long as it is used."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from hermit.embedded import airflow
from hermit.embedded.postgres import EmbeddedPostgres
from hermit.errors import Unavailable
from hermit.settings import Settings


@contextmanager
def running(settings: Settings) -> Iterator[EmbeddedPostgres]:
    """Its server, with the tables of this version of Airflow; the last one to let go of it stops it."""
    server = airflow.database(settings)
    server.start()
    try:
        _ensure_tables(settings)
        yield server
    finally:
        server.release()


def _ensure_tables(settings: Settings) -> None:
    """A stamp in the data directory lets later starts skip it, and is gone when the data are."""
    data = airflow.database(settings).data
    stamp, log = data / "airflow.stamp", airflow.home(settings) / "database.log"
    wanted = _airflow_version()
    with (data.parent / "tables.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if stamp.exists() and stamp.read_text() == wanted:
            return
        with log.open("w") as output:
            code = subprocess.call(
                [sys.executable, "-m", "airflow", "db", "migrate"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=airflow.environment(settings),
            )
        if code != 0:
            raise Unavailable("airflow could not make its metadata database", hint=f"see {log}")
        stamp.write_text(wanted)


def _airflow_version() -> str:
    from importlib.metadata import version

    return version("apache-airflow")

"""Airflow's home on one machine: its environment and its secrets.

Everything lives under `HERMIT_HOME/airflow`, the metadata database included. Secrets are made once, readable
by their owner only, and reach Airflow's processes through their environment. The stores are ordinary Airflow
connections, so that the same DAGs run against real servers when the connections say so.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
from pathlib import Path

from hermit.embedded import spark
from hermit.embedded.postgres import EmbeddedPostgres
from hermit.errors import InvalidInput
from hermit.settings import Settings

USER = "admin"
_AUTH_MANAGER = "airflow.api_fastapi.auth.managers.simple.simple_auth_manager.SimpleAuthManager"


def home(settings: Settings) -> Path:
    """AIRFLOW_HOME."""
    return settings.home / "airflow"


def database(settings: Settings) -> EmbeddedPostgres:
    """The server of the metadata database, apart from the stash, which may be down or somebody else's.

    No truth is in there, so that a commit need not wait for the disk.
    """
    return EmbeddedPostgres(home(settings) / "postgres", settings={"synchronous_commit": "off"})


def environment(settings: Settings, port: int | None = None) -> dict[str, str]:
    """The whole environment of an Airflow process, this process's own included."""
    dags = settings.root / "dags"
    if not dags.is_dir():
        raise InvalidInput(
            f"there are no DAGs in {settings.root}",
            hint="run this in a checkout; in an Airflow of your own, trigger the DAGs there",
        )
    airflow = home(settings)
    keys = _secrets(settings)
    database_url = database(settings).url()
    config = {
        "CORE__AUTH_MANAGER": _AUTH_MANAGER,
        "CORE__DAGS_FOLDER": str(dags),
        "CORE__PLUGINS_FOLDER": str(settings.root / "plugins"),
        "CORE__LOAD_EXAMPLES": "False",
        "CORE__EXECUTOR": "LocalExecutor",
        "CORE__PARALLELISM": "4",
        "CORE__FERNET_KEY": keys["fernet"],
        "CORE__SIMPLE_AUTH_MANAGER_USERS": _users(),
        "CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(airflow / "passwords.json"),
        "API__SECRET_KEY": keys["api"],
        "API_AUTH__JWT_SECRET": keys["jwt"],
        "DATABASE__SQL_ALCHEMY_CONN": database_url.replace("postgresql", "postgresql+psycopg2", 1),
        "DAG_PROCESSOR__REFRESH_INTERVAL": "30",
        # A file that changed is read at once; reading one that did not is seconds of work for nothing.
        "DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "600",
        "USAGE_DATA_COLLECTION__ENABLED": "False",
        "LOGGING__BASE_LOG_FOLDER": str(airflow / "logs"),
        "SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.5",
        # A task whose process died is tried again within a minute or two, not ten.
        "SCHEDULER__TASK_INSTANCE_HEARTBEAT_SEC": "5",
        "SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "60",
        # The API's first answer to a task takes seconds, more on a busy machine; at 5 s the task would fail.
        "WORKERS__EXECUTION_API_TIMEOUT": "30",
    }
    if port is not None:
        config |= {
            "API__HOST": "127.0.0.1",
            "API__PORT": str(port),
            "API__WORKERS": "1",
            "API__BASE_URL": f"http://127.0.0.1:{port}",
            "CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{port}/execution/",
        }
    return {
        **os.environ,
        **spark.environment(),
        **spark.shared_classes(settings.home),
        **{f"AIRFLOW__{name}": value for name, value in config.items()},
        **_connections(settings),
        "AIRFLOW_HOME": str(airflow),
        "HERMIT_HOME": str(settings.home),
        "HERMIT_ROOT": str(settings.root),
        "HERMIT_ORGANIZATION_ID": str(settings.organization_id),
        "PYTHONWARNINGS": "ignore",
    }


def _users() -> str:
    """The admin, and whoever else is asked for as `name:role,…`; Airflow makes their passwords."""
    more = os.environ.get("HERMIT_AIRFLOW_USERS")
    return f"{USER}:admin,{more}" if more else f"{USER}:admin"


def password(settings: Settings) -> str:
    """The password of the admin user."""
    return _secrets(settings)["password"]


def _connections(settings: Settings) -> dict[str, str]:
    connections = {
        "HERMIT_STASH_DEFAULT": {"conn_type": "hermit_stash", "extra": {"url": settings.stash_url}},
        "HERMIT_PERSIST_DEFAULT": {"conn_type": "hermit_persist", "extra": {"location": settings.shards}},
        "SPARK_DEFAULT": {"conn_type": "spark", "host": settings.spark_master},
    }
    return {f"AIRFLOW_CONN_{name}": json.dumps(value) for name, value in connections.items()}


def _secrets(settings: Settings) -> dict[str, str]:
    airflow = home(settings)
    path = airflow / "secrets.json"
    if not path.exists():
        airflow.mkdir(parents=True, exist_ok=True)
        keys = {
            "fernet": base64.urlsafe_b64encode(os.urandom(32)).decode(),
            "api": secrets.token_hex(32),
            "jwt": secrets.token_hex(32),
            "password": secrets.token_urlsafe(12),
        }
        _write_once(path, json.dumps(keys))
    keys = json.loads(path.read_text())
    _write_once(airflow / "passwords.json", json.dumps({USER: keys["password"]}))
    return dict(keys)


def _write_once(path: Path, text: str) -> None:
    """Whole or not at all, for the owner's eyes; the first writer wins."""
    draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    draft.touch(mode=0o600)
    draft.write_text(text)
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink()

"""The services of docker-compose.yaml as processes of this machine.

Commands, environment and PostgreSQL's options come from the file itself. What a machine without an engine
cannot have is replaced: names of hosts by 127.0.0.1 with ports that are free, paths of containers by
directories, Redis, which no pinned package brings, by Celery's own transport over files, and PostgreSQL's own
TLS, which the embedded build has none of, by a proxy that speaks it with the file's certificates.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from hermit.embedded import compose, spark
from hermit.embedded.postgres import EmbeddedPostgres
from tests.deploy import compose_file
from tests.stash.proxy import Proxy

_WITHIN_S = 500


class Topology:
    """Starts what compose would start, in its order, and ends all of it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        for name in ("airflow/logs", "shards", "queue", "output"):
            (home / name).mkdir(parents=True)
        (home / "docker-compose.yaml").touch()
        compose.write(home)
        self.values = dict(line.split("=", 1) for line in (home / ".env").read_text().splitlines())
        self.ports = {name: _free_port() for name in ("airflow-db", "api", "spark", "master-ui")}
        self.ports["stash"] = 0
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._servers: list[EmbeddedPostgres] = []
        self._proxy: Proxy | None = None

    # The file, for this machine

    @property
    def services(self) -> dict[str, Any]:
        """The file's services, with the ports that are known by now."""
        return dict(self._here(compose_file.load(self.values)["services"]))

    def _here(self, value: Any) -> Any:
        """The same value with hosts and paths of this machine."""
        if isinstance(value, dict):
            return {name: self._here(part) for name, part in value.items()}
        if isinstance(value, list):
            return [self._here(part) for part in value]
        if not isinstance(value, str):
            return value
        for there, here in self._replacements():
            value = value.replace(there, here)
        return {"spark-master": "127.0.0.1", "7077": str(self.ports["spark"])}.get(value, value)

    def _replacements(self) -> list[tuple[str, str]]:
        secrets = self.home / "deploy" / "secrets"
        return [
            ("airflow-db:5432", f"127.0.0.1:{self.ports['airflow-db']}"),
            ("api-server:8080", f"127.0.0.1:{self.ports['api']}"),
            ("spark-master:7077", f"127.0.0.1:{self.ports['spark']}"),
            ('"spark-master", "port": 7077', f'"127.0.0.1", "port": {self.ports["spark"]}'),
            ('spark://spark-master", "port": 7077', f'spark://127.0.0.1", "port": {self.ports["spark"]}'),
            ('"stash", "port": 5432', f'"localhost", "port": {self.ports["stash"]}'),
            ("/run/secrets/stash-certificate", str(secrets / "stash.crt")),
            ("/run/secrets/stash-ca", str(secrets / "stash-ca.crt")),
            ("/var/run/postgresql/server.key", str(secrets / "stash.key")),
            ("/etc/hermit/pg_hba.conf", str(compose_file.ROOT / "deploy" / "stash" / "pg_hba.conf")),
            ("/opt/hermit/dags", str(compose_file.ROOT / "dags")),
            ("/opt/hermit/deploy", str(compose_file.ROOT / "deploy")),
            ("/opt/airflow", str(self.home / "airflow")),
            ("/srv/shards", str(self.home / "shards")),
            ("/tmp/spark", str(self.home / "spark")),
        ]

    @property
    def stash(self) -> dict[str, Any]:
        """The connection that the DAGs use, from the file."""
        return dict(json.loads(self.services["worker"]["environment"]["AIRFLOW_CONN_HERMIT_STASH_DEFAULT"]))

    def environment(self, service: str) -> dict[str, str]:
        """What the file gives to a service, and what only a shared machine needs."""
        queue = str(self.home / "queue")
        ports = ("LOGGING__WORKER_LOG_SERVER_PORT", "LOGGING__TRIGGER_LOG_SERVER_PORT", "API__PORT")
        alone = {f"AIRFLOW__{name}": str(_free_port()) for name in ports}
        alone["AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_SERVER_PORT"] = str(_free_port())
        options = "AIRFLOW__CELERY_BROKER_TRANSPORT_OPTIONS__"
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "HERMIT_"))
        }
        tools = str(Path(sys.executable).parent)
        machine = spark.environment()
        return {
            **kept,
            **machine,
            "PATH": os.pathsep.join([tools, machine["PATH"]]),
            **self.services[service]["environment"],
            **alone,
            "AIRFLOW__API__HOST": "127.0.0.1",
            "AIRFLOW__API__PORT": str(self.ports["api"]),
            "AIRFLOW__CELERY__BROKER_URL": "filesystem://",
            f"{options}DATA_FOLDER_IN": queue,
            f"{options}DATA_FOLDER_OUT": queue,
            f"{options}CONTROL_FOLDER": str(self.home / "control"),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "128m",
            "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
            "PYTHONWARNINGS": "ignore",
        }

    # Starting

    def start(self, *names: str) -> None:
        """Start services by the commands of the file."""
        for name in names:
            command = self.services[name]["command"]
            if name.startswith("spark"):
                ui = command.index("--webui-port") + 1
                port = self.ports["master-ui"] if name == "spark-master" else _free_port()
                command = [*command[:ui], str(port), *command[ui + 1 :]]
                command = [f"{part}/{name}" if part == str(self.home / "spark") else part for part in command]
            with (self.home / "output" / name).open("wb") as output:
                self._processes[name] = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    env=self.environment(name),
                    cwd=self.home,
                    start_new_session=True,
                )

    def finish(self, name: str) -> None:
        """Wait for a service that ends by itself."""
        assert self._processes.pop(name).wait(_WITHIN_S) == 0, self.output(name)

    def start_airflow_db(self) -> None:
        """PostgreSQL for Airflow itself."""
        server = EmbeddedPostgres(self.home / "airflow-db", tcp_port=self.ports["airflow-db"])
        self._start_server(server, self.services["airflow-db"]["environment"])

    def start_stash(self) -> None:
        """The stash with the file's access rules, reached over TLS or not at all."""
        home, environment = self.home / "stash", self.services["stash"]["environment"]
        fresh = EmbeddedPostgres(home)
        self._start_server(fresh, environment)
        fresh.stop()
        options = dict(option.split("=", 1) for option in self.services["stash"]["command"][2::2])
        server = EmbeddedPostgres(home, settings={"hba_file": options["hba_file"]})
        server.start()
        self._servers.append(server)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion[options["ssl_min_protocol_version"].replace(".", "_")]
        context.load_cert_chain(options["ssl_cert_file"], options["ssl_key_file"])
        self._proxy = Proxy(server.url(environment["POSTGRES_DB"]), tls=context)
        self._proxy.__enter__()
        self.ports["stash"] = int(conninfo_to_dict(self._proxy.url)["port"])

    def _start_server(self, server: EmbeddedPostgres, environment: dict[str, str]) -> None:
        """What the image's entry point does: a role with a password, and a database of its own."""
        server.start()
        self._servers.append(server)
        user, database = environment["POSTGRES_USER"], environment["POSTGRES_DB"]
        url = make_conninfo(server.url(), port=server.tcp_port or 5432)
        with psycopg.connect(url, autocommit=True) as connection:
            if user != "hermit":
                connection.execute(sql.SQL("create role {} login").format(sql.Identifier(user)))
            password = sql.Literal(environment["POSTGRES_PASSWORD"])
            connection.execute(sql.SQL("alter role {} password {}").format(sql.Identifier(user), password))
            names = (sql.Identifier(database), sql.Identifier(user))
            connection.execute(sql.SQL("create database {} owner {}").format(*names))

    # Waiting, looking, ending

    def wait_for(self, what: str, condition: Callable[[], bool]) -> None:
        """Poll until it is so. A service that ended never will."""
        deadline = time.monotonic() + _WITHIN_S
        while not condition():
            for name, process in self._processes.items():
                assert process.poll() is None, f"{name} ended: {self.output(name)}"
            assert time.monotonic() < deadline, f"{what} did not come: {self._outputs()}"
            time.sleep(1)

    def get(self, port: str, path: str) -> Any:
        """A document from a service, or nothing while it does not answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.ports[port]}{path}", timeout=5) as response:
                return json.load(response)
        except (OSError, ValueError):
            return None

    def output(self, name: str) -> str:
        """The end of what a service said."""
        return (self.home / "output" / name).read_text(errors="replace")[-1500:]

    def _outputs(self) -> str:
        return "\n".join(f"--- {name}\n{self.output(name)}" for name in self._processes)

    def end(self) -> None:
        """End every process that was started here, and what it started."""
        for process in reversed(self._processes.values()):
            process.terminate()
        for process in self._processes.values():
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            # Whatever is left of its group: a worker's children, a job's JVM.
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        if self._proxy is not None:
            self._proxy.__exit__(None, None, None)
        for server in self._servers:
            server.stop()
            server.release(keep_running=True)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])

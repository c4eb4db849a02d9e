"""One real Airflow for all tests of the page, started as a user starts it, with a user of every role."""

from __future__ import annotations

import json
import os
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import psutil

from hermit.embedded.postgres import EmbeddedPostgres
from hermit.migration.stores import Stores, connect
from tests.processes import is_running

ROOT = Path(__file__).resolve().parents[2]
ROLES = ("viewer", "user", "op", "admin")


@dataclass(frozen=True)
class Answer:
    """What an endpoint gave."""

    status: int
    text: str
    headers: Mapping[str, str]

    @property
    def json(self) -> Any:
        return json.loads(self.text)


@dataclass
class Machine:
    """A home of its own, with Airflow up."""

    home: Path
    url: str = ""
    tokens: dict[str, str] = field(default_factory=dict)

    def hermit(self, *arguments: str) -> str:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("HERMIT_")}
        users = ",".join(f"{role}:{role}" for role in ROLES if role != "admin")
        environment = {**inherited, "HERMIT_HOME": str(self.home), "HERMIT_AIRFLOW_USERS": users}
        command = [str(ROOT / "hermit"), *arguments]
        result = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        assert result.returncode == 0, result.stderr
        return result.stdout

    def up(self) -> None:
        """The one command."""
        printed = dict(line.split(":", 1) for line in self.hermit("up").splitlines() if ":" in line)
        self.url = printed["Airflow"].strip()

    def password(self, role: str) -> str:
        return str(json.loads((self.home / "airflow" / "passwords.json").read_text())[role])

    def token(self, role: str) -> str:
        if role not in self.tokens:
            login = {"username": role, "password": self.password(role)}
            self.tokens[role] = self.call(None, "POST", "/auth/token", login).json["access_token"]
        return self.tokens[role]

    def call(
        self,
        role: str | None,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """A request in a role, or without a login."""
        sent = {"Content-Type": "application/json", **(headers or {})}
        if role is not None:
            sent["Authorization"] = f"Bearer {self.token(role)}"
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(f"{self.url}{path}", data, sent, method=method)
        try:
            with urllib.request.urlopen(request, timeout=300) as response:
                return Answer(response.status, response.read().decode(), _lower(response.headers))
        except urllib.error.HTTPError as error:
            return Answer(error.code, error.read().decode(), _lower(error.headers))

    @property
    def stash_url(self) -> str:
        return EmbeddedPostgres(self.home / "postgres").url()

    @property
    def shards(self) -> str:
        return str(self.home / "shards")

    @property
    def organization_id(self) -> UUID:
        """The demo catalog that `up` made."""
        return UUID((self.home / "organization_id").read_text().strip())

    def stores(self) -> Stores:
        return connect(self.stash_url, self.shards, self.organization_id)

    def fail_run(self, dag_id: str, run_id: str) -> None:
        """End a run as somebody in Airflow's UI does."""
        path = f"/api/v2/dags/{dag_id}/dagRuns/{urllib.request.quote(run_id, safe='')}"  # type: ignore[attr-defined]
        assert self.call("admin", "PATCH", path, {"state": "failed"}).status == 200

    def spark_processes(self) -> list[psutil.Process]:
        """The staging job of this home."""
        return [process for process in psutil.process_iter() if self._is_spark(process)]

    def _is_spark(self, process: psutil.Process) -> bool:
        try:
            home = process.environ().get("HERMIT_HOME", "")
            return str(self.home) in home and is_running(process, "stage_snapshot")
        except psutil.Error:
            return False


def _lower(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def wait_until(condition: Callable[[], Any], what: str, timeout_s: float = 600) -> Any:
    """Poll until it holds."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"not within {timeout_s} s: {what}")

"""A home of its own, as on a machine that never saw Hermit, and the Airflow that may run in it."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from hermit import settings
from hermit.embedded import airflow, services
from hermit.embedded.runs import AirflowApi
from hermit.migration.stores import Stores, connect

ROOT = Path(__file__).resolve().parents[2]
HERMIT = ROOT / "hermit"
_WAIT_S = 600
T = TypeVar("T")


class Machine:
    """What the commands of the README run on."""

    def __init__(self, home: Path, **environment: str) -> None:
        self.home = home
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("HERMIT_")}
        self.environment = {**inherited, "HERMIT_HOME": str(home), **environment}
        # Spark's jars were fetched before the tests; their home is the run's.
        home.mkdir()
        (home / "jars").symlink_to(Path(os.environ["HERMIT_HOME"]) / "jars")

    def hermit(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [HERMIT, *arguments], capture_output=True, text=True, check=False, env=self.environment
        )

    def must(self, *arguments: str) -> str:
        result = self.hermit(*arguments)
        log = self.home / "airflow" / "logs" / f"{arguments[0]}_catalog.log"
        tail = log.read_text()[-4000:] if log.exists() else ""
        assert result.returncode == 0, f"{result.stderr}\n{tail}"
        return result.stdout

    def status(self) -> dict[str, Any]:
        return dict(json.loads(self.must("status", "--json")))

    # What only a test asks for

    @contextlib.contextmanager
    def is_up(self) -> Iterator[None]:
        """Its Airflow runs for as long as the block does."""
        try:
            self.must("up")
            yield
        finally:
            self.hermit("down")

    def settings(self, organization_id: str | None = None) -> settings.Settings:
        return settings.load(organization_id, {**self.environment, "HERMIT_ROOT": str(ROOT)})

    def stores(self, organization_id: str) -> Stores:
        """The stores of a catalog, while the embedded PostgreSQL runs."""
        found = self.settings(organization_id)
        return connect(found.stash_url, found.shards, found.organization_id)

    def api(self) -> AirflowApi:
        """The REST interface of the Airflow that is up."""
        running = services.running(self.settings())
        assert running is not None
        return AirflowApi(running.url, airflow.USER, airflow.password(self.settings()))

    def airflow(self, *arguments: str) -> str:
        """Airflow's own command line."""
        result = subprocess.run(
            [ROOT / ".venv" / "bin" / "airflow", *arguments],
            capture_output=True,
            text=True,
            check=False,
            env=airflow.environment(self.settings()),
        )
        assert result.returncode == 0, result.stderr[-2000:]
        return result.stdout


def wait_for(look: Callable[[], T | None], every_s: float = 0.5) -> T:
    """What `look` finds, as soon as it finds something."""
    deadline = time.monotonic() + _WAIT_S
    while True:
        found = look()
        if found is not None:
            return found
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(every_s)

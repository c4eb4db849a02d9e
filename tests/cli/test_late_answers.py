"""An Airflow on a busy machine, which answers late: the CLI asks again, and starts nothing twice."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from hermit.embedded.runs import AirflowApi
from hermit.errors import Unavailable

ANSWER_S = 0.3


class Slow(ThreadingHTTPServer):
    """Speaks as Airflow does. The first so many requests for a path are answered too late."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.late: dict[str, int] = {}
        self.asked: list[str] = []
        self.over = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Slow

    def do_GET(self) -> None:
        self._answer({"dags": [{"dag_id": "migrate_catalog"}], "is_paused": False, "state": "running"})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self._answer({"access_token": "token", "dag_run_id": "run"})

    def _answer(self, facts: dict[str, object]) -> None:
        path = self.path.partition("?")[0]
        self.server.asked.append(f"{self.command} {path}")
        if self.server.late.get(path, 0) > 0:
            self.server.late[path] -= 1
            self.server.over.wait(30)
            return
        data = json.dumps(facts).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *arguments: object) -> None:
        """Nobody reads it."""


@pytest.fixture
def slow() -> Iterator[Slow]:
    with Slow() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.over.set()
        server.shutdown()
        thread.join()


def test_a_question_that_is_answered_late_is_asked_again(slow: Slow) -> None:
    slow.late = {"/auth/token": 1, "/api/v2/dags": 2}
    api = AirflowApi(slow.url, "user", "password", answer_s=ANSWER_S)
    assert api.dags() == {"migrate_catalog"}
    assert slow.asked.count("POST /auth/token") == 2
    assert slow.asked.count("GET /api/v2/dags") == 3


def test_a_run_whose_start_is_answered_late_is_not_started_again(slow: Slow) -> None:
    slow.late = {"/api/v2/dags/migrate_catalog/dagRuns": 1}
    api = AirflowApi(slow.url, "user", "password", answer_s=ANSWER_S)
    with pytest.raises(Unavailable, match="does not answer"):
        api.trigger("migrate_catalog", {})
    assert slow.asked.count("POST /api/v2/dags/migrate_catalog/dagRuns") == 1


def test_an_airflow_that_never_answers_is_given_up(slow: Slow) -> None:
    api = AirflowApi(slow.url, "user", "password", answer_s=ANSWER_S)
    slow.late = {"/api/v2/dags": 1_000}
    with pytest.raises(Unavailable, match="timed out"):
        api.dags()
    assert slow.asked.count("GET /api/v2/dags") == 5


def test_an_airflow_that_is_gone_is_told_at_once(slow: Slow) -> None:
    api = AirflowApi(slow.url, "user", "password", answer_s=60)
    slow.server_close()
    slow.shutdown()
    with pytest.raises(Unavailable, match="refused"):
        api.dags()

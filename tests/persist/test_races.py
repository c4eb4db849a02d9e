"""Races: processes that append at once; each success is in the table once, each failure is not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from hermit.persist import PersistClient
from hermit.persist.storage.open import open_storage
from hermit.persist.verify import verify
from tests.nursery import Nursery
from tests.persist import processes
from tests.persist.processes import Won
from tests.persist.s3_server import S3Server


def run_race(
    nursery: Nursery,
    location: str,
    reports: Path,
    *,
    racers: int,
    attempts: int,
    environment: dict[str, str] | None = None,
) -> tuple[list[Won], list[str]]:
    reports.mkdir()
    paths = [reports / f"racer-{number}" for number in range(racers)]
    running = [
        nursery.start(processes.race, location, str(path), number, attempts, racers, environment=environment)
        for number, path in enumerate(paths)
    ]
    assert [nursery.wait(pid) for pid in running] == [0] * racers
    won, lost = [], []
    for path in paths:
        for kind, *facts in processes.read_reports(path)[1:]:
            if kind == "won":
                won.append(Won(*facts))
            else:
                lost.append(facts[0])
    return won, lost


def check_history(location: str, won: Sequence[Won], lost: Sequence[str]) -> None:
    client = PersistClient.open(location, mode="ro")
    assert client.state().upper("a") == len(won)
    # Every success is there once, at its own time; every failure is absent.
    listener = client.listen(["a"], 0)
    steps = [*listener.poll(), *listener.poll()]
    found = [(update.time, update.key.decode()) for step in steps for update in step.updates]
    assert found == sorted((win.time, win.key) for win in won)
    assert not {key for _, key in found} & set(lost)
    # Linearizable: an append that ended before another began has the smaller time.
    latest_begin_s = 0.0
    for win in sorted(won):
        assert win.ended_s > latest_begin_s, "an append took effect before one that had ended"
        latest_begin_s = max(latest_begin_s, win.began_s)
    assert verify(open_storage(location)).damage == []


@pytest.mark.slow
def test_four_processes_racing_two_thousand_appends_are_linearizable(
    tmp_path: Path, nursery: Nursery
) -> None:
    location = str(tmp_path / "location")
    won, lost = run_race(nursery, location, tmp_path / "reports", racers=4, attempts=500)
    assert len(won) + len(lost) == 2000
    assert lost, "they never met: this was no race"
    check_history(location, won, lost)


def test_processes_racing_to_create_a_location_agree_on_one(tmp_path: Path, nursery: Nursery) -> None:
    for number in range(5):
        location = str(tmp_path / f"location-{number}")
        won, lost = run_race(nursery, location, tmp_path / f"reports-{number}", racers=3, attempts=1)
        check_history(location, won, lost)


@pytest.mark.slow
def test_processes_racing_in_an_object_store_are_linearizable(
    tmp_path: Path, nursery: Nursery, s3: S3Server
) -> None:
    won, lost = run_race(
        nursery,
        "s3://bucket/race",
        tmp_path / "reports",
        racers=3,
        attempts=20,
        environment=s3.environment,
    )
    assert len(won) + len(lost) == 60
    check_history("s3://bucket/race", won, lost)

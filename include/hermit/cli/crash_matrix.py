"""`hermit crash-matrix`: moves through the real DAG, killed at every fail point, and run again."""

from __future__ import annotations

import dataclasses
import json
import random
import tempfile
import uuid
from contextlib import ExitStack
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hermit.migration.crash_matrix import Cell, CellFailed, World, cells, check

if TYPE_CHECKING:
    from hermit.embedded.runs import LocalRuns, Outcome
    from hermit.migration.protocol import Direction, Protocol
    from hermit.settings import Settings

app = typer.Typer(add_completion=False)


@app.command()
def crash_matrix(
    sample: Annotated[int | None, typer.Option(min=1, help="Play only so many cells.")] = None,
    seed: Annotated[int, typer.Option(help="Which cells a sample takes.")] = 0,
    only: Annotated[str | None, typer.Option(help="Cells whose name holds this text.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="How many cells to play at once.")] = 2,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """Kill a move with SIGKILL at a fail point, run one to its end, and check truth, digest and epochs.

    Every cell has a catalog of its own in the embedded stash, and takes about half a minute. Exit code 1 if
    anything was not as it must be in any of them.
    """
    from concurrent.futures import ThreadPoolExecutor

    from hermit import settings as settings_module
    from hermit.embedded import spark
    from hermit.embedded.java import java_home
    from hermit.embedded.runs import local_runs

    chosen = [cell for cell in cells() if cell.is_reached and (only is None or only in str(cell))]
    if sample is not None:
        chosen = random.Random(seed).sample(chosen, min(sample, len(chosen)))
    settings = settings_module.load()
    settings_module.ensure_home(settings.home)
    java_home()
    spark.jars(settings.home)
    failures: dict[str, str] = {}
    with (
        settings_module.running_stores(settings),
        tempfile.TemporaryDirectory() as marks,
        ExitStack() as started,
        ThreadPoolExecutor(jobs) as pool,
    ):
        runs: SimpleQueue[LocalRuns] = SimpleQueue()
        for number in range(min(jobs, len(chosen))):
            runs.put(started.enter_context(local_runs(settings, f"crash_matrix_{number}")))

        def play(number: int) -> str | None:
            mine = runs.get()
            try:
                return _play(chosen[number], settings, mine, Path(marks) / str(number))
            finally:
                runs.put(mine)

        for number, (cell, error) in enumerate(
            zip(chosen, pool.map(play, range(len(chosen))), strict=True), start=1
        ):
            typer.echo(f"{'FAIL' if error else 'ok  '} {number}/{len(chosen)} {error or cell}", err=as_json)
            if error:
                failures[str(cell)] = error
    if as_json:
        typer.echo(json.dumps({"cells": len(chosen), "failed": failures}, indent=1))
    else:
        typer.echo(f"{len(chosen) - len(failures)} of {len(chosen)} cells passed")
    raise typer.Exit(1 if failures else 0)


def _play(cell: Cell, settings: Settings, runs: LocalRuns, mark: Path) -> str | None:
    try:
        check(cell, Dag(dataclasses.replace(settings, organization_id=uuid.uuid4()), runs, mark))
    except CellFailed as error:
        return error.message
    return None


class Dag(World):
    """A catalog that is moved by the real DAG, on real Spark, in a process that can be killed."""

    def __init__(self, settings: Settings, runs: LocalRuns, mark: Path) -> None:
        from hermit.migration.stores import connect

        super().__init__(connect(settings.stash_url, settings.shards, settings.organization_id))
        self.settings, self.runs, self.mark = settings, runs, mark

    def move_and_die(self, direction: Direction, protocol: Protocol, point: str) -> bool:
        """The fail point reaches every process of the run by the environment; only the first one dies."""
        from hermit.migration.failpoints import VARIABLE

        outcome = self._run(direction, protocol, {VARIABLE: f"{point}@{self.mark}"})
        if not self.passed() and outcome.state != "success":
            raise CellFailed(f"the run died before {point}: {outcome.error}; see {outcome.where}")
        return outcome.state == "success"

    def passed(self) -> bool:
        """The process that dies leaves its mark."""
        return self.mark.exists()

    def finish(self, direction: Direction, protocol: Protocol) -> None:
        """Run it again, as whoever is on call would."""
        outcome = self._run(direction, protocol, {})
        if outcome.state != "success":
            raise CellFailed(f"the run after the crash {outcome.state}: {outcome.error}; see {outcome.where}")

    def _run(self, direction: Direction, protocol: Protocol, environment: dict[str, str]) -> Outcome:
        conf: dict[str, Any] = {
            "organization_id": str(self.settings.organization_id),
            "protocol": protocol.name,
        }
        return self.runs.run(f"{direction}_catalog", conf, environment)

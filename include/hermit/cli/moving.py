"""What `hermit migrate` and `hermit rollback` share: start the DAG, show the tasks, end with the report."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from hermit.errors import HermitError, InvalidInput

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status

    from hermit.embedded.runs import Outcome
    from hermit.migration.progress import Progress
    from hermit.migration.protocol import Direction
    from hermit.settings import Settings

_MARKS = {
    "running": "…",
    "success": "✓",
    "failed": "✗",
    "skipped": "–",
    "up_for_retry": "↻",
    "awaiting_input": "? waits for approval in the UI, under Required Actions:",
}

_WATCH_EVERY_S = 0.5
_LINE_EVERY_S = 5.0
_BAR_WIDTH = 30


class MoveFailed(HermitError):
    """The run ended without completing the move. The truth is where it was, or the report says."""


def move(
    direction: Direction,
    organization_id: str | None,
    params: dict[str, Any],
    conf: Iterable[str],
) -> None:
    """Run one move from the command line. `conf` may hold more params, and override these."""
    from hermit import settings as settings_module

    params = params | dict(_parse_conf(conf))
    _check(params)
    settings = settings_module.load(params.pop("organization_id", organization_id))
    settings_module.ensure_home(settings.home)
    with settings_module.running_stores(settings):
        if params["approve_cut_over"]:
            _require_ui(settings)
        _prepare(settings)
        request = {"organization_id": str(settings.organization_id), **params}
        outcome = _follow(settings, f"{direction}_catalog", request)
    _finish(outcome)


def _parse_conf(pairs: Iterable[str]) -> Iterable[tuple[str, Any]]:
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise InvalidInput(f"--conf {pair!r} is not of the form name=value")
        try:
            yield name, json.loads(value)
        except ValueError:
            yield name, value


def _check(params: Mapping[str, Any]) -> None:
    """Refuse what Airflow would refuse in many words, or, where it is a name, not at all."""
    from hermit.migration import protocol as protocols
    from hermit.migration.move import Limits

    flags, texts = ("dry_run", "approve_cut_over"), ("organization_id", "protocol")
    names = (*texts, *flags, *(field.name for field in dataclasses.fields(Limits)))
    for name, value in params.items():
        if name not in names:
            raise InvalidInput(f"--conf: the dag has no param {name!r}", hint=f"it has {', '.join(names)}")
        if name in flags and not isinstance(value, bool):
            raise InvalidInput(f"--conf: {name} is {value!r}", hint="give true or false")
        if name in texts and value is not None and not isinstance(value, str):
            raise InvalidInput(f"--conf: {name} is {value!r}", hint="give a text")
    Limits.parse(params)
    if params["protocol"] is not None:
        protocols.parse(params["protocol"])


def _require_ui(settings: Settings) -> None:
    """Somebody must be able to approve."""
    from hermit.embedded import services

    if services.running(settings) is None:
        raise InvalidInput(
            "nobody can approve the cut-over while no Airflow is up", hint="run ./hermit up first"
        )


def _prepare(settings: Settings) -> None:
    """Fail early and plainly: reachable stores, Java, jars; and on an untouched machine, a demo catalog."""
    from hermit.cli.demo import make_demo_catalog
    from hermit.embedded import spark
    from hermit.embedded.java import java_home
    from hermit.migration.stores import connect

    stores = connect(settings.stash_url, settings.shards, settings.organization_id)
    stores.check_reachable()
    java_home()
    spark.jars(settings.home)
    make_demo_catalog(settings, stores)


def _follow(settings: Settings, dag_id: str, conf: dict[str, Any]) -> Outcome:
    from rich.console import Console

    from hermit.embedded.runs import Outcome, follow

    console = Console(stderr=True, highlight=False)
    console.print(f"hermit: running [bold]{dag_id}[/bold]")
    with console.status("starting") as status, _Watch(settings.persist_location, console, status) as watch:
        for event in follow(settings, dag_id, conf):
            if isinstance(event, Outcome):
                return event
            watch.task = event.task
            status.update(event.task)
            if event.state in _MARKS and (event.state != "running" or not console.is_terminal):
                console.print(f"  {_MARKS[event.state]} {event.task}", style=_style(event.state))
    raise MoveFailed(f"{dag_id} gave no outcome")


class _Watch:
    """Shows how far the staging job of the running task is: as a bar, or, without a terminal, as lines."""

    def __init__(self, location: str, console: Console, status: Status) -> None:
        self._location, self._console, self._status = location, console, status
        self._since = self._said_at = time.time()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self.task = "starting"

    def __enter__(self) -> _Watch:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()

    def _look(self) -> None:
        from hermit.migration import progress

        while not self._stop.wait(_WATCH_EVERY_S):
            # A bar is not worth an error: the run itself says what is wrong with a store.
            with contextlib.suppress(OSError, HermitError):
                running = [p for p in progress.running(self._location) if p.updated >= self._since]
                if self.task == "snapshot" and running:
                    self._show(running[0])

    def _show(self, found: Progress) -> None:
        share = min(found.rows_done / found.rows_total, 1.0) if found.rows_total else 1.0
        bar = "━" * round(_BAR_WIDTH * share)
        self._status.update(f"{self.task} [green]{bar:<{_BAR_WIDTH}}[/green] {found}")
        if not self._console.is_terminal and time.time() - self._said_at >= _LINE_EVERY_S:
            self._said_at = time.time()
            self._console.print(f"  … {found}", style="dim")


def _style(state: str) -> str:
    return {"success": "green", "failed": "red", "skipped": "dim", "running": "dim"}.get(state, "yellow")


def _finish(outcome: Outcome) -> None:
    from hermit.migration.report import to_markdown

    if outcome.state != "success" or outcome.report is None:
        raise MoveFailed(
            f"the run {outcome.state}: {outcome.error or 'no report'}", hint=f"details are in {outcome.where}"
        )
    sys.stdout.write(to_markdown(outcome.report) + "\n")
    if outcome.report["outcome"] == "rejected":
        raise MoveFailed("the cut-over was rejected", hint="the truth is where it was")

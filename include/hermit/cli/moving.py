"""What `hermit migrate` and `hermit rollback` share: start the DAG, show the tasks, end with the report."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from hermit.errors import HermitError, InvalidInput

if TYPE_CHECKING:
    from hermit.embedded.runs import Outcome
    from hermit.migration.protocol import Direction
    from hermit.settings import Settings

_MARKS = {"running": "…", "success": "✓", "failed": "✗", "skipped": "–", "up_for_retry": "↻"}


class MoveFailed(HermitError):
    """The run ended without completing the move. The truth is where it was, or the report says."""


def move(
    direction: Direction,
    organization_id: str | None,
    protocol: str | None,
    dry_run: bool,
    conf: Iterable[str],
) -> None:
    """Run one move from the command line."""
    from hermit import settings as settings_module
    from hermit.migration import protocol as protocols

    if protocol is not None:
        protocols.parse(protocol)
    extra = dict(_parse_conf(conf))
    settings = settings_module.load(organization_id)
    settings_module.ensure_home(settings.home)
    with settings_module.running_stores(settings):
        _prepare(settings)
        request = {
            "organization_id": str(settings.organization_id),
            "protocol": protocol,
            "dry_run": dry_run,
            **extra,
        }
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
    with console.status("starting") as status:
        for event in follow(settings, dag_id, conf):
            if isinstance(event, Outcome):
                return event
            status.update(event.task)
            if event.state in _MARKS and (event.state != "running" or not console.is_terminal):
                console.print(f"  {_MARKS[event.state]} {event.task}", style=_style(event.state))
    raise MoveFailed(f"{dag_id} gave no outcome")


def _style(state: str) -> str:
    return {"success": "green", "failed": "red", "skipped": "dim", "running": "dim"}.get(state, "yellow")


def _finish(outcome: Outcome) -> None:
    from hermit.migration.report import to_markdown

    if outcome.state != "success" or outcome.report is None:
        raise MoveFailed(
            f"the run {outcome.state}: {outcome.error or 'no report'}", hint=f"details are in {outcome.where}"
        )
    sys.stdout.write(to_markdown(outcome.report) + "\n")

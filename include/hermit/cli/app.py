"""The tree of commands, and how errors reach the terminal.

Each command lives in a module of its own that exposes a Typer `app`. The table below names them, so that
`--help` imports none of them, and a command imports only what it needs. A `HermitError` becomes one
line on standard error and exit code 1 (2 for input that cannot be used), never a traceback.
"""

from __future__ import annotations

import importlib
import signal
import sys
from typing import Any, NamedTuple

import typer
from typer import core, main

from hermit import __version__

_USAGE_ERROR: type[Any] = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "UsageError")


class _Entry(NamedTuple):
    module: str
    help: str


COMMANDS: dict[str, _Entry] = {
    "migrate": _Entry("hermit.cli.migrate", "Move a catalog from the stash to persist."),
    "rollback": _Entry("hermit.cli.rollback", "Move a catalog from persist back to the stash."),
    "throttle": _Entry("hermit.cli.throttle", "Change how fast a move that is under way may go."),
    "status": _Entry("hermit.cli.status", "Say where the truth is, and why."),
    "up": _Entry("hermit.cli.up", "Start PostgreSQL and Airflow, and print the URL and the login."),
    "down": _Entry("hermit.cli.down", "Stop everything that `up` started."),
    "compose-env": _Entry("hermit.cli.compose_env", "Make the secrets that docker-compose.yaml asks for."),
    "generate": _Entry("hermit.cli.generate", "Fill the stash with a realistic catalog."),
    "debug": _Entry("hermit.cli.debug", "Look into a catalog, and mend it by hand (alias: catalog-debug)."),
    "catalog-debug": _Entry("hermit.cli.debug", "The same as debug."),
    "shadow": _Entry("hermit.cli.shadow", "Rehearse a move: the same traffic on both stores, compared."),
    "catalog": _Entry("hermit.cli.catalog", "Look at the versions of the catalog service."),
    "persist": _Entry("hermit.cli.persist", "Verify, compact, vacuum and unlock a persist location."),
    "formats": _Entry("hermit.cli.formats", "Freeze and check the formats of stored objects."),
    "emergency-stash": _Entry("hermit.cli.emergency_stash", "Make the stash the truth when persist is lost."),
    "crash-matrix": _Entry("hermit.cli.crash_matrix", "Kill moves at every fail point, and run them again."),
    "docs": _Entry("hermit.cli.docs", "Build the documentation, and draw what is read from the code."),
    "test": _Entry("hermit.cli.test", "Run all checks and tests."),
    "bench": _Entry("hermit.cli.bench", "Measure the speed bars of an area."),
    "conformance": _Entry("hermit.cli.conformance", "Show which rows of the specification are proven."),
}


class _LazyGroup(core.TyperGroup):
    """Lists commands from the table and imports one only when it is run."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        entry = COMMANDS.get(cmd_name)
        return core.TyperCommand(cmd_name, help=entry.help) if entry else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, stub, rest = super().resolve_command(ctx, args)
        if name is None or stub is None:
            return name, stub, rest
        command = main.get_command(importlib.import_module(COMMANDS[name].module).app)
        command.name = name
        return name, command, rest


app = typer.Typer(
    cls=_LazyGroup,
    help="Moves a live, durable catalog between the stash (PostgreSQL) and persist (Delta Lake), and back.",
    context_settings={"help_option_names": ["-h", "--help"]},
    # Plain help text: formatting it with rich would take longer than everything else.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"hermit {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version."
    ),
) -> None:
    pass


def run() -> None:
    """Run the command line and turn errors of ours, and of the user, into a line and an exit code."""
    from hermit.errors import HermitError, InvalidInput

    # Being asked to end is an exception like any other, so that whatever was started is ended, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        code = app(sys.argv[1:] or ["--help"], prog_name="hermit", standalone_mode=False)
    except HermitError as error:
        _complain(f"{error.message}; {error.hint}" if error.hint else error.message)
        sys.exit(2 if isinstance(error, InvalidInput) else 1)
    except _USAGE_ERROR as error:
        _complain(f"{error.format_message()} (see {_path(error)} --help)")
        sys.exit(2)
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(130)
    except BrokenPipeError:
        # Whoever read our output has seen enough; what is left to flush has nowhere to go.
        sys.stdout = None
        sys.exit(0)
    except OSError as error:
        # A disk that is full, a directory that belongs to somebody else: the machine's, not a bug of ours.
        where = f" ({error.filename})" if error.filename else ""
        _complain(f"{error.strerror or error}{where}")
        sys.exit(1)
    sys.exit(code if isinstance(code, int) else 0)


def _complain(message: str) -> None:
    print(f"hermit: {' '.join(message.split())}", file=sys.stderr)


def _path(error: Any) -> str:
    return error.ctx.command_path if error.ctx is not None else "hermit"

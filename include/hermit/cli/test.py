"""`hermit test`: everything that must be green: format guard, lint, types, layers, tests."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from hermit.settings import Settings

app = typer.Typer(add_completion=False)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def test(
    context: typer.Context,
    quick: Annotated[bool, typer.Option("--quick", help="Leave out what takes long.")] = False,  # noqa: PT028
    screenshots: Annotated[
        bool, typer.Option("--screenshots", help="Make the pictures in docs/images/page anew.")
    ] = False,  # noqa: PT028
) -> None:
    """Run all checks and tests; more arguments go to pytest."""
    from hermit import settings as settings_module
    from hermit.embedded import spark

    settings = settings_module.load()
    settings_module.ensure_home(settings.home)
    spark.jars(settings.home)
    if _failing(settings, {"formats": [sys.executable, "-m", "hermit.cli", "formats", "check"]}):
        # Nothing that was tested on formats by mistake would mean anything.
        raise typer.Exit(1)
    arguments = list(context.args)
    if quick:
        arguments += ["-m", "not slow"]
    if screenshots:
        os.environ["HERMIT_SCREENSHOTS"] = "1"
    with ThreadPoolExecutor(1) as beside:
        # What they find is told at once, not after the tests.
        checks = beside.submit(_failing, settings, _checks())
        code = run_pytest(settings, arguments)
        failed = checks.result()
    if code != 0:
        failed.append("pytest")
    if failed:
        typer.echo(f"hermit: failed: {', '.join(failed)}", err=True)
        raise typer.Exit(1)


def results_file(settings: Settings) -> Path:
    """Where a run of the tests leaves what it proved."""
    return settings.home / "test-results.json"


def run_pytest(settings: Settings, arguments: list[str], *, to_stderr: bool = False) -> int:
    """Run the tests on all cores and remember the outcomes; gives pytest's exit code."""
    # One more than there are cores: there is always a test that waits for Airflow, or for a process to die.
    command = [sys.executable, "-m", "pytest", "-n", str((os.cpu_count() or 2) + 1), "--dist", "load"]
    command += ["-o", f"cache_dir={settings.home / 'pytest'}", *arguments]
    environment = _environment(settings)
    if not arguments:
        # Only a whole run may speak for the conformance table.
        environment["HERMIT_TEST_RESULTS"] = str(results_file(settings))
    return subprocess.call(
        command, cwd=settings.root, env=environment, stdout=sys.stderr if to_stderr else None
    )


def _checks() -> dict[str, list[str]]:
    tools = Path(sys.executable).parent
    code = ["include", "plugins", "dags", "spark_jobs", "tests"]
    return {
        "ruff": [str(tools / "ruff"), "check", *code],
        "format": [str(tools / "ruff"), "format", "--check", *code],
        "mypy": [str(tools / "mypy"), "include/hermit"],
        "layers": [str(tools / "lint-imports"), "--no-cache"],
    }


def _failing(settings: Settings, checks: dict[str, list[str]]) -> list[str]:
    """Run checks side by side and tell what each found; gives the names of those that failed."""

    def run(command: list[str]) -> subprocess.CompletedProcess[str]:
        environment = _environment(settings)
        return subprocess.run(
            command, cwd=settings.root, env=environment, capture_output=True, text=True, check=False
        )

    failed = []
    with ThreadPoolExecutor(len(checks)) as pool:
        for name, result in zip(checks, pool.map(run, checks.values()), strict=True):
            typer.echo(f"\n{name}: {'ok' if result.returncode == 0 else 'failed'}")
            if result.returncode != 0:
                typer.echo(result.stdout + result.stderr)
                failed.append(name)
    return failed


def _environment(settings: Settings) -> dict[str, str]:
    from hermit.embedded import spark

    caches = settings.home / "caches"
    return {
        **os.environ,
        **spark.environment(),
        "HERMIT_HOME": str(settings.home),
        "HERMIT_ROOT": str(settings.root),
        "RUFF_CACHE_DIR": str(caches / "ruff"),
        "MYPY_CACHE_DIR": str(caches / "mypy"),
        "HYPOTHESIS_STORAGE_DIRECTORY": str(caches / "hypothesis"),
    }

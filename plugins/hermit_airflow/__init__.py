"""How Airflow talks to a catalog: hooks, operators, sensors, triggers and the UI page.

A provider package: Airflow finds `get_provider_info` by its entry point and learns the connection types
`hermit_stash` and `hermit_persist` from it. Nothing heavy is imported here.
"""

from __future__ import annotations

import pkgutil
from pathlib import Path
from typing import Any


def get_provider_info() -> dict[str, Any]:
    """What Airflow's provider manager wants to know."""
    from hermit import __version__

    hooks = "hermit_airflow.hooks"

    return {
        "package-name": "hermit-catalog",
        "name": "Hermit",
        "description": "Moves a durable catalog between PostgreSQL and Delta Lake, and back.",
        "versions": [__version__],
        "connection-types": [
            {"connection-type": "hermit_stash", "hook-class-name": f"{hooks}.stash.HermitStashHook"},
            {"connection-type": "hermit_persist", "hook-class-name": f"{hooks}.persist.HermitPersistHook"},
        ],
        "integrations": [{"integration-name": "Hermit", "tags": ["software"]}],
        "hooks": _modules("hooks"),
        "operators": _modules("operators"),
        "sensors": _modules("sensors"),
        "triggers": _modules("triggers"),
    }


def _modules(room: str) -> list[dict[str, Any]]:
    """Every module of a room that a DAG's author may use."""
    found = pkgutil.iter_modules([str(Path(__file__).parent / room)])
    names = [f"hermit_airflow.{room}.{module.name}" for module in found if module.name != "base"]
    return [{"integration-name": "Hermit", "python-modules": names}]

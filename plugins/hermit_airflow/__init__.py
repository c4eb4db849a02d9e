"""How Airflow talks to a catalog: hooks, operators, sensors, triggers and the UI page.

A provider package: Airflow finds `get_provider_info` by its entry point and learns the connection types
`hermit_stash` and `hermit_persist` from it. Nothing heavy is imported here.
"""

from __future__ import annotations

from typing import Any


def get_provider_info() -> dict[str, Any]:
    """What Airflow's provider manager wants to know."""
    from hermit import __version__

    hooks = "hermit_airflow.hooks"

    def modules(room: str, *names: str) -> list[dict[str, Any]]:
        return [
            {
                "integration-name": "Hermit",
                "python-modules": [f"hermit_airflow.{room}.{name}" for name in names],
            }
        ]

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
        "hooks": modules("hooks", "stash", "persist"),
        "operators": modules("operators", "approve", "move", "snapshot"),
        "sensors": modules("sensors", "backends", "state"),
        "triggers": modules("triggers", "backends", "state"),
    }

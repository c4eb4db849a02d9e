"""docker-compose.yaml as the tests see it: parsed, with variables filled in, one dictionary a service."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
_VARIABLE = re.compile(r"(?<!\$)\$\{(?P<name>\w+)(?P<rest>[^}]*)\}")


def text() -> str:
    return (ROOT / "docker-compose.yaml").read_text()


def variables() -> dict[str, set[str]]:
    """Every variable that the file asks for, with what stands behind its name."""
    found: dict[str, set[str]] = {}
    for match in _VARIABLE.finditer(text()):
        found.setdefault(match["name"], set()).add(match["rest"])
    return found


def load(values: Mapping[str, str]) -> dict[str, Any]:
    """The file with these values in the place of its variables, as compose would read it."""
    filled = _VARIABLE.sub(lambda match: values[match["name"]], text())
    return dict(yaml.safe_load(filled.replace("$$", "$")))


def shell_words(command: list[str]) -> list[list[str]]:
    """The commands that a service runs: the list itself, or the lines of the script that it hands to bash."""
    import shlex

    if command[:2] not in (["bash", "-euc"], ["CMD-SHELL"]) and command[0] != "CMD-SHELL":
        return [command[1:] if command[0] == "CMD" else command]
    script = command[2] if command[0] == "bash" else command[1]
    return [shlex.split(line) for line in script.strip().splitlines()]

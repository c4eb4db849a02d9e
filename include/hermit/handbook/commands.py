"""The reference of the command line, read from Typer's own tree."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

from typer import main

from hermit.cli.app import COMMANDS


def tree() -> dict[str, Any]:
    """Every command by its words: `migrate`, `persist verify`."""
    found: dict[str, Any] = {}
    for name, entry in COMMANDS.items():
        found.update(_walk(name, main.get_command(importlib.import_module(entry.module).app)))
    return found


def _walk(words: str, command: Any) -> Iterator[tuple[str, Any]]:
    yield words, command
    for name, child in getattr(command, "commands", {}).items():
        yield from _walk(f"{words} {name}", child)


def to_markdown() -> str:
    """One section a command: what it is for, how it is written, what it takes."""
    aliases = {name for name, entry in COMMANDS.items() if _is_alias(name, entry.module)}
    lines: list[str] = []
    for words, command in tree().items():
        if words.split()[0] not in aliases:
            lines += _section(words, command)
    return "\n".join(lines)


def _is_alias(name: str, module: str) -> bool:
    first = next(known for known, entry in COMMANDS.items() if entry.module == module)
    return first != name


def _section(words: str, command: Any) -> Iterator[str]:
    depth = "##" if " " not in words else "###"
    yield f"{depth} hermit {words}"
    yield ""
    top = COMMANDS.get(words)
    yield (command.help or (top.help if top else "")).strip()
    yield ""
    params = [param for param in command.params if param.name != "help"]
    if params:
        yield "| | | by default |"
        yield "|---|---|---|"
        for param in params:
            yield f"| {_names(param)} | {_cell(getattr(param, 'help', None) or '')} | {_default(param)} |"
        yield ""


def _names(param: Any) -> str:
    value = param.metavar or param.name.upper()
    if not param.opts[0].startswith("-"):
        return f"`{value}`"
    names = ", ".join(f"`{name}`" for name in (*param.opts, *param.secondary_opts))
    return names if param.is_flag else f"{names} `{value}`"


def _default(param: Any) -> str:
    if param.required:
        return "required"
    value = param.default
    if value is None or value is False or callable(value):
        return ""
    return f"`{value}`"


def _cell(words: str) -> str:
    return " ".join(words.split()).replace("|", "\\|")

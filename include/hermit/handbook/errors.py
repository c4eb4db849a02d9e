"""The reference of errors, read from the tree under `HermitError`, and the runbook's page for each."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import hermit
from hermit.errors import HermitError

# Modules that raise nothing of their own and would start half a data platform.
_NOT_READ = ("hermit.bench", "hermit.formats.gen", "hermit.handbook", "hermit.cli.__main__")
_ROOMS = ("stash", "persist", "durable", "formats", "migration", "service", "cli")


def tree() -> list[type[HermitError]]:
    """Every error that a user may meet, parents before children."""
    for module in _modules(hermit.__path__, "hermit."):
        importlib.import_module(module)
    found: dict[type[HermitError], None] = {}

    def visit(kind: type[HermitError]) -> None:
        if kind not in found and kind.__module__.startswith("hermit."):
            found[kind] = None
            for child in kind.__subclasses__():
                visit(child)

    visit(HermitError)
    return [kind for kind in found if not kind.__name__.startswith("_")]


def _modules(path: Any, prefix: str) -> Iterator[str]:
    for module in pkgutil.iter_modules(path, prefix):
        if module.name.startswith(_NOT_READ):
            continue
        yield module.name
        if module.ispkg:
            package = importlib.import_module(module.name)
            yield from _modules(package.__path__, f"{module.name}.")


def to_markdown(runbook: Mapping[str, str]) -> str:
    """The errors by room. `runbook` gives the page of an error, by the error's name."""
    kinds = tree()
    lines: list[str] = []
    for room in ("", *_ROOMS):
        mine = sorted((kind for kind in kinds if _room(kind) == room), key=lambda kind: kind.__name__)
        if mine:
            lines += [f"## {room.capitalize() or 'Everywhere'}", ""]
            lines += ["| error | is a | what happened | facts | what to do |", "|---|---|---|---|---|"]
            lines += [_row(kind, runbook) for kind in mine]
            lines.append("")
    return "\n".join(lines)


def _room(kind: type) -> str:
    parts = kind.__module__.split(".")
    return parts[1] if len(parts) > 2 else ""


def _row(kind: type[HermitError], runbook: Mapping[str, str]) -> str:
    parents = ", ".join(
        f"`{parent.__name__.lstrip('_')}`" for parent in kind.__bases__ if issubclass(parent, HermitError)
    )
    facts = ", ".join(f"`{name}`" for name in _facts(kind))
    names = [
        name for parent in kind.__mro__ for name in (f"{_room(parent)}.{parent.__name__}", parent.__name__)
    ]
    page = next((runbook[name] for name in names if name in runbook), None)
    advice = " ".join(filter(None, [_cell(kind.hint or ""), f"[Runbook]({page})" if page else ""]))
    what = _cell(inspect.cleandoc(kind.__doc__ or "").split("\n\n")[0])
    return f"| `{kind.__name__}` | {parents} | {what} | {facts} | {advice} |"


def _facts(kind: type[HermitError]) -> list[str]:
    own = {
        name: None
        for parent in reversed(kind.__mro__)
        if issubclass(parent, HermitError) and parent is not HermitError
        for name in inspect.get_annotations(parent)
    }
    return [name for name in own if name != "hint"]


def runbook_pages(docs: Path) -> dict[str, str]:
    """Which page of the runbook speaks of which error: each page lists its errors at its top.

    Where two rooms have an error of one name, the page writes `room.Name`.
    """
    pages: dict[str, str] = {}
    for path in sorted((docs / "runbook").glob("*.md")):
        listed = re.search(r"\A---\nerrors: \[(.*)\]\n---\n", path.read_text())
        names = listed[1].split(", ") if listed else []
        pages |= {name: f"../runbook/{path.name}" for name in names if name}
    return pages


def _cell(words: str) -> str:
    return " ".join(words.split()).replace("|", "\\|")

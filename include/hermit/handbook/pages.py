"""What a page gets in the place of `<!-- generated: NAME -->`, and the drawings that are committed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from hermit.handbook import commands, diagrams, errors, plots
from hermit.migration.protocol import PROTOCOLS, SINGLE, Direction

_MARKER = re.compile(r"<!-- generated: (?P<name>[\w-]+) -->")


def fill(markdown: str, docs: Path) -> str:
    """The page with every marker replaced. An unknown name is a mistake of the page."""
    makers: Mapping[str, Callable[[], str]] = {
        "commands": commands.to_markdown,
        "errors": lambda: errors.to_markdown(errors.runbook_pages(docs)),
        "decisions": lambda: decisions(docs),
        "states": states,
        "benchmarks": lambda: benchmarks(docs),
        "alarms": lambda: alarms(docs),
        "rooms": lambda: rooms(docs),
    }
    return _MARKER.sub(lambda match: makers[match["name"]](), markdown)


def states() -> str:
    """Both protocols' tables, to read beside the diagrams."""
    words = {None: "absent", True: "true", False: "false"}
    lines: list[str] = []
    for protocol in PROTOCOLS.values():
        lines += [f"**The {protocol.name}-tombstone protocol**", ""]
        lines += ["| stash | persist | the truth is | because |", "|---|---|---|---|"]
        for (stash, persist), truth in protocol.truths.items():
            across = words[persist] if protocol.watches_persist else "any"
            store = truth.store.value if truth.reachable else f"{truth.store.value}, but no move leads here"
            lines.append(f"| {words[stash]} | {across} | {store} | {truth.why} |")
        lines.append("")
    return "\n".join(lines)


def decisions(docs: Path) -> str:
    """Every decision by its title, grouped by the room that its file is named after."""
    lines = ["| decision | room |", "|---|---|"]
    for path in sorted((docs / "decisions").glob("*.md")):
        if path.stem != "index":
            lines.append(f"| [{title(path)}]({path.name}) | {path.stem.split('-')[0]} |")
    return "\n".join(lines)


def rooms(docs: Path) -> str:
    """The pages that rooms keep of themselves, with what each guarantees or is for."""
    lines = ["| page | |", "|---|---|"]
    for path in sorted(docs.glob("*.md")):
        name = path.stem.replace("-", "_")
        if any(
            (docs.parent / place / name).is_dir() for place in ("include/hermit", "plugins/hermit_airflow")
        ):
            lines.append(f"| [{title(path)}]({path.name}) | `{name}/` |")
    return "\n".join(lines)


def alarms(docs: Path) -> str:
    """The runbook's pages by their titles, with what each is about."""
    lines = ["| alarm | what it looks like |", "|---|---|"]
    for path in sorted((docs / "runbook").glob("*.md")):
        if path.stem != "index":
            looks = path.read_text().split("## What it looks like\n\n")[1].split("\n\n")[0]
            lines.append(f"| [{title(path)}]({path.name}) | {' '.join(looks.split())} |")
    return "\n".join(lines)


def benchmarks(docs: Path) -> str:
    """The committed figures: per area a plot, and all of them as a table."""
    areas = json.loads((docs / "benchmarks.json").read_text())
    drawn = [f"![{area}](images/bench-{area}.svg)" for area in areas]
    return "\n\n".join([*drawn, plots.table(areas)])


def title(path: Path) -> str:
    """A page's first heading."""
    found = re.search(r"^# (.+)$", path.read_text(), re.MULTILINE)
    return found[1] if found else path.stem


def drawings(docs: Path) -> dict[str, str]:
    """The committed SVG files, by their names, as they should be."""
    files = {f"protocol-{name}.svg": diagrams.states(protocol) for name, protocol in PROTOCOLS.items()}
    files |= {f"steps-{direction}.svg": diagrams.steps(SINGLE, direction) for direction in Direction}
    figures = docs / "benchmarks.json"
    if figures.exists():
        areas = json.loads(figures.read_text())
        files |= {f"bench-{area}.svg": plots.plot(area, bars) for area, bars in areas.items()}
    return files

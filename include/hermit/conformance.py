"""Which rows of the specification are proven, by which tests, and which are not.

`tests/rows.tsv` lists the rows, `tests/waivers.tsv` those consciously not built, with the reason. A run of
the tests leaves, per test, its outcome and the rows that it is marked with. A row is proven when it has
tests and all of them passed, failing when one did not, waived when it stands in the list, and otherwise
open.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hermit.errors import InvalidInput

SEEDS = {
    "M": "000 Catalog backend migration",
    "D": "001 Durable catalog state",
    "F": "002 Fearless format migrations",
    "P": "003 Persist",
    "I": "004 Versioned catalog",
}
STATES = ("proven", "failing", "waived", "open")


@dataclass(frozen=True)
class Row:
    """A row of the specification with what the last test run says of it."""

    id: str
    level: str
    what: str
    tests: Mapping[str, bool]
    waiver: str | None

    @property
    def state(self) -> str:
        if self.tests:
            return "proven" if all(self.tests.values()) else "failing"
        return "waived" if self.waiver else "open"


def load(tests: Path, results: Path) -> list[Row]:
    """Put rows, waivers and the results of the last run together."""
    proofs: dict[str, dict[str, bool]] = {}
    for name, outcome in json.loads(results.read_text()).items():
        for row in outcome["rows"]:
            proofs.setdefault(row, {})[name] = outcome["passed"]
    waivers = {id: reason for id, reason in _read(tests / "waivers.tsv")}
    rows = [
        Row(id, level, what, proofs.pop(id, {}), waivers.get(id))
        for id, level, what in _read(tests / "rows.tsv")
    ]
    if proofs:
        raise InvalidInput(f"tests are marked with unknown rows: {', '.join(sorted(proofs))}")
    return rows


def summary(rows: list[Row]) -> dict[str, dict[str, int]]:
    """Counts per seed."""
    result = {}
    for letter in SEEDS:
        mine = [row for row in rows if row.id.startswith(f"{letter}-")]
        counts = {state: sum(row.state == state for row in mine) for state in STATES}
        result[SEEDS[letter]] = {"rows": len(mine), **counts}
    return result


def to_markdown(rows: list[Row]) -> str:
    """The page `docs/conformance.md`."""
    lines = [
        "# Conformance",
        "",
        "Every row of the specification, the tests that prove it, and what the last full run of",
        "`./hermit test` said. Written by `./hermit conformance`.",
        "",
        "| specification | rows | proven | failing | waived | open |",
        "|---|---|---|---|---|---|",
    ]
    for seed, counts in summary(rows).items():
        lines.append(f"| {seed} | {counts['rows']} | " + " | ".join(str(counts[s]) for s in STATES) + " |")
    for letter, title in SEEDS.items():
        lines += [
            "",
            f"## {title}",
            "",
            "| row | level | what | state | tests or reason |",
            "|---|---|---|---|---|",
        ]
        for row in rows:
            if row.id.startswith(f"{letter}-"):
                proof = "<br>".join(sorted({_short(name) for name in row.tests})) or row.waiver or ""
                lines.append(f"| {row.id} | {row.level} | {_cell(row.what)} | {row.state} | {proof} |")
    return "\n".join(lines) + "\n"


def _read(path: Path) -> list[list[str]]:
    lines = path.read_text().splitlines()
    return [line.split("\t") for line in lines if line and not line.startswith("#")]


def _short(test: str) -> str:
    file, _, name = test.partition("::")
    return f"`{file.removeprefix('tests/')}` {name.partition('[')[0]}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")

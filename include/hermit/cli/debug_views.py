"""What `hermit debug` prints: tables for people, JSON for programs. Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hermit.cli.catalogs import aligned
from hermit.durable.dump import row_to_json, show, update_to_json
from hermit.durable.table import json_text
from hermit.rows import consolidate

if TYPE_CHECKING:
    from hermit.durable.diff import CollectionDiff
    from hermit.rows import Update

_SAMPLES_MAX = 5


def dump_json(shown: dict[str, list[Update]], consolidated: bool) -> str:
    """Updates, or rows, by collection."""
    data = {
        name: [
            row_to_json(name, update.key, update.value) if consolidated else update_to_json(update)
            for update in updates
        ]
        for name, updates in shown.items()
    }
    return json.dumps(data, indent=2, ensure_ascii=False)


def dump_text(shown: dict[str, list[Update]], consolidated: bool) -> str:
    """The same for people."""
    return "\n\n".join(_collection_text(name, updates, consolidated) for name, updates in shown.items())


def _collection_text(name: str, updates: list[Update], consolidated: bool) -> str:
    """A heading and a line per row. JSON is never cut, so that it can be copied."""
    heading = f"{name}: {len(updates):,} {'rows' if consolidated else 'updates'}"
    rows: list[tuple[str, ...]] = []
    for update in updates:
        row = update_to_json(update)
        when = () if consolidated else (str(row["time"]), f"{row['diff']:+d}")
        old = f"format {row['format']}: " if "format" in row else ""
        rows.append((*when, json_text(row["key"]), old + json_text(row["value"])))
    if not rows:
        return heading
    head = ("key", "value") if consolidated else ("time", "diff", "key", "value")
    return f"{heading}\n{aligned([head, *rows])}"


def _stats(shown: dict[str, list[Update]]) -> list[dict[str, Any]]:
    found = []
    for name, updates in shown.items():
        live = [row for row, diff in consolidate(updates).items() if diff > 0]
        size = sum(len(row.key) + len(row.value) for row in live)
        found.append({"collection": name, "updates": len(updates), "rows": len(live), "bytes": size})
    return found


def stats_json(shown: dict[str, list[Update]]) -> str:
    """How much there is, per collection."""
    return json.dumps(_stats(shown), indent=2)


def stats_table(shown: dict[str, list[Update]]) -> str:
    """The same for people, with a sum."""
    stats = _stats(shown)
    total = {name: sum(row[name] for row in stats) for name in ("updates", "rows", "bytes")}
    rows: list[tuple[str, ...]] = [("collection", "updates", "rows", "bytes")]
    for row in [*stats, {"collection": "all", **total}]:
        rows.append((row["collection"], *(f"{row[name]:,}" for name in ("updates", "rows", "bytes"))))
    return aligned(rows)


def diff_json(differences: list[CollectionDiff]) -> str:
    """What differs between the stores, object by object."""
    data = {
        found.name: {
            "only_stash": [row_to_json(found.name, *pair) for pair in found.only_left],
            "only_persist": [row_to_json(found.name, *pair) for pair in found.only_right],
            "changed": [
                {
                    "key": show(found.name, "key", key).data,
                    "stash": show(found.name, "value", left).data,
                    "persist": show(found.name, "value", right).data,
                }
                for key, left, right in found.changed
            ],
        }
        for found in differences
    }
    return json.dumps(data, indent=2, ensure_ascii=False)


def diff_text(differences: list[CollectionDiff]) -> str:
    """The same for people: how much differs, and some of it."""
    if not differences:
        return "stash and persist hold the same contents"
    rows: list[tuple[str, ...]] = [("collection", "only in stash", "only in persist", "changed")]
    for found in differences:
        counts = (found.only_left, found.only_right, found.changed)
        rows.append((found.name, *(f"{len(count):,}" for count in counts)))
    return "\n".join(["stash and persist differ", "", aligned(rows), "", *_diff_samples(differences)])


def _diff_samples(differences: list[CollectionDiff]) -> list[str]:

    lines = []
    for found in differences:
        sides = [("-", pair) for pair in found.only_left] + [("+", pair) for pair in found.only_right]
        for key, left, right in found.changed:
            sides += [("-", (key, left)), ("+", (key, right))]
        for sign, (key, value) in sides[:_SAMPLES_MAX]:
            row = row_to_json(found.name, key, value)
            lines.append(f"{sign} {found.name}  {json_text(row['key'])}  {json_text(row['value'])}")
        if len(sides) > _SAMPLES_MAX:
            lines.append(f"  and {len(sides) - _SAMPLES_MAX:,} more in {found.name}")
    return lines

"""Rows and bytes per collection: what tells that an upgrade did what it should, and nothing else.

The numbers of one step before and after it are in the log, and in the report that `upgrade` returns, which
each store keeps: `hermit status` shows the last one, also in the text format of Prometheus.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Size(NamedTuple):
    """How much a collection holds: live rows, and the bytes of their keys and values."""

    rows: int = 0
    bytes: int = 0


Sizes = Mapping[str, Size]


@dataclass(frozen=True)
class StepReport:
    """One step: sizes before and after it, and the actions that explain the difference."""

    start: int
    before: Sizes
    after: Sizes
    inserted: Mapping[str, int] = field(default_factory=dict)
    updated: Mapping[str, int] = field(default_factory=dict)
    deleted: Mapping[str, int] = field(default_factory=dict)

    @property
    def end(self) -> int:
        return self.start + 1

    def __str__(self) -> str:
        parts = [
            f"{name} {self.before[name].rows} -> {self.after[name].rows} rows, "
            f"{self.before[name].bytes} -> {self.after[name].bytes} bytes"
            for name in self.after
            if self.after[name] != self.before[name]
        ]
        return f"v{self.start} to v{self.end}: {'; '.join(parts) or 'sizes unchanged'}"

    def to_json(self) -> dict[str, Any]:
        return {
            "from": self.start,
            "to": self.end,
            "collections": {
                name: {
                    "rows_before": self.before[name].rows,
                    "rows_after": self.after[name].rows,
                    "bytes_before": self.before[name].bytes,
                    "bytes_after": self.after[name].bytes,
                    "inserted": self.inserted.get(name, 0),
                    "updated": self.updated.get(name, 0),
                    "deleted": self.deleted.get(name, 0),
                }
                for name in self.after
            },
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> StepReport:
        found: Mapping[str, Mapping[str, int]] = value["collections"]

        def sizes(when: str) -> Sizes:
            return {name: Size(size[f"rows_{when}"], size[f"bytes_{when}"]) for name, size in found.items()}

        def actions(which: str) -> Mapping[str, int]:
            return {name: size[which] for name, size in found.items() if size[which]}

        return cls(
            int(value["from"]),
            sizes("before"),
            sizes("after"),
            actions("inserted"),
            actions("updated"),
            actions("deleted"),
        )


@dataclass(frozen=True)
class UpgradeReport:
    """All steps that ran, in order; none if the catalog was current."""

    found: int
    current: int
    steps: tuple[StepReport, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {"found": self.found, "current": self.current, "steps": [s.to_json() for s in self.steps]}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> UpgradeReport:
        steps = tuple(map(StepReport.from_json, value["steps"]))
        return cls(int(value["found"]), int(value["current"]), steps)

    def to_prometheus(self, **labels: str) -> str:
        """The sizes around each step, as gauges in the Prometheus text format."""
        return prometheus_text("hermit_upgrade", self.samples(**labels))

    def samples(self, **labels: str) -> list[tuple[Mapping[str, str], Size]]:
        """The sizes around each step, each with its labels and the given ones."""
        return [
            ({**labels, "step": f"v{step.start}_to_v{step.end}", "when": when, "collection": name}, size)
            for step in self.steps
            for when, sizes in (("before", step.before), ("after", step.after))
            for name, size in sizes.items()
        ]


def prometheus_text(prefix: str, samples: Iterable[tuple[Mapping[str, str], Size]]) -> str:
    """Two gauges, `<prefix>_rows` and `<prefix>_bytes`, with one line per labelled size."""
    samples = list(samples)
    return "".join(line + "\n" for line in _prometheus_lines(prefix, samples))


def _prometheus_lines(prefix: str, samples: list[tuple[Mapping[str, str], Size]]) -> Iterator[str]:
    for unit, what in (("rows", "Live rows"), ("bytes", "Bytes of keys and values")):
        yield f"# HELP {prefix}_{unit} {what} per collection."
        yield f"# TYPE {prefix}_{unit} gauge"
        for labels, size in samples:
            text = ",".join(f'{name}="{value}"' for name, value in labels.items())
            yield f"{prefix}_{unit}{{{text}}} {getattr(size, unit)}"

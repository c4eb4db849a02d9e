"""Benchmarks: every speed bar is a ratio, with rival or limit measured beside Hermit in one run.

An area is a module here with `run(quick, workdir) -> list[Bar]`. `hermit bench AREA` prints the bars;
with `--json` as a list of `{"name", "ratio", "limit", "holds"}`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Bar:
    """One bar: a measured ratio and the limit that it must keep (at most, or at least)."""

    name: str
    ratio: float
    limit: float
    at_most: bool = True

    @property
    def holds(self) -> bool:
        return self.ratio <= self.limit if self.at_most else self.ratio >= self.limit

    def to_json(self) -> dict[str, object]:
        return {
            "name": self.name,
            "ratio": round(self.ratio, 4),
            "limit": self.limit,
            "at_most": self.at_most,
            "holds": self.holds,
        }

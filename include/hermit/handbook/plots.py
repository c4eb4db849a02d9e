"""Plots of the speed bars: each as a share of its limit, so that one line parts what holds and what fails."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hermit.handbook import svg

_ROW, _LEFT, _SCALE, _TOP, _SHARE_MAX = 30, 430, 300, 40, 1.6


def plot(title: str, bars: Iterable[Mapping[str, Any]]) -> str:
    """One area's bars. Left of the line at 1 the limit is kept, whichever way round it was given."""
    bars = list(bars)
    height = _TOP + _ROW * len(bars) + 44
    width = _LEFT + _SCALE * _SHARE_MAX + 90
    parts = [svg.text(12, 22, title, bold=True, anchor="start")]
    for row, bar in enumerate(bars):
        parts += _bar(bar, _TOP + _ROW * row)
    line, bottom = _LEFT + _SCALE, _TOP + _ROW * len(bars)
    parts.append(
        f'<line x1="{line}" y1="{_TOP - 6}" x2="{line}" y2="{bottom + 4}" stroke="{svg.INK}" '
        'stroke-width="1.5" stroke-dasharray="4 3"/>'
    )
    parts.append(svg.text(line, bottom + 22, "limit"))
    return svg.document(width, height, f"Benchmarks: {title}", parts)


def share(bar: Mapping[str, Any]) -> float:
    """How much of its limit a bar takes up; at most 1 where it holds."""
    ratio, limit = float(bar["ratio"]), float(bar["limit"])
    if bar.get("at_most", True):
        return ratio / limit if limit else float("inf") if ratio else 0.0
    return limit / ratio if ratio else float("inf")


def _bar(bar: Mapping[str, Any], y: float) -> list[str]:
    taken = share(bar)
    fill, ink = svg.COLORS["persist" if bar["holds"] else "stash"]
    place = f'x="{_LEFT}" y="{y + 5}" height="18" rx="3"'
    length = _SCALE * min(taken, _SHARE_MAX)
    sign = "≤" if bar.get("at_most", True) else "≥"
    name = str(bar["name"])
    return [
        svg.text(_LEFT - 10, y + 18, name if len(name) <= 62 else f"{name[:60]}…", anchor="end"),
        f'<rect {place} width="{length:.1f}" fill="{fill}" stroke="{ink}"/>',
        svg.text(_LEFT + length + 8, y + 18, f"{bar['ratio']:.3g} {sign} {bar['limit']:g}", anchor="start"),
    ]


def table(areas: Mapping[str, Iterable[Mapping[str, Any]]]) -> str:
    """The same figures to read."""
    lines = ["| area | bar | measured | limit | |", "|---|---|---|---|---|"]
    for area, bars in areas.items():
        for bar in bars:
            sign = "at most" if bar.get("at_most", True) else "at least"
            name = str(bar["name"]).replace("|", "\\|")
            holds = "holds" if bar["holds"] else "**does not hold**"
            lines.append(f"| {area} | {name} | {bar['ratio']:.3g} | {sign} {bar['limit']:g} | {holds} |")
    return "\n".join(lines)

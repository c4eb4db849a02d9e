"""Just enough SVG: boxes, arrows and text that are readable on light and on dark paper."""

from __future__ import annotations

from html import escape

INK = "#5b6770"
COLORS = {
    "stash": ("#fdebc8", "#8a5a00"),
    "persist": ("#cdeee6", "#0b6b57"),
    "none": ("#eceff1", "#78868f"),
    "migrate": ("#0b6b57", "#0b6b57"),
    "rollback": ("#b3541e", "#b3541e"),
}
_HEAD = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
    'height="{height}" role="img" aria-label="{label}" font-family="system-ui, sans-serif" font-size="13">'
)
_MARKER = (
    '<marker id="{id}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0 0L10 5L0 10z" fill="{color}"/></marker>'
)


def document(width: float, height: float, label: str, parts: list[str]) -> str:
    """A whole drawing."""
    markers = "".join(
        _MARKER.format(id=name, color=COLORS[name][0] if name in COLORS else INK)
        for name in ("migrate", "rollback", "plain")
    )
    head = _HEAD.format(width=round(width), height=round(height), label=escape(label, quote=True))
    return "\n".join([head, f"<defs>{markers}</defs>", *parts, "</svg>", ""])


def text(
    x: float, y: float, words: str, *, color: str = INK, bold: bool = False, anchor: str = "middle"
) -> str:
    """A line of text."""
    weight = ' font-weight="600"' if bold else ""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="{color}"{weight}>{escape(words)}</text>'


def box(
    x: float, y: float, width: float, height: float, kind: str, lines: list[str], *, dashed: bool = False
) -> str:
    """A box with lines of text in its middle, the last of them bold."""
    fill, ink = COLORS[kind]
    dash = ' stroke-dasharray="5 4"' if dashed else ""
    shape = (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="8" fill="{fill}" '
        f'stroke="{ink}" stroke-width="1.5"{dash}/>'
    )
    first = y + height / 2 - 8 * (len(lines) - 1) + 4.5
    words = [
        text(x + width / 2, first + 16 * row, line, color=ink, bold=row == len(lines) - 1)
        for row, line in enumerate(lines)
    ]
    return "".join([shape, *words])


def arrow(points: list[tuple[float, float]], kind: str = "plain", *, bend: float = 0) -> str:
    """A line with a head; with a bend, a curve between the first and the last point."""
    color = COLORS[kind][0] if kind in COLORS else INK
    (x1, y1), (x2, y2) = points[0], points[-1]
    if bend:
        path = f"M{x1:g} {y1:g}C{x1 + bend:g} {y1:g} {x2 + bend:g} {y2:g} {x2:g} {y2:g}"
    else:
        path = "M" + "L".join(f"{x:g} {y:g}" for x, y in points)
    return f'<path d="{path}" fill="none" stroke="{color}" stroke-width="2" marker-end="url(#{kind})"/>'

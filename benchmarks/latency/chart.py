"""A picture of ratios: one line per model, a mark per peer and number of threads.

    Path("latency.svg").write_text(draw(rows, ["onnxruntime", "openvino"]))

Left of the line at 1 ours is faster. Marks differ in form, so that colour never carries a meaning
alone: circles are onnxruntime, diamonds OpenVINO; filled is one thread, hollow are more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from rows import CLASSES, Row, class_of

NAME_WIDTH, PLOT_WIDTH, LINE_HEIGHT, MARGIN = 210, 560, 18, 44
LEGEND_WIDTH = 170
MIN_RATIO, MAX_RATIO = 0.05, 4.0
TICKS = (0.05, 0.1, 0.2, 0.5, 0.8, 1.0, 2.0, 4.0)
COLOURS = ("#1b6ca8", "#b8500f")


def draw(rows: Sequence[Row], peers: Sequence[str]) -> str:
    """SVG; ratios beyond its ends are drawn at the end."""
    parts: list[str] = []
    y = MARGIN
    for kind in CLASSES:
        models = sorted({row.model for row in rows if class_of(row.model, rows) == kind})
        if not models:
            continue
        parts.append(_text(8, y, f"{kind} models", 'font-weight="bold"'))
        y += LINE_HEIGHT
        for model in models:
            parts.append(_text(NAME_WIDTH - 10, y, model, 'text-anchor="end"'))
            parts.append(_line(NAME_WIDTH, y - 4, NAME_WIDTH + PLOT_WIDTH, y - 4, "#e4e4e4"))
            for row in (row for row in rows if row.model == model):
                parts += [_mark(peer, peers, row, y - 4) for peer in peers if peer in row.ratios]
            y += LINE_HEIGHT
        y += LINE_HEIGHT // 2
    axis = [_axis(tick, y) for tick in TICKS]
    width, height = NAME_WIDTH + PLOT_WIDTH + 30, y + 2 * LINE_HEIGHT
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            'font-family="sans-serif" font-size="12">',
            f'<rect width="{width}" height="{height}" fill="white"/>',
            *_legend(peers),
            *axis,
            *parts,
            _text(NAME_WIDTH, y + LINE_HEIGHT + 12, "time of ours / time of the peer"),
            "</svg>\n",
        ]
    )


def _x(ratio: float) -> float:
    share = math.log(min(max(ratio, MIN_RATIO), MAX_RATIO) / MIN_RATIO) / math.log(
        MAX_RATIO / MIN_RATIO
    )
    return NAME_WIDTH + share * PLOT_WIDTH


def _mark(peer: str, peers: Sequence[str], row: Row, y: float) -> str:
    x = _x(row.ratios[peer])
    title = f"{row.model}, {row.threads} thread(s): {row.ratios[peer]:.2f} of {peer}"
    return _shape(peers.index(peer), x, y, row.threads == 1, title)


def _shape(number: int, x: float, y: float, is_filled: bool, title: str) -> str:
    colour = COLOURS[number % len(COLOURS)]
    style = f'fill="{colour if is_filled else "white"}" stroke="{colour}" stroke-width="1.5"'
    name = f"<title>{escape(title)}</title>"
    if number == 0:
        return f'<circle cx="{x:.1f}" cy="{y}" r="4" {style}>{name}</circle>'
    points = f"{x:.1f},{y - 5} {x + 5:.1f},{y} {x:.1f},{y + 5} {x - 5:.1f},{y}"
    return f'<polygon points="{points}" {style}>{name}</polygon>'


def _legend(peers: Sequence[str]) -> list[str]:
    parts = []
    x = NAME_WIDTH
    for number, peer in enumerate(peers):
        for is_filled, words in ((True, "1 thread"), (False, "more")):
            parts.append(_shape(number, x, 16, is_filled, peer))
            parts.append(_text(x + 10, 20, f"{peer}, {words}"))
            x += LEGEND_WIDTH
    return parts


def _axis(tick: float, bottom: float) -> str:
    colour = "#444444" if tick == 1.0 else "#d0d0d0"
    label = _text(_x(tick), bottom + 8, f"{tick:g}", 'text-anchor="middle"')
    return _line(_x(tick), 30, _x(tick), bottom - 6, colour) + label


def _line(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    return f'<path d="M{x1:.1f} {y1}L{x2:.1f} {y2}" stroke="{colour}"/>'


def _text(x: float, y: float, words: str, style: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y}" {style}>{escape(words)}</text>'

"""What each tensor costs as bytes, and the ways of choosing modes between INT8 and float.

    wanted: SQNR 35 dB, 20 examples; all INT8: 28.1 dB, 2 differ; chosen: 35.1 dB, cost 1.24
    tensor  INT8 alone  all INT8 but this  this INT16
    relu1      30.2 dB            33.5 dB     33.4 dB
    Pareto front (9 of 25 points)
    cost  outputs  differ  not INT8

The second picture has cost to the right and decibels upwards: what is further left is cheaper, what
is higher is nearer to the float model, and points on the front are beaten by none in both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from explorer.results.runs.sensitivity import MixedPoint, MixedPrecision, TensorSensitivity
from explorer.views.numbers import format_count
from explorer.views.parts import svg
from explorer.views.parts.markup import (
    card,
    code,
    escape,
    note,
    paragraph,
    picture,
    plain,
    section,
    shorten,
    table,
)
from explorer.views.parts.plain import columns
from explorer.views.sensitivity_words import by_noise, decibels, modes_words, summary
from explorer.views.theme import BLUE, LIGHT, VERMILLION, tone_of

TENSORS = ("tensor", "INT8 alone", "all INT8 but this", "this INT16")
POINTS = ("", "cost", "outputs", "differ", "accuracy", "not INT8")
LISTED = 20
"""Tensors of the largest noise, of which a text has a line each."""
DRAWN = 40
MOST_POINTS = 30
"""Points of the front that have a line."""
WIDTH, ROW, NAME_WIDTH, TOP = 560.0, 16.0, 180.0, 30.0
FRONT_HEIGHT, LEFT, BOTTOM, RIGHT = 220.0, 44.0, 34.0, 16.0


def sensitivity_text(found: MixedPrecision, width: int) -> str:
    """The choice, the noisiest tensors and the front."""
    noisiest = by_noise(found)
    rows = [(t.tensor, *_decibels_of(t)) for t in noisiest[:LISTED]]
    lines = [plain(summary(found)), *columns(rows, TENSORS, "nrrr", width=width)]
    if len(noisiest) > LISTED:
        lines.append(f"and {format_count(len(noisiest) - LISTED, 'tensor')} of less noise")
    lines.append(_front_title(found))
    shown = _front(found)
    lines += columns([_cells(found, p) for p in shown[:MOST_POINTS]], POINTS, "lrrrrl", width=width)
    if len(shown) > MOST_POINTS:
        lines.append(f"and {format_count(len(shown) - MOST_POINTS, 'point')} of more cost")
    return "\n".join(lines)


def sensitivity_html(found: MixedPrecision) -> str:
    """A card with both pictures and both tables."""
    noisiest = by_noise(found)
    body = paragraph(escape(plain(summary(found))))
    body += section("Decibels of the outputs, by tensor")
    body += picture(_tensors_svg(found, noisiest[:DRAWN]), WIDTH, "sensitivity of tensors")
    if len(noisiest) > DRAWN:
        body += note(f"The {DRAWN} noisiest of {len(noisiest)} tensors.")
    body += note(
        "Filled: only this tensor is INT8. Hollow: all but this one are, beside the line of all "
        "INT8; the tick: this one is INT16 and all others INT8."
    )
    body += section(_front_title(found))
    body += picture(_front_svg(found), WIDTH, "decibels of the outputs over cost")
    cells = [[code(row[0]), *map(escape, row[1:])] for row in map(_row, noisiest[:LISTED])]
    shown = _front(found)
    front = [list(map(escape, _cells(found, point))) for point in shown[:MOST_POINTS]]
    body += table(front, POINTS, "lrrrrl") + table(cells, TENSORS, "lrrr")
    if len(shown) > MOST_POINTS:
        body += note(f"The {MOST_POINTS} cheapest of {len(shown)} points on the front.")
    return card("Sensitivity", body, subtitle=plain(found.wanted))


def _decibels_of(tensor: TensorSensitivity) -> tuple[str, str, str]:
    qualities = (tensor.alone, tensor.without, tensor.wide)
    alone, without, wide = (decibels(quality.sqnr_db) for quality in qualities)
    return alone, without, wide


def _row(tensor: TensorSensitivity) -> tuple[str, ...]:
    return (plain(tensor.tensor), *_decibels_of(tensor))


def _front(found: MixedPrecision) -> list[MixedPoint]:
    """Points of the front, and the chosen one, which its measured quality may have put behind."""
    return [p for k, p in enumerate(found.points) if p.is_best or k == found.chosen]


def _front_title(found: MixedPrecision) -> str:
    count = sum(point.is_best for point in found.points)
    return f"Pareto front of cost and signal to noise ({count} of {len(found.points)} points)"


def _cells(found: MixedPrecision, point: MixedPoint) -> tuple[str, ...]:
    quality = point.quality
    return (
        "chosen" if point is found.points[found.chosen] else "",
        f"{point.cost:.2f}",
        decibels(quality.sqnr_db),
        str(quality.differ),
        "" if quality.accuracy is None else f"{quality.accuracy:.2f} %",
        plain(modes_words(point)),
    )


def _tensors_svg(found: MixedPrecision, shown: Sequence[TensorSensitivity]) -> str:
    """A row per tensor on one scale of decibels, with a line where all are INT8."""
    base = found.points[0].quality.sqnr_db
    numbers = [q.sqnr_db for t in shown for q in (t.alone, t.without, t.wide)]
    low, high = _ends([*numbers, base])
    scale = (WIDTH - NAME_WIDTH - RIGHT) / (high - low)

    def x(value: float) -> float:
        return NAME_WIDTH + (min(max(value, low), high) - low) * scale

    height = TOP + ROW * len(shown) + 6
    blue, red = tone_of(BLUE, LIGHT), tone_of(VERMILLION, LIGHT)
    parts = [svg.line(x(base), TOP - 8, x(base), height, stroke=red.edge)]
    parts.append(_caption(x(base), TOP - 12, f"all INT8 {decibels(base)}", "middle"))
    for place, tensor in enumerate(shown):
        y = TOP + ROW * (place + 0.5)
        alone, without = x(tensor.alone.sqnr_db), x(tensor.without.sqnr_db)
        name = shorten(plain(tensor.tensor), 28)
        parts.append(_caption(NAME_WIDTH - 10, y + 4, name, "end"))
        parts.append(svg.line(x(base), y, without, y, stroke=LIGHT.quiet))
        wide = x(tensor.wide.sqnr_db)
        parts.append(svg.line(wide, y - 5, wide, y + 5, stroke=LIGHT.text))
        parts.append(svg.circle(without, y, 4, fill=LIGHT.background, stroke=blue.edge))
        parts.append(svg.circle(alone, y, 4, fill=blue.edge))
    return svg.document(WIDTH, height, "".join(parts))


def _front_svg(found: MixedPrecision) -> str:
    """Points by cost and decibels; the front as steps, the chosen one with a ring."""
    costs = [point.cost for point in found.points]
    low, high = _ends([point.quality.sqnr_db for point in found.points])
    least, most = min(costs), max(max(costs), min(costs) + 1e-9)
    bottom = FRONT_HEIGHT - BOTTOM

    def place(point: MixedPoint) -> tuple[float, float]:
        level = min(max(point.quality.sqnr_db, low), high)
        x = LEFT + (point.cost - least) / (most - least) * (WIDTH - LEFT - RIGHT - 8)
        return x, bottom - (level - low) / (high - low) * (bottom - 16)

    blue, red = tone_of(BLUE, LIGHT), tone_of(VERMILLION, LIGHT)
    parts = [
        svg.line(LEFT - 8, bottom + 6, WIDTH - RIGHT, bottom + 6, stroke=LIGHT.quiet),
        svg.line(LEFT - 8, 8, LEFT - 8, bottom + 6, stroke=LIGHT.quiet),
        _caption(LEFT - 12, bottom + 4, f"{low:.0f}", "end"),
        _caption(LEFT - 12, 18, f"{high:.0f} dB", "end"),
        _caption(LEFT, FRONT_HEIGHT - 12, f"cost {least:.2f}", "start"),
        _caption(WIDTH - RIGHT, FRONT_HEIGHT - 12, f"{most:.2f} times INT8", "end"),
    ]
    steps = [place(point) for point in found.points if point.is_best]
    if steps:
        (x, y), *others = steps
        path = f"M{x:.1f} {y:.1f}" + "".join(f"H{x:.1f}V{y:.1f}" for x, y in others)
        parts.append(svg.path(path, fill="none", stroke=blue.edge))
    for point in found.points:
        x, y = place(point)
        fill = blue.edge if point.is_best else LIGHT.background
        parts.append(svg.circle(x, y, 3.5, fill=fill, stroke=blue.edge))
    x, y = place(found.points[found.chosen])
    parts.append(svg.circle(x, y, 7, fill="none", stroke=red.edge, stroke_width=2))
    parts.append(
        _caption(
            x + 11, y + 14 if y < 40 else y - 8, "chosen", "start" if x < WIDTH - 80 else "end"
        )
    )
    return svg.document(WIDTH, FRONT_HEIGHT, "".join(parts))


def _caption(x: float, y: float, words: str, anchor: str) -> str:
    return svg.text(x, y, words, text_anchor=anchor, fill=LIGHT.quiet, font_size=11)


def _ends(numbers: Sequence[float]) -> tuple[float, float]:
    """Of a scale of decibels: whole tens around what is finite."""
    finite = [number for number in numbers if math.isfinite(number)] or [0.0]
    low, high = math.floor(min(finite) / 10) * 10.0, math.ceil(max(finite) / 10) * 10.0
    return low, max(high, low + 10.0)

"""What each tensor costs as bytes, and the ways of choosing modes between INT8 and float.

    wanted: SQNR 35 dB, 20 examples
      all INT8: 28.1 dB, 2 differ; chosen: 35.1 dB, cost 1.24 of INT8, INT16 relu1
    Pareto front of cost and signal to noise (9 of 25 points)
               cost  outputs  differ  not INT8
    Outputs by tensor
      tensor  INT8 alone  all INT8 but this  this INT16
      relu1      30.2 dB            33.5 dB     33.4 dB

In the first picture cost grows to the right and decibels upwards: no point on the front is both
costlier and worse than another.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise

from explorer.results import Trace
from explorer.results.runs.sensitivity import (
    MixedPoint,
    MixedPrecision,
    Quality,
    TensorSensitivity,
)
from explorer.views.catalog.quantization import MODE
from explorer.views.numbers import format_count
from explorer.views.parts.markup import shorten
from explorer.views.specification import (
    Action,
    Cell,
    ChartSpec,
    Column,
    Dot,
    Label,
    Line,
    Mark,
    Row,
    Section,
    Specification,
    TableSpec,
    Text,
)
from explorer.views.view import Pane, View

MAX_NAMES = 4
"""Tensors of a point that are named; of more only their number is."""
MAX_DRAWN, MAX_ROWS = 40, 30
WIDTH, RIGHT = 560.0, 16.0
ROW, NAME_WIDTH, TOP = 16.0, 180.0, 30.0
FRONT_HEIGHT, LEFT, BOTTOM = 220.0, 60.0, 34.0
LETTER, LINE, RADIUS = 6.6, 12.0, 4.0
"""Width of a letter, height of a line of text, radius of a point."""
Point = tuple[float, float]
"""Of the front chart, from its left and upper edges."""
POINTS = (
    Column(key="role", title=""),
    Column(
        key="cost",
        title="cost",
        format="decimal",
        hint="multiply-adds times bits, of INT8",
        moves="sqnr_db",
    ),
    Column(
        key="sqnr",
        title="outputs",
        format="decibels",
        hint="signal to quantization noise",
        moves="sqnr_db",
    ),
    Column(
        key="differ",
        title="differ",
        format="count",
        hint="examples with another answer",
        moves="sqnr_db",
    ),
    Column(
        key="accuracy",
        title="accuracy",
        format="decimal",
        hint="per cent of examples",
        moves="sqnr_db",
    ),
    Column(key="modes", title="not INT8"),
)
TENSORS = (
    Column(key="tensor", title="tensor", format="layer"),
    Column(
        key="alone",
        title="INT8 alone",
        format="decibels",
        hint="all others stay float",
        moves="sqnr_db",
    ),
    Column(key="without", title="all INT8 but this", format="decibels", moves="sqnr_db"),
    Column(
        key="wide",
        title="this INT16",
        format="decibels",
        hint="and all others INT8",
        moves="sqnr_db",
    ),
)


def sensitivity(trace: Trace, index: int = -1) -> Specification:
    """The choice, the front and the noisiest tensors of a quantized program."""
    record = trace.quantization
    assert record is not None and record.precision is not None, "the view needs it"
    return searched(
        record.precision,
        {tensor.name: tensor.operation for tensor in record.tensors},
        {tensor.name: tensor.mode for tensor in record.tensors},
    )


def searched(
    found: MixedPrecision,
    makers: Mapping[str, str] | None = None,
    modes: Mapping[str, str] | None = None,
) -> Specification:
    """A search for modes. `makers`: the operation of each tensor; `modes`: those of the program
    that is shown, where there is one."""
    noisiest = sorted(found.tensors, key=lambda tensor: tensor.alone.sqnr_db)
    best = sum(point.is_best for point in found.points)
    front = f"Pareto front of cost and signal to noise ({best} of {len(found.points)} points)"
    return Specification(
        title="Sensitivity",
        subtitle=f"wanted: {found.wanted}, {format_count(found.examples, 'example')}",
        parts=(
            Text(
                text=summary(found),
                is_quiet=False,
                layers=tuple(found.points[found.chosen].modes),
            ),
            Section(title=front, parts=(_front_chart(found), _points(found, modes))),
            Section(
                title="Outputs by tensor",
                parts=(
                    _tensors_chart(found, noisiest[:MAX_DRAWN], makers or {}),
                    Text(
                        text="Filled: only this tensor is INT8. Hollow: all but this one are, next "
                        "to the line of all INT8. Tick: this one is INT16, all others INT8."
                    ),
                    _tensors(noisiest, makers or {}),
                ),
            ),
        ),
    )


def summary(found: MixedPrecision) -> str:
    """Where the search began, and what it chose."""
    first, chosen = found.points[0], found.points[found.chosen]
    return (
        f"all INT8: {_quality(first.quality)}; chosen: {_quality(chosen.quality)}, cost "
        f"{chosen.cost:.2f} of INT8, {_modes(chosen)}"
    )


def _modes(point: MixedPoint) -> str:
    """`INT16 relu1, fc1; F32 conv7`, `INT16 24 tensors`, `nothing but INT8`."""
    if not point.modes:
        return "nothing but INT8"
    words = []
    for mode, count in Counter(point.modes.values()).items():
        names = [name for name, own in point.modes.items() if own == mode]
        is_short = len(point.modes) <= MAX_NAMES
        listed = ", ".join(names) if is_short else format_count(count, "tensor")
        words.append(f"{mode} {listed}")
    return "; ".join(words)


def _quality(quality: Quality) -> str:
    words = f"{_decibels(quality.sqnr_db)}, {quality.differ} differ"
    return words if quality.accuracy is None else f"{words}, accuracy {quality.accuracy:.2f} %"


def _decibels(value: float) -> str:
    return f"{value:.2f} dB" if math.isfinite(value) else "exact"


# -- the front -------------------------------------------------------------------------------------


def _points(found: MixedPrecision, modes: Mapping[str, str] | None) -> TableSpec:
    """Points of the front, and the chosen one, which its measured quality may have taken off it."""
    shown = [
        (place, point)
        for place, point in enumerate(found.points)
        if point.is_best or place == found.chosen
    ]
    shown.sort(key=lambda item: item[0] != found.chosen)  # details begin with the chosen one
    rows = tuple(_point(found, place, point, modes) for place, point in shown)
    return TableSpec(title="choices of modes", columns=POINTS, rows=rows, max_rows=MAX_ROWS)


def _point(
    found: MixedPrecision, place: int, point: MixedPoint, modes: Mapping[str, str] | None
) -> Row:
    others = {
        name: point.modes.get(name, "INT8")
        for name, mode in (modes or {}).items()
        if point.modes.get(name, "INT8") != mode
    }
    roles = [
        "chosen" if place == found.chosen else "",
        "this program" if modes and not others else "",
    ]
    role = ", ".join(filter(None, roles))
    how = "measured in integers" if point.is_measured else "simulated"
    time = "" if point.milliseconds is None else f", {point.milliseconds:.3g} ms"
    words = f"{_quality(point.quality)}, {how}{time}: {_modes(point)}"
    decisions = {f"{MODE}{name}": mode for name, mode in others.items()}
    act = (Action(title="compile these modes", decisions=decisions),) if decisions else ()
    return Row(
        id=f"point {place}",
        title=f"{_decibels(point.quality.sqnr_db)}, {point.cost:.2f} times INT8",
        details=(
            Text(text=f"{role}. {words}" if role else words, layers=tuple(point.modes)),
            *act,
        ),
        cells={
            "role": role,
            "cost": Cell(value=point.cost, text=f"{point.cost:.2f}"),
            "sqnr": _sqnr(point.quality),
            "differ": point.quality.differ,
            "accuracy": None
            if point.quality.accuracy is None
            else Cell(value=point.quality.accuracy, text=f"{point.quality.accuracy:.2f} %"),
            "modes": _modes(point),
        },
    )


def _sqnr(quality: Quality) -> Cell:
    return Cell(value=quality.sqnr_db, text=_decibels(quality.sqnr_db))


def _front_chart(found: MixedPrecision) -> ChartSpec:
    """Points by cost and decibels; the front as steps, the chosen one with a ring."""
    costs = [point.cost for point in found.points]
    low, high = _ends([point.quality.sqnr_db for point in found.points])
    least, most = min(costs), max(max(costs), min(costs) + 1e-9)
    bottom = FRONT_HEIGHT - BOTTOM

    def place(point: MixedPoint) -> tuple[float, float]:
        level = min(max(point.quality.sqnr_db, low), high)
        x = LEFT + (point.cost - least) / (most - least) * (WIDTH - LEFT - RIGHT - 8)
        return x, bottom - (level - low) / (high - low) * (bottom - 16)

    marks: list[Mark] = [
        Line(points=((LEFT - 8, bottom + 6), (WIDTH - RIGHT, bottom + 6)), role="quiet"),
        Line(points=((LEFT - 8, 8), (LEFT - 8, bottom + 6)), role="quiet"),
        Label(x=LEFT - 12, y=bottom + 4, text=f"{low:.0f}", anchor="end"),
        Label(x=LEFT - 12, y=18, text=f"{high:.0f} dB", anchor="end"),
        Label(x=LEFT, y=FRONT_HEIGHT - 12, text=f"cost {least:.2f}"),
        Label(x=WIDTH - RIGHT, y=FRONT_HEIGHT - 12, text=f"{most:.2f} times INT8", anchor="end"),
    ]
    steps = [place(point) for point in found.points if point.is_best]
    corners = [corner for (_, y), (x, below) in pairwise(steps) for corner in ((x, y), (x, below))]
    marks.append(Line(points=(*steps[:1], *corners), role="accent"))
    for index, point in enumerate(found.points):
        x, y = place(point)
        marks.append(
            Dot(
                x=x,
                y=y,
                fill="accent" if point.is_best else "background",
                id=f"point {index}",
                title=f"{_quality(point.quality)}, cost {point.cost:.2f}: {_modes(point)}",
            )
        )
    x, y = place(found.points[found.chosen])
    marks.append(Dot(x=x, y=y, radius=8, fill="", stroke="text"))
    marks.append(_free_label("chosen", (x, y), [place(point) for point in found.points]))
    return ChartSpec(
        title="choices of modes by cost and decibels of the outputs",
        width=WIDTH,
        height=FRONT_HEIGHT,
        marks=tuple(marks),
    )


def _free_label(text: str, at: Point, points: Sequence[Point]) -> Label:
    """The words of a point at the side of it where they cover the fewest other points."""
    x, y = at
    width = LETTER * len(text)
    sides = [
        Label(x=x + 11 * side, y=y + down, text=text, anchor="start" if side > 0 else "end")
        for down in (18, -8)
        for side in (1, -1)
        if 0 <= x + 11 * side + width * (side - 1) / 2 <= WIDTH - width
        and LINE <= y + down <= FRONT_HEIGHT
    ]

    def covered(label: Label) -> int:
        left = label.x if label.anchor == "start" else label.x - width
        return sum(
            left - RADIUS < px < left + width + RADIUS
            and label.y - LINE - RADIUS < py < label.y + RADIUS
            for px, py in points
        )

    return min(sides, key=covered)


# -- tensors ---------------------------------------------------------------------------------------


def _tensors(noisiest: Sequence[TensorSensitivity], makers: Mapping[str, str]) -> TableSpec:
    rows = (
        Row(
            operations=tuple(filter(None, (makers.get(tensor.tensor),))),
            cells={
                "tensor": tensor.tensor,
                "alone": _sqnr(tensor.alone),
                "without": _sqnr(tensor.without),
                "wide": _sqnr(tensor.wide),
            },
        )
        for tensor in noisiest
    )
    title = "tensors by what their bytes cost the outputs"
    return TableSpec(title=title, columns=TENSORS, rows=tuple(rows), max_rows=MAX_DRAWN)


def _tensors_chart(
    found: MixedPrecision, shown: Sequence[TensorSensitivity], makers: Mapping[str, str]
) -> ChartSpec:
    """A row per tensor on one scale of decibels, with a line where all are INT8."""
    base = found.points[0].quality.sqnr_db
    numbers = [q.sqnr_db for t in shown for q in (t.alone, t.without, t.wide)]
    low, high = _ends([*numbers, base])
    scale = (WIDTH - NAME_WIDTH - RIGHT) / (high - low)

    def x(value: float) -> float:
        return NAME_WIDTH + (min(max(value, low), high) - low) * scale

    height = TOP + ROW * len(shown) + 6
    marks: list[Mark] = [
        Line(points=((x(base), TOP - 8), (x(base), height)), role="#d55e00"),
        Label(x=x(base), y=TOP - 12, text=f"all INT8 {_decibels(base)}", anchor="middle"),
    ]
    for place, tensor in enumerate(shown):
        y = TOP + ROW * (place + 0.5)
        maker = makers.get(tensor.tensor, "")
        alone, without, wide = tensor.alone.sqnr_db, tensor.without.sqnr_db, tensor.wide.sqnr_db
        about = (
            f"{tensor.tensor}: {_decibels(alone)} with only it INT8, {_decibels(without)} with all "
            f"but it, {_decibels(wide)} with it INT16"
        )
        marks += [
            Label(x=NAME_WIDTH - 10, y=y + 4, text=shorten(tensor.tensor, 28), anchor="end"),
            Line(points=((x(base), y), (x(without), y)), role="quiet"),
            Line(points=((x(wide), y - 5), (x(wide), y + 5)), role="text"),
            Dot(x=x(without), y=y, fill="background", id=maker, title=about),
            Dot(x=x(alone), y=y, id=maker, title=about),
        ]
    return ChartSpec(title="sensitivity of tensors", width=WIDTH, height=height, marks=tuple(marks))


def _ends(numbers: Sequence[float]) -> tuple[float, float]:
    """Of a scale of decibels: whole tens around what is finite."""
    finite = [number for number in numbers if math.isfinite(number)] or [0.0]
    low, high = math.floor(min(finite) / 10) * 10.0, math.ceil(max(finite) / 10) * 10.0
    return low, max(high, low + 10.0)


def _record(trace: Trace, index: int) -> object:
    return None if trace.quantization is None else trace.quantization.precision


VIEW = View(
    name="sensitivity",
    title="what each tensor costs as bytes, and the modes between INT8 and float",
    needs=("precision",),
    specification=sensitivity,
    json=_record,
    pane=Pane(moves="sqnr_db", key="y", is_optional=True),
)

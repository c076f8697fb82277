"""The search for the tiles of each layer: what was looked at, the way to the best, and the bound.

    layer   candidates  run   alone  in the program  at least    gap
    conv7        2,596    3  25,705          23,118    24,129  6.1 %

A square is a point of the space that was run on the timeline of the prediction, a circle an
estimate of another one. The dashed line is what no point of the space goes below, the steps are
the best so far. Cycles are in logarithms, and of the layer alone: in the program it loads while the
layer before ends, and tensors stay on the chip.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from explorer.results import Trace
from explorer.results.decisions import TILE_CHOICES, TILED, TILES
from explorer.results.runs.counted import SearchedLayer, SearchPoint
from explorer.views.catalog.layers import counted_of
from explorer.views.fixed_numbers import SEARCH
from explorer.views.numbers import format_bytes, format_count, format_exact, format_percent
from explorer.views.parts.markup import shorten
from explorer.views.specification import (
    Action,
    Beside,
    Cell,
    ChartSpec,
    Column,
    Dot,
    Label,
    Line,
    Mark,
    Part,
    Row,
    Section,
    Specification,
    TableSpec,
    Text,
)
from explorer.views.theme import CHOSEN_SCHEDULE as CHOSEN
from explorer.views.theme import DEFAULT_SCHEDULE as RUN
from explorer.views.theme import OTHER_SCHEDULE as OTHER
from explorer.views.view import Pane, View

LEFT, RIGHT, TOP, BOTTOM = 72.0, 360.0, 16.0, 190.0
MAX_DRAWN = 8
"""Layers of a picture in a file: those with the most cycles."""
ALONE = "cycles of the layer by itself: its tensors lie in global memory, and it waits for weights"
AMONG = (
    "cycles as in the view of layers: it loads while the layer before ends, and tensors may stay "
    "on the chip"
)
LAYERS = (
    Column(key="layer", title="layer", format="layer"),
    Column(
        key="candidates",
        title="candidates",
        format="count",
        hint="legal points of its space",
        moves=SEARCH,
    ),
    Column(
        key="run",
        title="run",
        format="count",
        hint="on the timeline of the prediction",
        moves=SEARCH,
    ),
    Column(key="cycles", title="alone", format="count", hint=ALONE, moves="cycles"),
    Column(key="among", title="in the program", format="count", hint=AMONG, moves="cycles"),
    Column(key="bound", title="at least", format="count", hint="in any tiles of the space"),
    Column(key="gap", title="gap", format="percent", hint="by which better tiles may be better"),
    Column(
        key="seconds",
        title="time",
        format="seconds",
        hint="of the search; equal layers are searched once",
        moves="compile_seconds",
    ),
)
POINTS = (
    Column(key="of", title="layer", format="layer"),
    Column(key="number", title="point", format="count"),
    Column(key="state", title="", hint="run on the timeline, or estimated"),
    Column(key="cycles", title="cycles", format="count", moves="cycles"),
    Column(key="bound", title="at least", format="count", hint="in these tiles"),
    Column(key="bytes", title="bytes", format="bytes", hint="that are moved"),
    Column(key="choices", title="tiles", format="name"),
)
LEGEND = ((CHOSEN, "found by the search"), (RUN, "run"), (OTHER, "estimated"))


def landscape(trace: Trace, index: int = -1) -> Specification:
    """A row for each layer with its picture; of the longest one the picture everywhere."""
    found = [one for one in counted_of(trace).searches if one.points]
    if not found:
        nothing = 'Nothing was searched: tiles are those of the rule (tile-layers/search = "none").'
        return Specification(title="Landscape", parts=(Text(text=nothing),))
    longest = max(found, key=lambda one: one.cycles)
    among = {layer.operation: layer.cycles for layer in counted_of(trace).layers}
    heads = _heads(trace)
    table = TableSpec(
        title="layers",
        columns=LAYERS,
        rows=tuple(_layer(one, among.get(one.layer)) for one in found),
        max_rows=10_000,
        chosen=found.index(longest),
    )
    points = TableSpec(
        title="points",
        columns=POINTS,
        rows=tuple(row for one in found for row in _rows(one, heads)),
        facet="of",
    )
    return Specification(
        title="Landscape",
        subtitle=_summary(found),
        parts=(
            table,
            Section(
                title=f"{longest.layer}, the longest",
                parts=tuple(_pictures(longest)),
                is_for_page=False,
            ),
            Section(title="points", parts=(points,), is_folded=True),
        ),
    )


def pictures(trace: Trace, index: int = -1) -> Specification:
    """Of the layers with the most cycles, for a file."""
    found = [one for one in counted_of(trace).searches if one.points]
    found.sort(key=lambda one: -one.cycles)
    parts = tuple(_over_order(one) for one in found[:MAX_DRAWN])
    return Specification(title="Landscape", parts=parts)


def _summary(found: Sequence[SearchedLayer]) -> str:
    run = sum(_runs(one) for one in found)
    cycles, bound = (sum(getattr(one, name) for one in found) for name in ("cycles", "bound"))
    return (
        f"{format_count(len(found), 'layer')}, {format_count(run, 'point')} run of "
        f"{sum(one.candidates for one in found):,}; at most "
        f"{format_percent((cycles - bound) / max(cycles, 1))} above the best of the space"
    )


def _runs(one: SearchedLayer) -> int:
    return sum(point.is_run for point in one.points)


def _chosen(one: SearchedLayer) -> int:
    """The first run that takes as many cycles as were found."""
    numbers = (n for n, p in enumerate(one.points) if p.is_run and p.cycles == one.cycles)
    return next(numbers, -1)


def _heads(trace: Trace) -> dict[str, str]:
    """By layer how addresses of its tiles begin: with the last pass that chose them."""
    parts = [knob.address.split("/") for knob in trace.knobs]
    parts = [one for one in parts if len(one) == 3 and one[0] in TILED and one[2] in TILE_CHOICES]
    parts.sort(key=lambda one: TILED.index(one[0]))
    return {one[1]: f"{one[0]}/{one[1]}/" for one in parts}


def _layer(one: SearchedLayer, among: int | None) -> Row:
    return Row(
        operations=(one.layer,),
        details=tuple(_pictures(one)),
        cells={
            "layer": one.layer,
            "candidates": one.candidates,
            "run": _runs(one),
            "cycles": one.cycles,
            "among": among,
            "bound": one.bound,
            "gap": one.gap,
            "seconds": one.seconds or None,
        },
    )


def _pictures(one: SearchedLayer) -> Iterator[Part]:
    charts = [_over_order(one), *_over_bytes(one)]
    yield charts[0] if len(charts) == 1 else Beside(parts=tuple(charts))
    left = one.candidates - len(one.points)
    if left > 0:
        yield Text(text=f"{left:,} more points with larger estimates or bounds are not shown.")
    yield Text(text="group-layers may take other tiles, each after the layer before.")


def _rows(one: SearchedLayer, heads: Mapping[str, str]) -> Iterator[Row]:
    head, chosen = heads.get(one.layer, f"{TILES}/{one.layer}/"), _chosen(one)
    for number, point in enumerate(one.points):
        yield Row(
            id=_id(one, number),
            operations=(one.layer,),
            action=Action(
                title="compile it",
                decisions={f"{head}{name}": value for name, value in point.choices},
                replaces=head,
            ),
            cells={
                "of": one.layer,
                "number": number + 1,
                "state": _state(point, number == chosen),
                "cycles": Cell(
                    value=point.cycles, exact="" if point.is_run else "estimated, not run"
                ),
                "bound": point.bound or None,
                "bytes": point.bytes,
                "choices": Cell(value=_words(point), text=shorten(_words(point), 48)),
            },
        )


def _id(one: SearchedLayer, number: int) -> str:
    return f"{one.layer} point {number + 1}"


def _state(point: SearchPoint, is_chosen: bool) -> str:
    return "found" if is_chosen else "run" if point.is_run else "estimated"


def _words(point: SearchPoint) -> str:
    return " ".join(f"{name}={value}" for name, value in point.choices)


# ------------------------------------------------------------------------------------- the charts


def _over_order(one: SearchedLayer) -> ChartSpec:
    """Points in the order in which they were looked at; the best so far as steps."""
    low, high, y = _cycles(one)
    x = _linear(1, max(len(one.points), 2))
    best, path, way = 0, list[tuple[float, float]](), list[str]()
    for number, point in enumerate(one.points, 1):
        if point.is_run and (not best or point.cycles < best):
            path += [(x(number), y(best))] if best else []
            path.append((x(number), y(point.cycles)))
            best = point.cycles
            way.append(f"point {number}: {point.cycles:,} cycles")
    runs = _runs(one)
    if path:
        path.append((x(max(runs, 1)), y(best)))
    marks = [
        *_frame(one, low, high, y),
        Label(x=RIGHT, y=BOTTOM + 18, text=f"{len(one.points):,}", anchor="end"),
        Label(x=LEFT, y=BOTTOM + 18, text="1"),
        Label(x=(LEFT + RIGHT) / 2, y=BOTTOM + 18, text="order →", anchor="middle"),
        *([Line(points=tuple(path), role="accent", width=1.5, title="the best so far")]),
        *_dots(one, lambda number, point: x(number + 1), y),
    ]
    return ChartSpec(
        title=f"cycles of {one.layer}, in the order of the search",
        width=RIGHT + 24,
        height=BOTTOM + 28,
        marks=tuple(marks),
        legend=LEGEND,
        lines=(*way, f"at least {one.bound:,} in any tiles, {format_percent(one.gap)} less"),
    )


def _over_bytes(one: SearchedLayer) -> Iterator[ChartSpec]:
    """Runs over the bytes that they move; nothing where these do not differ."""
    sizes = sorted({point.bytes for point in one.points if point.bytes})
    if len(sizes) < 2:
        return
    low, high, y = _cycles(one)
    x = _logarithmic(sizes[0], sizes[-1], LEFT, RIGHT)
    marks = [
        *_frame(one, low, high, y),
        Label(x=LEFT, y=BOTTOM + 18, text=format_bytes(sizes[0])),
        Label(x=RIGHT, y=BOTTOM + 18, text=format_bytes(sizes[-1]), anchor="end"),
        Label(x=(LEFT + RIGHT) / 2, y=BOTTOM + 18, text="bytes →", anchor="middle"),
        *_dots(one, lambda _, point: x(point.bytes or 1) if point.is_run else None, y),
    ]
    yield ChartSpec(
        title=f"cycles of {one.layer}, over the bytes that are moved",
        width=RIGHT + 24,
        height=BOTTOM + 28,
        marks=tuple(marks),
        legend=LEGEND[:2],
        lines=(f"{format_bytes(sizes[0])} to {format_bytes(sizes[-1])} are moved",),
    )


def _cycles(one: SearchedLayer) -> tuple[float, float, Callable[[float], float]]:
    values = [max(one.bound, 1), *(max(point.cycles, 1) for point in one.points)]
    low, high = min(values) / 1.05, max(values) * 1.05
    return low, high, _logarithmic(low, high, BOTTOM, TOP)


def _logarithmic(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    width = math.log(high / low) or 1.0
    return lambda value: round(start + (end - start) * math.log(max(value, 1) / low) / width, 1)


def _linear(low: float, high: float) -> Callable[[float], float]:
    return lambda value: round(LEFT + 8 + (RIGHT - LEFT - 16) * (value - low) / (high - low), 1)


def _frame(
    one: SearchedLayer, low: float, high: float, y: Callable[[float], float]
) -> Iterator[Mark]:
    yield Line(points=((LEFT, TOP), (LEFT, BOTTOM), (RIGHT, BOTTOM)))
    for tick in _ticks(low, high):
        yield Line(points=((LEFT - 4, y(tick)), (LEFT, y(tick))))
        yield Label(x=LEFT - 8, y=y(tick) + 4, text=format_exact(round(tick)), anchor="end")
    floor = y(max(one.bound, 1))
    title = f"no tiles of the space take fewer than {one.bound:,} cycles"
    yield Line(points=((LEFT, floor), (RIGHT, floor)), is_dashed=True, title=title)
    yield Label(x=RIGHT, y=floor - 4, text=f"at least {one.bound:,}", anchor="end")


def _ticks(low: float, high: float) -> list[int]:
    """Multiples of a round number between two counts: two to seven where these are not near."""
    step = 10 ** math.floor(math.log10(max(high - low, 1)))
    step *= next(part for part in (0.2, 0.5, 1.0, 2.0) if (high - low) / (step * part) <= 7)
    step = max(1, round(step))
    return list(range(-(-math.ceil(low) // step) * step, math.floor(high) + 1, step))


def _dots(
    one: SearchedLayer,
    place: Callable[[int, SearchPoint], float | None],
    y: Callable[[float], float],
) -> Iterator[Mark]:
    """The one that was found last: it lies on top."""
    chosen = _chosen(one)
    order = sorted(enumerate(one.points), key=lambda n: (n[0] == chosen, n[1].is_run))
    for number, point in order:
        x = place(number, point)
        if x is None:
            continue
        look, shape, radius = (RUN, "square", 4.0) if point.is_run else (OTHER, "circle", 3.0)
        if number == chosen:
            look, shape, radius = CHOSEN, "diamond", 7.0
        yield Dot(
            x=x,
            y=y(point.cycles),
            radius=radius,
            shape=shape,
            fill=f"{look.name}-fill",
            stroke=f"{look.name}-edge",
            id=_id(one, number),
            title=f"point {number + 1}: {point.cycles:,} cycles "
            f"{'run' if point.is_run else 'estimated'}; {_words(point)}",
        )


VIEW = View(
    name="landscape",
    title="what the search for tiles looked at, and the bound",
    needs=("profile", "counted"),
    specification=landscape,
    drawing=pictures,
    pane=Pane(key="L", is_optional=True, moves="cycles"),
)

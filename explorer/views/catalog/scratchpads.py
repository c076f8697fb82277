"""What lies in the scratchpads during the whole program, and which layers it connects.

    layer       bytes  from byte  from cycle  to cycle  read by     group
    conv7       8,000     41,152           1    11,653  depthwise5      1

Cycles go to the right, bytes upwards. A wide rectangle is a result that stays on the chip from the
layer that makes it to the last one that reads it; the others are buffers of the tiles of a layer.
Cycles of buffers are those that the steps of the tiles predict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from explorer.results import Trace
from explorer.results.runs.counted import CountedLayer, CountedRun, ScratchpadRecord
from explorer.views.catalog.layers import counted_of
from explorer.views.numbers import format_bytes, format_count, format_exact
from explorer.views.specification import (
    ChartSpec,
    Column,
    Label,
    Line,
    Mark,
    Rect,
    Row,
    Specification,
    TableSpec,
)
from explorer.views.theme import family
from explorer.views.view import Pane, View

LEFT, RIGHT, TOP, HEIGHT = 72.0, 760.0, 26.0, 190.0
ON_CHIP = "on_chip"
"""The attribute with the byte at which a result lies in the scratchpad of activations."""
ACTIVATIONS = "activations"
LOOKS = {
    "result": family("convolution"),
    "activations": family("movement"),
    "weights": family("elementwise"),
    "accumulators": family("reduction"),
    "micro_operations": family("quantization"),
    "tables": family("normalization"),
}
"""By content; `result`: of a layer, which stays."""
COLUMNS = (
    Column(key="layer", title="layer", format="layer"),
    Column(key="bytes", title="bytes", format="bytes", hint="that stay", moves="traffic_bytes"),
    Column(key="offset", title="from byte", format="count", moves="traffic_bytes"),
    Column(key="start", title="from cycle", format="count", moves="cycles"),
    Column(key="end", title="to cycle", format="count", moves="cycles"),
    Column(key="readers", title="read by", format="layer"),
    Column(key="group", title="group", hint="layers that results on the chip connect"),
)


@dataclass(frozen=True, kw_only=True)
class _Stays:
    """A result that stays on the chip."""

    layer: CountedLayer
    offset: int
    end_cycle: int
    readers: tuple[str, ...]


def scratchpads(trace: Trace, index: int = -1) -> Specification:
    """A picture for each scratchpad, and a row for each result that stays."""
    run = counted_of(trace)
    stays = list(_stays(trace, run))
    groups = _numbers(run)
    table = TableSpec(
        title="results that stay on the chip",
        columns=COLUMNS,
        rows=tuple(_row(one, groups) for one in stays),
        max_rows=10_000,
    )
    home = next(
        (u.scratchpad for layer in run.layers for u in layer.uses if u.content == ACTIVATIONS), ""
    )
    charts = (
        _chart(pad, run, stays if pad.name == home else [], groups)
        for pad in run.scratchpads
        if pad.size_bytes
    )
    return Specification(
        title="Scratchpads", subtitle=_summary(stays, groups), parts=(*charts, table)
    )


def _summary(stays: Sequence[_Stays], groups: Mapping[str, int]) -> str:
    if not stays:
        return "Every result goes to global memory and comes back for each layer that reads it."
    size = sum(one.layer.kept_bytes for one in stays)
    return (
        f"{format_count(len(stays), 'result')} on the chip, {format_bytes(size)} altogether; "
        f"{format_count(len(set(groups.values())), 'group')} of several layers"
    )


def _stays(trace: Trace, run: CountedRun) -> Iterator[_Stays]:
    """In the order of the layers that make them."""
    layers = {layer.operation: layer for layer in run.layers}
    if not trace.snapshots:
        return
    graph = trace.snapshots[-1].graph
    after: dict[str, list[str]] = {}
    for edge in graph.edges:
        after.setdefault(edge.source, []).append(edge.target)
    places = {node.id: dict(node.attributes).get(ON_CHIP) for node in graph.nodes}
    for layer in run.layers:
        offset = places.get(layer.operation)
        if not layer.kept_bytes or offset is None:
            continue
        readers = tuple(dict.fromkeys(_readers(layer.operation, after, layers)))
        ends = [layers[reader].last_cycle for reader in readers]
        yield _Stays(
            layer=layer,
            offset=int(offset),
            end_cycle=max([layer.last_cycle, *ends]),
            readers=readers,
        )


def _readers(
    start: str, after: Mapping[str, Sequence[str]], layers: Mapping[str, CountedLayer]
) -> Iterator[str]:
    """The next layers: operations between move nothing."""
    seen, left = {start}, [start]
    while left:
        for there in after.get(left.pop(0), ()):
            if there in layers:
                yield there
            elif there not in seen:
                seen.add(there)
                left.append(there)


def _numbers(run: CountedRun) -> dict[str, int]:
    """By layer the number of its group, of those with several layers."""
    several = [members for members in run.groups if len(members) > 1]
    return {name: number for number, members in enumerate(several, 1) for name in members}


def _row(one: _Stays, groups: Mapping[str, int]) -> Row:
    return Row(
        operations=(one.layer.operation, *one.readers),
        cells={
            "layer": one.layer.operation,
            "bytes": one.layer.kept_bytes,
            "offset": one.offset,
            "start": one.layer.first_cycle,
            "end": one.end_cycle,
            "readers": ", ".join(one.readers),
            "group": groups.get(one.layer.operation),
        },
    )


def _chart(
    pad: ScratchpadRecord, run: CountedRun, stays: Sequence[_Stays], groups: Mapping[str, int]
) -> ChartSpec:
    """Bytes over cycles; groups above."""
    wide, bottom = RIGHT - LEFT, TOP + HEIGHT

    def x(cycle: float) -> float:
        return round(LEFT + wide * min(cycle, run.cycles) / max(run.cycles, 1), 1)

    def y(byte: float) -> float:
        return round(bottom - HEIGHT * byte / max(pad.size_bytes, 1), 1)

    def box(place: tuple[int, int, int, int], content: str, name: str, title: str) -> Rect:
        offset, size, start, end = place
        look = LOOKS.get(content, LOOKS[ACTIVATIONS]).name
        return Rect(
            x=x(start), width=max(x(end) - x(start), 1), y=y(offset + size),
            height=max(y(offset) - y(offset + size), 1), role=f"{look}-fill",
            stroke=f"{look}-edge", stroke_width=0.6, id=name, title=title,
        )  # fmt: skip

    marks: list[Mark] = [
        Line(points=((LEFT, bottom), (RIGHT, bottom)), role="border"),
        Line(points=((LEFT, y(pad.size_bytes)), (RIGHT, y(pad.size_bytes))), is_dashed=True),
        Label(x=LEFT - 8, y=y(pad.size_bytes) + 4, text=format_bytes(pad.size_bytes), anchor="end"),
        Label(x=LEFT - 8, y=bottom + 4, text="0", anchor="end"),
        Label(x=LEFT, y=bottom + 18, text="cycle 0"),
        Label(x=RIGHT, y=bottom + 18, text=format_exact(run.cycles), anchor="end"),
    ]
    used, seen = 0, dict.fromkeys(["result"] if stays else [])
    for one in stays:
        place = one.offset, one.layer.kept_bytes, one.layer.first_cycle, one.end_cycle
        name = one.layer.operation
        title = (
            f"{name}: {format_bytes(one.layer.kept_bytes)} from byte {one.offset:,}, "
            f"cycle {place[2]:,} to {place[3]:,}, read by {', '.join(one.readers) or 'nobody'}"
        )
        marks.append(box(place, "result", name, title))
        used = max(used, one.offset + one.layer.kept_bytes)
    for layer in run.layers:
        for (content, offset, size), (start, end) in _buffers(layer, pad.name).items():
            seen.setdefault(content)
            title = (
                f"{layer.operation}, {content.replace('_', ' ')}: {format_bytes(size)} from byte "
                f"{offset:,}, cycle {start:,} to {end:,}"
            )
            marks.append(box((offset, size, start, end), content, layer.operation, title))
            used = max(used, offset + size)
    marks += _brackets(run, groups, x) if stays else []
    legend = tuple((LOOKS[one], _words(one)) for one in seen if one in LOOKS)
    return ChartSpec(
        title=f"{pad.name} over time",
        width=RIGHT + 16,
        height=bottom + 28,
        marks=tuple(marks),
        legend=legend,
        lines=(f"{format_bytes(used)} of {format_bytes(pad.size_bytes)} are used",),
        moves="traffic_bytes",
    )


def _words(content: str) -> str:
    return "a result that stays" if content == "result" else content.replace("_", " ")


def _buffers(layer: CountedLayer, pad: str) -> dict[tuple[str, int, int], tuple[int, int]]:
    """Of each buffer of a layer from its first use to its last one, however often it is filled."""
    found: dict[tuple[str, int, int], tuple[int, int]] = {}
    for use in layer.uses:
        if use.scratchpad == pad:
            key = use.content, use.offset_bytes, use.size_bytes
            start, end = found.get(key, (use.start_cycle, use.end_cycle))
            found[key] = min(start, use.start_cycle), max(end, use.end_cycle)
    return found


def _brackets(
    run: CountedRun, groups: Mapping[str, int], x: Callable[[float], float]
) -> Iterator[Mark]:
    """A line above the layers of each group."""
    for number in sorted(set(groups.values())):
        own = [layer for layer in run.layers if groups.get(layer.operation) == number]
        if not own:
            continue
        start, end = x(own[0].first_cycle), x(own[-1].last_cycle)
        yield Line(points=((start, TOP - 8), (end, TOP - 8)), role="accent", width=2)
        yield Label(x=start, y=TOP - 13, text=f"group {number}: {len(own)} layers")


VIEW = View(
    name="scratchpads",
    title="what lies in the scratchpads during the whole program, and groups of layers",
    needs=("profile", "counted"),
    specification=scratchpads,
    pane=Pane(key="S", is_optional=True, moves="traffic_bytes"),
)

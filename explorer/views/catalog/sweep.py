"""A search of machines: what each variant takes, and the front that none is better than.

  machine                     cycles    time  array used  traffic  scratchpads  multipliers  energy
★ rows=16 size_bytes=65536   131,072  262 µs        41 %  512 KiB       96 KiB          256   12 µJ

The picture has time to the right and scratchpad bytes upwards, or multipliers where scratchpads are
the same, both in logarithms; points of the front are joined.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from explorer.results import Trace
from explorer.results.decisions import TARGET
from explorer.results.sweep import PART, MachinePoint, MachineSweep
from explorer.views.fixed_numbers import MACHINES
from explorer.views.numbers import format_bytes, format_count, format_seconds
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
    Specification,
    TableSpec,
)
from explorer.views.theme import CHOSEN_SCHEDULE as FRONT
from explorer.views.theme import OTHER_SCHEDULE as OTHER
from explorer.views.view import Pane, View

LEFT, RIGHT, TOP, BOTTOM = 84.0, 560.0, 14.0, 300.0
SKIPPED = (
    Column(key="machine", title="machine", format="name"),
    Column(key="reason", title="skipped because"),
)


def opened(trace: Trace, index: int = -1) -> Specification:
    """Of a trace with a sweep: each machine is opened as a fork."""
    return sweep(_sweep_of(trace), has_actions=True)


def _sweep_of(trace: Trace) -> MachineSweep:
    found = trace.part(PART, MachineSweep)
    assert found is not None, "the view needs it"
    return found


def sweep(found: MachineSweep, has_actions: bool = False) -> Specification:
    """A row for each machine, those of the front first."""
    front = set(found.front)
    order = sorted(range(len(found.points)), key=lambda i: (i not in front, _time(found.points[i])))
    table = TableSpec(
        title="machines",
        columns=(
            Column(key="front", title="", hint="no other machine is better"),
            Column(key="machine", title="machine", format="name"),
            Column(key="cycles", title="cycles", format="count"),
            Column(key="seconds", title="time", format="seconds", hint="cycles at its clock"),
            Column(
                key="array",
                title="array used",
                format="percent",
                hint="multiply-accumulates over what the array could have done",
            ),
            Column(key="traffic", title="traffic", format="bytes"),
            Column(key="scratchpads", title="scratchpads", format="bytes"),
            Column(key="multipliers", title="multipliers", format="count"),
            Column(key="energy", title="energy", format="picojoules"),
            Column(key="elsewhere", title="elsewhere", format="count", hint="operations in C"),
        ),
        rows=tuple(_row(found, i, i in front, has_actions) for i in order),
    )
    pictures = (_chart(found, front),) if len(found.points) > 1 else ()
    parts: list[Part] = [Beside(parts=(*pictures, table)) if has_actions else table]
    parts += () if has_actions else pictures
    if found.skipped:
        rows = tuple(
            Row(cells={"machine": _label(point.fields), "reason": point.reason})
            for point in found.skipped
        )
        parts.append(TableSpec(title="skipped machines", columns=SKIPPED, rows=rows))
    return Specification(
        title=f"{', '.join(found.models)} on variants of {found.base}",
        subtitle=f"{format_count(len(found.points), 'machine')}, {len(front)} of them on the front",
        parts=tuple(parts),
    )


def _label(fields: Sequence[tuple[str, int | float | str]]) -> str:
    """Fields by the last parts of their paths, which differ."""
    return " ".join(f"{path.split('.', 1)[-1]}={value}" for path, value in fields)


def _row(found: MachineSweep, place: int, is_front: bool, has_actions: bool) -> Row:
    point = found.points[place]
    return Row(
        id=f"machine {place}" if has_actions else "",
        action=_action(found, point) if has_actions else None,
        cells={
            "front": Cell(value=is_front, text=" ", look=FRONT) if is_front else None,
            "machine": _label(point.fields),
            "cycles": point.cycles,
            "seconds": point.seconds,
            "array": point.utilization,
            "traffic": point.traffic_bytes,
            "scratchpads": point.scratchpad_bytes,
            "multipliers": point.mac_units,
            "energy": point.energy_picojoules,
            "elsewhere": point.elsewhere or None,
        },
        is_quiet=not is_front,
    )


def _action(found: MachineSweep, point: MachinePoint) -> Action:
    """A fork for the machine, without fields of the target that was forked before."""
    base, fields = found.machine_of(point.fields)
    decisions = {f"{TARGET}/{path}": value for path, value in fields.items()}
    return Action(title="fork", decisions={TARGET: base, **decisions}, replaces=f"{TARGET}/")


def _chart(found: MachineSweep, front: set[int]) -> ChartSpec:
    x = _scale([_time(p) for p in found.points], LEFT, RIGHT)
    size_of, _, words = _size(found.points)
    y = _scale([size_of(p) for p in found.points], BOTTOM, TOP)
    marks: list[Mark] = [*_axes(found.points)]
    joined = sorted((_time(found.points[i]), i) for i in front)
    path = tuple((x(time), y(size_of(found.points[i]))) for time, i in joined)
    if len(path) > 1:
        marks.append(Line(points=path, role="accent", is_dashed=True))
    for i, point in enumerate(found.points):
        look = FRONT if i in front else OTHER
        marks.append(
            Dot(
                x=x(_time(point)),
                y=y(size_of(point)),
                fill=f"{look.name}-fill",
                stroke=f"{look.name}-edge",
                shape="diamond" if i in front else "circle",
                id=f"machine {i}",
                title=f"{_label(point.fields)}: {point.cycles:,} cycles, {_time_words(point)}",
            )
        )
    return ChartSpec(
        title=f"time to the right, {words} upwards; joined: the front",
        width=RIGHT + 40,
        height=BOTTOM + 34,
        marks=tuple(marks),
        legend=((FRONT, "no other is better"), (OTHER, "another one is better")),
    )


def _size(
    points: Sequence[MachinePoint],
) -> tuple[Callable[[MachinePoint], int], Callable[[int], str], str]:
    """What machines differ by in size, how it is written, and its name: bytes of scratchpads, or
    multipliers where these are the same for all."""
    if len({point.scratchpad_bytes for point in points}) > 1:
        return lambda point: point.scratchpad_bytes, format_bytes, "bytes of scratchpads"
    return lambda point: point.mac_units, lambda units: f"{units:,} MACs", "multipliers"


def _time(point: MachinePoint) -> int:
    """Nanoseconds, or cycles where the machine states no clock."""
    return point.cycles if point.seconds is None else round(point.seconds * 1e9)


def _time_words(point: MachinePoint) -> str:
    if point.seconds is None:
        return f"{point.cycles:,} cycles"
    return format_seconds(point.seconds)


def _scale(values: Sequence[int], start: float, end: float) -> Callable[[int], float]:
    low, high = math.log(max(min(values), 1)), math.log(max(*values, 2))
    width = high - low or 1.0
    return lambda value: round(start + (end - start) * (math.log(max(value, 1)) - low) / width, 1)


def _axes(points: Sequence[MachinePoint]) -> Iterator[Mark]:
    first, last = min(points, key=_time), max(points, key=_time)
    size_of, text_of, _ = _size(points)
    sizes = [size_of(p) for p in points]
    yield Line(points=((LEFT, BOTTOM), (RIGHT, BOTTOM)))
    yield Line(points=((LEFT, TOP), (LEFT, BOTTOM)))
    yield Label(x=LEFT, y=BOTTOM + 18, text=_time_words(first))
    yield Label(x=RIGHT, y=BOTTOM + 18, text=_time_words(last), anchor="end")
    yield Label(x=LEFT - 6, y=BOTTOM, text=text_of(min(sizes)), anchor="end")
    yield Label(x=LEFT - 6, y=TOP + 8, text=text_of(max(sizes)), anchor="end")


VIEW = View(
    name="sweep",
    title="variants of the machine, and those that none is better than",
    needs=(PART,),
    specification=opened,
    json=lambda trace, _: _sweep_of(trace),
    pane=Pane(moves=MACHINES, key="W", is_optional=True),
)

"""Kernels by arithmetic intensity and speed, under the lines that the device cannot pass.

measured peaks of Invented CPU with AVX2, 2 threads
  kernel    time    share  GFLOP/s  FLOP/byte  of its roof  bound by
  conv_1  35.1 µs    30 %     33.6        6.8         37 %  memory

Lines are its multiply-adds, its memory (Williams, Waterman, Patterson, "Roofline", CACM 52(4),
2009), and each level of its caches (Ilic, Pratas, Sousa, "Cache-aware Roofline Model", IEEE CAL
13(1), 2014). Of a machine whose cycles are counted layers stand in the place of kernels, and peaks
follow from its target file.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from explorer.results import Trace
from explorer.results.runs.counted import CountedRun
from explorer.results.runs.events import ProfileRecord
from explorer.views.numbers import format_amount, format_count, format_nanoseconds, format_percent
from explorer.views.parts.markup import shorten
from explorer.views.specification import (
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
    Text,
)
from explorer.views.theme import family
from explorer.views.view import Pane, View

MAX_POINTS = 400
WIDTH, HEIGHT = 760.0, 210.0
LEFT, RIGHT, TOP, BOTTOM = 56.0, WIDTH - 16, 20.0, HEIGHT - 30
LETTER, LINE = 6.2, 13.0
"""Width of a letter of a label and its height."""
LAYER_CHARACTERS = 12
"""Room for a layer's name in the file, of which the page shows the end."""
Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A kernel, or a layer of a machine that counts cycles."""

    name: str
    operations: tuple[str, ...]
    time: float
    """Nanoseconds, or cycles."""
    work: int
    """Floating-point operations, or multiply-accumulates."""
    bytes: int
    roof: float
    """Work per unit of time that it could reach at most; 0 where nobody knows."""
    bound: str
    details: str

    @property
    def intensity(self) -> float:
        return self.work / self.bytes

    @property
    def speed(self) -> float:
        return self.work / self.time


@dataclass(frozen=True, kw_only=True)
class Roofs:
    """What is placed, and below which lines."""

    noun: str
    facts: str
    entries: Sequence[Entry]
    idle: str
    """What keeps one of them away."""
    peak: float
    peak_text: str
    levels: tuple[tuple[str, float, str], ...]
    """Name, work per unit of time for each unit of intensity, and its label."""
    unit: str
    per: str
    """Of intensity."""
    has_own_roofs: bool
    notes: tuple[str, ...]

    def time(self, value: float) -> str:
        return (
            format_count(int(value), "cycle") if self.has_own_roofs else format_nanoseconds(value)
        )


def roofline(trace: Trace, index: int = -1) -> Specification:
    """The chart, and a row for every kernel or layer, the longest first."""
    profile = trace.profile
    assert profile is not None, "the view needs it"
    found = _measured(profile) if profile.counted is None else _counted(profile.counted)
    total = sum(entry.time for entry in found.entries)
    timed = [entry for entry in found.entries if entry.time]
    placed = [entry for entry in timed if entry.work and entry.bytes]
    placed.sort(key=lambda entry: -entry.time)
    if not placed:
        nothing = f"No {found.noun} of this program does arithmetic that was counted."
        return Specification(title="Roofline", parts=(Text(text=nothing),))
    points = placed[:MAX_POINTS]
    notes = list(found.notes)
    if idle := len(timed) - len(placed):
        notes.insert(0, f"{format_count(idle, found.noun)} {found.idle} not shown")
    if more := len(placed) - len(points):
        notes.append(f"{format_count(more, f'more {found.noun}')} with less time not shown")
    nodes = trace.snapshots[-1].graph.nodes if trace.snapshots else ()
    families = {node.id: node.family for node in nodes}
    parts: tuple[Part, ...] = (
        Beside(
            parts=(
                _chart(found, points, total, families),
                _table(found, points, total),
            )
        ),
        *(Text(text=note) for note in notes),
    )
    return Specification(title="Roofline", subtitle=found.facts, parts=parts)


def _measured(profile: ProfileRecord) -> Roofs:
    """Kernels by their measured times; the line of each is that of the nearest level that holds
    what one launch reads and writes."""
    peak = profile.peak_gflops
    caches = [(c.name, float(c.size_bytes), c.gbytes_per_second) for c in profile.caches]
    memory = ("memory", math.inf, profile.peak_gbytes_per_second)
    levels = [level for level in (*caches, memory) if level[2]] if peak else []
    spent: dict[str, list[tuple[str, int, int, int]]] = {}
    for event in profile.events:
        launch = (event.operation, event.end_ns - event.start_ns, event.flops, event.bytes_moved)
        spent.setdefault(event.kernel, []).append(launch)
    entries = []
    for kernel, launches in spent.items():
        operations, times, flops, sizes = zip(*launches, strict=True)
        work, moved = sum(flops), sum(sizes)
        level = next((v for v in levels if moved / len(launches) <= v[1]), None)
        reach = work / moved * level[2] if level and moved else math.inf
        named = "" if level is None else level[0] if level[0] == "memory" else f"{level[0]} cache"
        entries.append(
            Entry(
                name=kernel,
                operations=operations,
                time=sum(times),
                work=work,
                bytes=moved,
                roof=min(peak, reach),
                bound="" if not peak else _cased(named) if reach < peak else "arithmetic",
                details=format_count(len(launches), "launch", "launches"),
            )
        )
    notes = []
    if any(e.time and e.roof and e.speed > 1.02 * e.roof for e in entries):
        nearer = "level" if profile.caches else "cache"
        notes.append(
            f"above its line: the data was in a nearer {nearer}, or the machine was busy when its "
            "peaks were measured"
        )
    if len(levels) > 1:
        notes.append("the line of a kernel is that of the nearest level that holds all its data")
    if not peak:
        notes.append(
            "The peaks of this device were not measured: c.profile(with_peaks=True) does it, "
            "explorer serve by itself."
        )
    peaks = f"measured peaks of {profile.device}, {format_count(profile.threads, 'thread')}"
    return Roofs(
        noun="kernel",
        facts=peaks if peak else profile.device,
        entries=entries,
        idle="without arithmetic",
        peak=peak,
        peak_text=f"multiply-adds {peak:.0f} GFLOP/s",
        levels=tuple((n, rate, f"{_cased(n)} {rate:.0f} GB/s") for n, _, rate in levels),
        unit="GFLOP/s",
        per="FLOP per byte",
        has_own_roofs=False,
        notes=tuple(notes),
    )


def _cased(name: str) -> str:
    return name if name == "memory" else name.replace("l", "L", 1)


def _counted(run: CountedRun) -> Roofs:
    """Layers by their cycles."""
    peak = run.peak_macs_per_cycle
    entries = []
    for layer in run.layers:
        possible = max(peak * layer.cycles, 1)
        padding = layer.array_macs - layer.macs
        words = f"{format_percent(layer.macs / possible)} of the array is used"
        words += f", {format_percent(padding / possible)} for padding" if padding > 0 else ""
        entries.append(
            Entry(
                name=layer.operation,
                operations=(layer.operation,),
                time=layer.cycles,
                work=layer.macs,
                bytes=layer.bytes,
                roof=layer.macs / layer.least_cycles if layer.least_cycles else 0.0,
                bound="the array" if layer.bound == "matrix engine" else layer.bound,
                details=words,
            )
        )
    levels = []
    for memory in run.memories:
        channels = f" on {memory.channels} channels" if memory.channels > 1 else ""
        text = f"{memory.memory} {_short(memory.bytes_per_cycle)} B/cycle{channels}"
        levels.append((memory.memory, memory.bytes_per_cycle, text))
    return Roofs(
        noun="layer",
        facts="peaks by the target's file, in cycles",
        entries=entries,
        idle="without multiply-accumulates",
        peak=peak,
        peak_text=f"array {_short(peak)} MAC/cycle",
        levels=tuple(levels),
        unit="MAC/cycle",
        per="MAC per byte",
        has_own_roofs=True,
        notes=(
            "the tick above a layer is its roof: its multiply-accumulates, or its bytes of all "
            "memories together, at the peaks of the target file",
            f"{format_percent(run.utilization)} of the array is used in all, padding included",
        ),
    )


def _short(value: float) -> str:
    return format_amount(value) if value >= 100 else f"{value:.3g}"


def _table(found: Roofs, points: Sequence[Entry], total: float) -> TableSpec:
    columns = (
        Column(key="name", title=found.noun, format="layer" if found.noun == "layer" else "name"),
        Column(key="of_roof", title="of its roof", format="percent", moves="seconds"),
        Column(key="bound", title="bound by"),
        Column(key="speed", title=found.unit, format="decimal", moves="seconds"),
        Column(
            key="intensity",
            title=found.per,
            format="decimal",
            hint="arithmetic intensity",
            moves="seconds",
        ),
        Column(key="time", title="time", format="count", moves="seconds"),
        Column(key="share", title="share", format="percent", moves="seconds"),
    )
    rows = tuple(
        Row(
            operations=entry.operations,
            cells={
                "name": entry.name,
                "of_roof": entry.speed / entry.roof if entry.roof else None,
                "bound": entry.bound,
                "speed": Cell(value=entry.speed, text=_short(entry.speed)),
                "intensity": Cell(value=entry.intensity, text=_short(entry.intensity)),
                "time": Cell(value=entry.time, text=found.time(entry.time), exact=entry.details),
                "share": entry.time / total,
            },
        )
        for entry in points
    )
    return TableSpec(title=f"{found.noun}s below their roofs", columns=columns, rows=rows)


# -- the chart -------------------------------------------------------------------------------------


def _chart(
    found: Roofs, points: Sequence[Entry], total: float, families: Mapping[str, str]
) -> ChartSpec:
    peak = found.peak
    ridges = [peak / rate for _, rate, _ in found.levels]
    low_x, high_x = _ends([*(e.intensity for e in points), *ridges])
    low_y, high_y = _ends([*(e.speed for e in points), *([peak] if peak else [])])

    def x(value: float) -> float:
        return LEFT + (RIGHT - LEFT) * math.log10(value / low_x) / math.log10(high_x / low_x)

    def y(value: float) -> float:
        return BOTTOM - (BOTTOM - TOP) * math.log10(value / low_y) / math.log10(high_y / low_y)

    marks = [
        Label(x=RIGHT, y=HEIGHT - 2, text=f"{found.per}: arithmetic intensity →", anchor="end"),
        Label(x=4, y=12, text=f"{found.unit} ↑"),
    ]
    lines: list[Mark] = []
    for tick in _powers(low_y, high_y):
        lines.append(
            Line(points=((LEFT, y(tick)), (RIGHT, y(tick))), role="border", is_dashed=True)
        )
        marks.append(Label(x=LEFT - 6, y=y(tick) + 4, text=_plain(tick), anchor="end", size=11))
    for tick in _powers(low_x, high_x):
        lines.append(
            Line(points=((x(tick), TOP), (x(tick), BOTTOM)), role="border", is_dashed=True)
        )
        marks.append(Label(x=x(tick), y=BOTTOM + 13, text=_plain(tick), anchor="middle", size=11))
    longest = max(entry.time for entry in points)
    dots = [
        (entry, x(entry.intensity), y(entry.speed), 4 + 8 * math.sqrt(entry.time / longest))
        for entry in points
    ]
    taken: list[Box] = [(at - r, up - r, at + r, up + r) for _, at, up, r in dots]
    if peak:
        start = max(min(ridges, default=low_x), low_x)
        ends = ((x(start), y(peak)), (RIGHT, y(peak)))
        lines.append(Line(points=ends, role="text", width=1.75))
        marks.append(
            Label(
                x=RIGHT - 4, y=y(peak) - 5, text=found.peak_text, anchor="end", role="text", size=11
            )
        )
        half = LETTER * len(found.peak_text) * 1.1
        taken.append((RIGHT - half, y(peak) - 16, RIGHT, y(peak)))
    for ridge, (name, rate, text) in zip(ridges, found.levels, strict=True):
        begin = max(low_x, low_y / rate)
        near, far = (x(begin), y(begin * rate)), (x(ridge), y(peak))
        is_cache = name != "memory" and not found.has_own_roofs
        width = 1 if is_cache else 1.75
        lines.append(Line(points=(near, far), role="text", width=width, is_dashed=is_cache))
        marks.append(_level_label(text, near, far, taken))
    if found.has_own_roofs:
        for entry, at, up, _ in dots:
            top = y(entry.roof)
            lines.append(Line(points=((at, up), (at, top)), role="quiet", is_dashed=True))
            lines.append(Line(points=((at - 6, top), (at + 6, top)), role="text", width=2))
    circles = [
        Dot(
            x=at,
            y=up,
            radius=round(radius, 1),
            fill=f"{look.name}-fill" if look.name else "raised",
            stroke=f"{look.name}-edge" if look.name else "line",
            id=entry.operations[0],
            title=_about(found, entry, total),
        )
        for entry, at, up, radius in reversed(dots)
        for look in (family(families.get(entry.operations[0], "transfer")),)
    ]
    return ChartSpec(
        title=f"{found.noun}s by arithmetic intensity and speed, both logarithmic",
        width=WIDTH,
        height=HEIGHT,
        marks=(*lines, *circles, *marks, *_names(found, dots, taken)),
    )


def _about(found: Roofs, entry: Entry, total: float) -> str:
    roof = ""
    if entry.roof:
        bound = f", bound by {entry.bound}" if entry.bound else ""
        roof = f"{format_percent(entry.speed / entry.roof)} of its roof{bound}; "
    return (
        f"{entry.name}: {_short(entry.speed)} {found.unit} at {_short(entry.intensity)} "
        f"{found.per}; {roof}{found.time(entry.time)}, {format_percent(entry.time / total)} of "
        f"all, {entry.details}"
    )


def _ends(values: Sequence[float]) -> tuple[float, float]:
    """Whole powers of ten around them."""
    low, high = min(values) * 0.8, max(values) * 1.25
    return 10.0 ** math.floor(math.log10(low)), 10.0 ** math.ceil(math.log10(high))


def _powers(low: float, high: float) -> list[float]:
    return [low * 10.0**i for i in range(round(math.log10(high / low)) + 1)]


def _plain(value: float) -> str:
    return format_amount(value) if value >= 1 else f"{value:.1g}"


def _is_free(box: Box, taken: Sequence[Box]) -> bool:
    return all(
        box[2] < left or box[0] > right or box[3] < top or box[1] > bottom
        for left, top, right, bottom in taken
    )


def _level_label(
    text: str, near: tuple[float, float], far: tuple[float, float], taken: list[Box]
) -> Label:
    """Along its line, where nothing stands yet: its own box is added to `taken`."""
    wide, high = far[0] - near[0], far[1] - near[1]
    angle = math.atan2(high, wide)
    half = LETTER * len(text) / 2
    reach = half * math.cos(angle) + 4, abs(half * math.sin(angle)) + 7
    places: list[tuple[float, float, Box]] = []
    for share in (0.15, 0.3, 0.45, 0.6, 0.75, 0.9):
        x, y = near[0] + share * wide, near[1] + share * high - 5
        # The text stands on the line: it reaches up from there.
        cx, cy = x + 4 * math.sin(angle), y - 4
        box = cx - reach[0], cy - reach[1], cx + reach[0], cy + reach[1]
        places.append((x, y, box))
    free = (place for place in places if place[2][0] >= LEFT and _is_free(place[2], taken))
    x, y, box = next(free, places[0])
    taken.append(box)
    turn = round(math.degrees(angle), 1)
    return Label(x=x, y=y, text=text, anchor="middle", role="text", size=11, angle=turn)


def _names(
    found: Roofs, dots: Sequence[tuple[Entry, float, float, float]], taken: list[Box]
) -> Iterator[Label]:
    """Next to the points, the longest kernels first, where nothing stands yet: the others have
    theirs on hover."""
    half = LINE / 2
    for entry, x, y, r in dots:
        text = shorten(entry.name, 28)
        room = max(len(text), LAYER_CHARACTERS) if found.noun == "layer" else 0
        width = LETTER * max(len(text), room) * 1.1
        corners = (
            (x + r + 3, y - half),
            (x - r - 3 - width, y - half),
            (x - width / 2, y - r - 2 - LINE),
            (x - width / 2, y + r + 2),
        )
        for left, top in corners:
            box = left, top, left + width, top + LINE
            is_inside = box[0] >= LEFT and box[2] <= RIGHT and top >= TOP and box[3] <= BOTTOM
            if is_inside and _is_free(box, taken):
                taken.append(box)
                yield Label(x=left, y=top + 10, text=text, size=11, layer_characters=room)
                break


VIEW = View(
    name="roofline",
    title="how near every kernel comes to what the device can do",
    needs=("profile",),
    specification=roofline,
    pane=Pane(moves="seconds", key="r"),
)

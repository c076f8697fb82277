"""When every kernel runs; outside of the page where the time of one inference goes.

122 µs on Invented CPU with AVX2, 2 threads (median of 20 runs)
  conv_1   35.1 µs  29 %  ██████████  33.6 GFLOP/s

On a machine whose cycles are counted:

15,606 cycles on simulator of vta-16
  queue    busy            waited
  load     5,012   32 %    9,876, most of all for token
  layer    from      to   cycles
  conv10      0   1,823    1,823  ████
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from explorer.results import Trace
from explorer.results.runs.events import ProfileRecord, TimedEvent
from explorer.views.numbers import (
    format_amount,
    format_count,
    format_milliseconds,
    format_nanoseconds,
)
from explorer.views.parts.svg import fit
from explorer.views.predicted_parts import (
    lanes_with_predicted,
    predicted_name,
    predicted_spans,
)
from explorer.views.specification import (
    Cell,
    ChartSpec,
    Column,
    Label,
    Line,
    Mark,
    Part,
    Rect,
    Row,
    Specification,
    TableSpec,
    Text,
)
from explorer.views.theme import UNKNOWN_FAMILY, Look, family
from explorer.views.view import JAVASCRIPT, Pane, View

LEFT, RIGHT, TOP, LANE = 100.0, 720.0, 28.0, 26.0
"""Of the picture of lanes: where time begins and ends, and the height of a lane."""
MAX_LAUNCHES, MAX_LAYERS = 24, 40
"""Rows of a table; of more, the slowest are shown."""
LAUNCHES = (
    Column(key="launch", title="launch", format="layer"),
    Column(key="time", title="time", format="nanoseconds", moves="seconds"),
    Column(key="share", title="share", format="percent", moves="seconds"),
    Column(key="speed", title="speed", format="amount", moves="seconds"),
    Column(key="of_peak", title="of peak", format="percent", moves="seconds"),
)
QUEUES = (
    Column(key="queue", title="queue", format="name"),
    Column(key="busy", title="busy", format="count", moves="cycles"),
    Column(key="share", title="", format="percent", moves="cycles"),
    Column(key="waited", title="waited"),
)
LAYERS = (
    Column(key="layer", title="layer", format="layer"),
    Column(key="start", title="from", format="count", moves="cycles"),
    Column(key="end", title="to", format="count", moves="cycles"),
    Column(key="cycles", title="cycles", format="count", moves="cycles"),
)


def timeline(trace: Trace, index: int = -1) -> Specification:
    """The profile of a trace, with the family of every operation."""
    assert trace.profile is not None, "the view needs it"
    nodes = trace.snapshots[-1].graph.nodes if trace.snapshots else ()
    return profile(trace.profile, {node.id: node.family for node in nodes})


def profile(record: ProfileRecord, families: Mapping[str, str] | None = None) -> Specification:
    """A bar per launch in the order of execution, or per layer where cycles are counted.

    families: of operations by identity, for their glyphs.
    """
    counted = [event for event in record.events if event.cycles]
    if counted:
        total = max(event.end_cycle for event in counted)
        summary = f"{format_count(total, 'cycle')} on {record.device}"
        parts = (_queues(counted, total), *_layers(counted))
    else:
        summary = (
            f"{format_milliseconds(record.milliseconds)} on {record.device}, "
            f"{format_count(record.threads, 'thread')} "
            f"(median of {format_count(record.repeats, 'run')})"
        )
        parts = _launches(record, families or {})
    return Specification(title="Profile", subtitle=summary, parts=parts)


def _launches(record: ProfileRecord, families: Mapping[str, str]) -> tuple[Part, ...]:
    events = record.events
    slowest = sorted(events, key=lambda e: e.start_ns - e.end_ns)
    chosen = sorted(slowest[:MAX_LAUNCHES], key=lambda e: e.start_ns)
    total = sum(e.end_ns - e.start_ns for e in events) or 1
    longest = max((e.end_ns - e.start_ns for e in chosen), default=0) or 1
    rows = []
    for event in chosen:
        time = event.end_ns - event.start_ns
        look = family(families.get(event.operation, "")) if families else None
        speed, of_peak = _rate(event, record)
        cells = {
            "launch": Cell(value=event.name, look=look),
            "time": time,
            "share": Cell(value=time / total, share=time / longest),
            "speed": Cell(value=None, text=speed),
            "of_peak": of_peak,
        }
        rows.append(Row(cells=cells))
    parts: list[Part] = [TableSpec(title="launches", columns=LAUNCHES, rows=tuple(rows))]
    if others := slowest[MAX_LAUNCHES:]:
        rest = format_nanoseconds(sum(e.end_ns - e.start_ns for e in others))
        count = format_count(len(others), "more event")
        parts.append(Text(text=f"and {count} of {rest} together: profile.events"))
    return tuple(parts)


def _rate(event: TimedEvent, record: ProfileRecord) -> tuple[str, float | None]:
    """Arithmetic where there is some, else traffic; and its share of the measured peak."""
    amount, unit, peak = event.flops, "FLOP/s", record.peak_gflops
    if not amount:
        amount, unit, peak = event.bytes_moved, "B/s", record.bandwidth_for(event.bytes_moved)
    if not amount:
        return "", None
    time = event.end_ns - event.start_ns
    billions = amount / time if time > 0 else 0.0  # FLOP per nanosecond is GFLOP per second
    return f"{format_amount(billions * 1e9)}{unit}", billions / peak if peak > 0 else None


def _queues(events: Sequence[TimedEvent], total: int) -> TableSpec:
    """What every queue did, and what it waited for."""
    busy: Counter[str] = Counter()
    waits: dict[str, Counter[str]] = {}
    for event in events:
        busy[event.lane] += event.cycles
        waits.setdefault(event.lane, Counter())[event.cause] += event.waited_cycles
    rows = []
    for lane, cycles in busy.items():
        waited = sum(waits[lane].values())
        (cause, _), *_ = waits[lane].most_common(1)
        words = f"{waited:,}, most of all for {cause}" if waited else "0"
        cells = {"queue": lane, "busy": cycles, "share": cycles / total, "waited": words}
        rows.append(Row(cells=cells))
    return TableSpec(title="queues", columns=QUEUES, rows=tuple(rows))


def _layers(events: Sequence[TimedEvent]) -> tuple[Part, ...]:
    """In the order in which they run; of many the longest."""
    spans: dict[str, tuple[int, int]] = {}
    for event in events:
        first, last = spans.get(event.operation, (event.start_cycle, event.end_cycle))
        spans[event.operation] = min(first, event.start_cycle), max(last, event.end_cycle)
    longest = max(end - start for start, end in spans.values()) or 1
    chosen = sorted(spans, key=lambda name: spans[name][0] - spans[name][1])[:MAX_LAYERS]
    rows = tuple(
        Row(
            cells={
                "layer": name,
                "start": start,
                "end": end,
                "cycles": Cell(value=end - start, share=(end - start) / longest),
            }
        )
        for name, (start, end) in spans.items()
        if name in chosen
    )
    table = TableSpec(title="layers", columns=LAYERS, rows=rows)
    rest = len(spans) - len(rows)
    return (table, Text(text=f"and {format_count(rest, 'more layer')}")) if rest else (table,)


def _payload(trace: Trace):
    from explorer.views.payload.tracks import timeline_payload

    return timeline_payload(trace)


def lanes(trace: Trace, index: int = -1) -> Specification:
    """A row for each queue, thread or engine, and a bar for each event; time goes to the right.

    What a placement predicted of a device lies above what was measured of it.
    """
    assert trace.profile is not None, "the view needs it"
    events = trace.profile.events
    counted = any(event.cycles for event in events)
    spans = [(e.start_cycle, e.end_cycle) if counted else (e.start_ns, e.end_ns) for e in events]
    predicted = () if counted else predicted_spans(trace)
    end = max([last for _, last in spans] + [span.end_ns for span in predicted], default=0) or 1
    names = lanes_with_predicted(list(dict.fromkeys(event.lane for event in events)), predicted)
    nodes = trace.snapshots[-1].graph.nodes if trace.snapshots else ()
    families = {node.id: family(node.family) for node in nodes}
    height = TOP + LANE * len(names)
    marks: list[Mark] = []
    for share in range(5):
        x = LEFT + (RIGHT - LEFT) * share / 4
        text = f"{end * share // 4:,}" if counted else format_nanoseconds(end * share / 4)
        anchor = "end" if share == 4 else "middle" if share else "start"
        marks.append(Line(points=((x, TOP - 6), (x, height))))
        marks.append(Label(x=x, y=TOP - 10, text=text, anchor=anchor))
    for row, name in enumerate(names):
        y = TOP + LANE * row + LANE / 2 + 4
        marks.append(Label(x=LEFT - 8, y=y, text=name, anchor="end", role="text"))
    for span in predicted:
        x = LEFT + (RIGHT - LEFT) * span.start_ns / end
        width = (RIGHT - LEFT) * (span.end_ns - span.start_ns) / end
        y = TOP + LANE * names.index(predicted_name(span.device)) + 3
        marks.append(_bar(x, y, width, span.name, "quiet", "quiet"))
        marks += _word(x, y, width, span.name)
    seen: dict[str, Look] = {}
    for event, (first, last) in zip(events, spans, strict=True):
        look = families.get(event.operation, UNKNOWN_FAMILY)
        seen.setdefault(look.name, look)
        x, width = LEFT + (RIGHT - LEFT) * first / end, (RIGHT - LEFT) * (last - first) / end
        y = TOP + LANE * names.index(event.lane) + 3
        fill = f"{look.name}-fill" if look.name else "quiet"
        edge = f"{look.name}-edge" if look.name else "quiet"
        marks.append(_bar(x, y, width, "", fill, edge))
        marks += _word(x, y, width, event.name)
    unit = "cycles" if counted else "time"
    chart = ChartSpec(
        title=f"events by lane, {unit} to the right",
        width=RIGHT + 12,
        height=height + 6,
        marks=tuple(marks),
        legend=tuple((look, look.title) for look in seen.values() if look.name),
    )
    return Specification(title="Timeline", parts=(chart,))


def _bar(x: float, y: float, width: float, title: str, role: str, edge: str) -> Rect:
    wide, high = max(width, 0.5), LANE - 6
    return Rect(x=x, y=y, width=wide, height=high, role=role, stroke=edge, title=title)


def _word(x: float, y: float, width: float, name: str) -> list[Mark]:
    """The name in a bar, as far as it fits."""
    text = fit(name, width - 6, 11)
    return [Label(x=x + 3, y=y + 13, text=text, size=11, role="text")] if text else []


VIEW = View(
    name="timeline",
    title="when every kernel runs",
    needs=("profile",),
    specification=timeline,
    json=lambda trace, _: trace.profile,
    drawing=lanes,
    payload=_payload,
    pane=Pane(
        moves="seconds",
        module=JAVASCRIPT / "time" / "timeline.js",
        function="timelineView",
        key="t",
        redraws=("bars",),
        is_drawn_of_payload=True,
    ),
)

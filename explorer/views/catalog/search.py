"""A search for schedules: what was tried for each kernel, predicted against measured.

    16 candidates of 2 kernels in 61 s on AMD EPYC, 1 thread
      conv_1   48.0 µs  41.2 µs   1.17 x   tuned: 41.2 µs against 48.0

Every dot is a candidate that was measured: to the right the predicted time, upwards the measured
one, both in logarithms. On the diagonal the cost model is right; what matters for choosing is
that dots which lie lower also lie further left.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from explorer.results.runs.tuning import Candidate, CostEstimate, KernelSearch, SearchResult
from explorer.views.numbers import format_count, format_nanoseconds, format_percent, format_seconds
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
    Part,
    Row,
    Specification,
    TableSpec,
    Text,
)
from explorer.views.theme import CHOSEN_SCHEDULE as CHOSEN
from explorer.views.theme import DEFAULT_SCHEDULE as DEFAULT
from explorer.views.theme import OTHER_SCHEDULE as OTHER

SIDE = 250.0
"""Of the square in which dots lie, in pixels."""
LEFT, BOTTOM, TOP, RIGHT = 64.0, 26.0, 12.0, 24.0
MAX_DRAWN = 8
"""Kernels with a picture."""
MAX_CANDIDATES, MAX_DOTS = 12, 400
MAX_KERNELS = 60
KERNELS = (
    Column(key="kernel", title="kernel", format="name"),
    Column(key="default", title="default", format="nanoseconds"),
    Column(key="chosen", title="chosen", format="nanoseconds"),
    Column(key="gain", title="gain", format="decimal"),
    Column(key="why", title="why"),
)
CANDIDATES = (
    Column(key="number", title="candidate"),
    Column(key="predicted", title="predicted", format="nanoseconds"),
    Column(key="measured", title="measured", format="nanoseconds"),
    Column(key="ratio", title="ratio", format="decimal"),
    Column(key="confirmed", title="confirmed", format="nanoseconds"),
    Column(key="choices", title="choices", format="name"),
)
TERMS = (
    Column(key="term", title="term", format="name"),
    Column(key="time", title="time", format="nanoseconds"),
    Column(key="why", title="why"),
)


def search(result: SearchResult) -> Specification:
    """A row per kernel: the default's time, the chosen one's, and the reason."""
    count = sum(len(each.candidates) for each in result.kernels)
    kept = sum(each.chosen not in (-1, each.default) for each in result.kernels)
    rows = tuple(
        Row(
            title=f"{each.kernel}: {format_count(len(each.candidates), 'candidate')}",
            details=tuple(tried(each)),
            cells={
                "kernel": each.kernel,
                "default": _nanoseconds(_default_us(each)),
                "chosen": _nanoseconds(_chosen_us(each)),
                "gain": Cell(value=each.gain, text=f"{each.gain:.2f} x"),
                "why": each.why,
            },
        )
        for each in result.kernels
    )
    table = TableSpec(
        title="kernels",
        columns=KERNELS,
        rows=rows,
        max_rows=MAX_KERNELS,
        max_details=MAX_DRAWN,
        rest="result.kernels, and result[name] shows one",
    )
    return Specification(
        title="Search",
        subtitle=f"{format_count(count, 'candidate')} of {format_count(len(rows), 'kernel')} of "
        f"{result.model} in {format_seconds(result.seconds)}, {kept} tuned, "
        f"{format_count(result.threads, 'thread')}",
        parts=(table,),
    )


def kernel_search(found: KernelSearch) -> Specification:
    """Predicted against measured, and the fastest candidates with what they decide."""
    return Specification(
        title=found.kernel,
        subtitle=f"{found.kernel}: {format_count(len(found.candidates), 'candidate')} in "
        f"{format_seconds(found.seconds)}; {found.why}",
        parts=tuple(tried(found)),
    )


def search_payload(found: KernelSearch) -> dict[str, object]:
    """The reason for what was chosen, and parts that the page draws."""
    from explorer.views.renderers.page import parts_of

    return {"why": found.why, "parts": parts_of(tuple(tried(found)))}


def cost(estimate: CostEstimate) -> Specification:
    """The predicted time and its terms; the one that decides is named."""
    longest = max((term.microseconds for term in estimate.terms), default=0) or 1
    rows = tuple(
        Row(
            cells={
                "term": f"+ {term.name}" if term.is_added else term.name,
                "time": Cell(
                    value=term.microseconds * 1e3,
                    text=_time(term.microseconds),
                    share=term.microseconds / longest,
                ),
                "why": term.why,
            }
        )
        for term in estimate.terms
    )
    share = max((t.microseconds for t in estimate.terms if not t.is_added), default=0.0)
    part = format_percent(share / estimate.microseconds) if estimate.microseconds else "none"
    note = "Terms with + are added; of the others the longest counts: they go on at one time."
    return Specification(
        title=f"Cost of {estimate.kernel}",
        subtitle=f"{_time(estimate.microseconds)} predicted, {part} of it {estimate.bound}",
        parts=(TableSpec(title="terms", columns=TERMS, rows=rows), Text(text=note)),
    )


def tried(found: KernelSearch) -> Iterator[Part]:
    """The picture, the fastest candidates, and what is to say of the others."""
    chart = predicted_chart(found)
    yield chart or Text(text="The picture appears with the second time.")
    shown = sorted(
        list(enumerate(found.candidates))[:MAX_DOTS],
        key=lambda item: (item[1].ratio or math.inf, item[0]),
    )
    yield TableSpec(
        title="candidates, the fastest first",
        columns=CANDIDATES,
        rows=tuple(_candidate(found, number, candidate) for number, candidate in shown),
        max_rows=MAX_CANDIDATES,
        rest="search.candidates",
    )
    if math.isfinite(found.rank_correlation):
        words = f"rank correlation of predicted and measured: {found.rank_correlation:.2f}"
        yield Text(text=words)
    failed = [
        Text(text=f"{number} {candidate.status}: {shorten(candidate.reason, 160)}")
        for number, candidate in enumerate(found.candidates)
        if candidate.status in ("failed", "wrong", "hung")
    ]
    yield from failed[:MAX_CANDIDATES]
    more = len(found.candidates) - MAX_DOTS
    if more > 0:
        yield Text(text=f"{more:,} more are not drawn")


def _candidate(found: KernelSearch, number: int, candidate: Candidate) -> Row:
    words = [str(number)]
    words += ["chosen"] * (number == found.chosen) + ["default"] * (number == found.default)
    ratio = f"{candidate.ratio:.3f}" if candidate.ratio else candidate.status
    choices = " ".join(f"{name}={value}" for name, value in candidate.choices)
    head = f"schedule-loops/{found.kernel}/"
    decisions = {f"{head}{name}": value for name, value in candidate.choices}
    is_timed = candidate.status == "measured"
    act = Action(title="compile it", decisions=decisions, replaces=head) if is_timed else None
    return Row(
        id=f"candidate {number}" if is_timed else "",
        action=act,
        cells={
            "number": " ".join(words),
            "predicted": _nanoseconds(candidate.predicted_us),
            "measured": _nanoseconds(candidate.measured_us),
            "ratio": Cell(value=candidate.ratio, text=ratio),
            "confirmed": _nanoseconds(candidate.confirmed_us),
            "choices": Cell(
                value=choices, text=shorten(choices, 110), exact=f"{choices}; {candidate.origin}"
            ),
        },
    )


def predicted_chart(found: KernelSearch) -> ChartSpec | None:
    """Predicted against measured times; None where fewer than two candidates were measured."""
    dots = [
        (number, candidate)
        for number, candidate in enumerate(found.candidates[:MAX_DOTS])
        if candidate.status == "measured" and candidate.predicted_us > 0
    ]
    if len(dots) < 2:
        return None
    values = [v for _, c in dots for v in (c.predicted_us, c.measured_us)]
    low, high = min(values) / 1.15, max(values) * 1.15
    floor, right = TOP + SIDE, LEFT + SIDE

    def place(value: float) -> float:
        return SIDE * math.log(value / low) / math.log(high / low)

    frame = ((LEFT, TOP), (right, TOP), (right, floor), (LEFT, floor), (LEFT, TOP))
    marks: list[Mark] = [
        Line(points=frame, role="border"),
        Line(points=((LEFT, floor), (right, TOP)), is_dashed=True),
        Label(x=LEFT + 8, y=TOP + 16, text="↑ measured"),
        Label(x=right - 8, y=floor - 8, text="predicted →", anchor="end"),
    ]
    for tick in ticks(low, high):
        x, y = LEFT + place(tick), floor - place(tick)
        marks += [
            Line(points=((x, floor), (x, floor + 4))),
            Label(x=x, y=floor + 18, text=_time(tick), anchor="middle"),
            Line(points=((LEFT - 4, y), (LEFT, y))),
            Label(x=LEFT - 8, y=y + 4, text=_time(tick), anchor="end"),
        ]
    # The default and the chosen one last: they lie on top.
    order = sorted(dots, key=lambda d: (d[0] == found.default) + 2 * (d[0] == found.chosen))
    for number, candidate in order:
        x, y = LEFT + place(candidate.predicted_us), floor - place(candidate.measured_us)
        marks.append(_dot(x, y, found, number))
    return ChartSpec(
        title=f"predicted against measured times of {found.kernel}",
        width=right + RIGHT,
        height=floor + BOTTOM,
        marks=tuple(marks),
        legend=((DEFAULT, "the default"), (CHOSEN, "chosen"), (OTHER, "other candidates")),
    )


def _dot(x: float, y: float, found: KernelSearch, number: int) -> Dot:
    """Shape and colour both say what a dot is."""
    look, shape, radius = OTHER, "circle", 3.5
    if number == found.default:
        look, shape, radius = DEFAULT, "square", 6
    if number == found.chosen:
        look, shape, radius = CHOSEN, "diamond", 8
    candidate = found.candidates[number]
    choices = ", ".join(f"{name} = {value}" for name, value in candidate.choices)
    return Dot(
        x=x,
        y=y,
        radius=radius,
        shape=shape,
        fill=f"{look.name}-fill",
        stroke=f"{look.name}-edge",
        id=f"candidate {number}",
        title=f"candidate {number}: {choices}; predicted {_time(candidate.predicted_us)}, measured "
        f"{_time(candidate.measured_us)}",
    )


def ticks(low: float, high: float) -> list[float]:
    """Round numbers between two times, at most seven: 1, 2, 5 and their tenfolds."""
    found = []
    exponent = math.floor(math.log10(low))
    while 10.0**exponent <= high:
        found += [step * 10.0**exponent for step in (1, 2, 5)]
        exponent += 1
    inside = [tick for tick in found if low <= tick <= high]
    return inside[:: max(1, -(-len(inside) // 7))]


def _default_us(found: KernelSearch) -> float:
    """In turns with the chosen one, where there was a second measurement of it."""
    if found.chosen >= 0:
        chosen = found.candidates[found.chosen]
        if chosen.confirmed_default_us or chosen.default_us:
            return chosen.confirmed_default_us or chosen.default_us
    return found.candidates[found.default].measured_us if found.default >= 0 else 0.0


def _chosen_us(found: KernelSearch) -> float:
    if found.chosen < 0:
        return 0.0
    chosen = found.candidates[found.chosen]
    return chosen.confirmed_us or chosen.measured_us


def _nanoseconds(microseconds: float) -> float | None:
    """None of a time that was not measured."""
    return microseconds * 1e3 if microseconds and math.isfinite(microseconds) else None


def _time(microseconds: float) -> str:
    value = _nanoseconds(microseconds)
    return "–" if value is None else format_nanoseconds(value)

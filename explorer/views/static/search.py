"""A search for schedules: what was tried for each kernel, predicted against measured.

    16 candidates of 2 kernels in 61 s on AMD EPYC, 1 thread
      conv_1   48.0 µs -> 41.2 µs   1.17 times as fast   tuned: 41.2 µs against 48.0

Every dot is a candidate that was measured: to the right the predicted time, upwards the measured
one, both in logarithms. On the diagonal the cost model is right; what matters for choosing is
that dots which lie lower also lie further left.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from explorer.results.runs.tuning import Candidate, CostEstimate, KernelSearch, SearchResult
from explorer.views.numbers import format_count, format_nanoseconds, format_percent, format_seconds
from explorer.views.parts import plain as text_form
from explorer.views.parts import svg
from explorer.views.parts.markup import (
    bar,
    card,
    code,
    escape,
    fold,
    legend_of,
    note,
    picture,
    plain,
    section,
    shorten,
    table,
)
from explorer.views.theme import CHOSEN_SCHEDULE as CHOSEN
from explorer.views.theme import DEFAULT_SCHEDULE as DEFAULT
from explorer.views.theme import LIGHT
from explorer.views.theme import OTHER_SCHEDULE as OTHER

SIDE = 320.0
"""Of the square in which dots lie, in pixels."""
LEFT, BOTTOM, TOP, RIGHT = 64.0, 44.0, 12.0, 14.0
DRAWN_KERNELS = 8
LISTED_CANDIDATES = 12
LISTED_KERNELS = 60


def search_text(result: SearchResult) -> str:
    """One line per kernel: the default's time, the chosen one's, and the reason."""
    lines = [_summary(result)]
    rows = [
        (
            search.kernel,
            _time(_default_us(search)),
            "->",
            _time(_chosen_us(search)),
            f"{search.gain:.2f} x",
            search.why,
        )
        for search in result.kernels[:LISTED_KERNELS]
    ]
    lines += text_form.columns(rows, align="lrlrrl")
    hidden = len(result.kernels) - len(rows)
    if hidden > 0:
        lines.append(f"  and {format_count(hidden, 'more kernel')}: result.kernels")
    return "\n".join(lines)


def search_html(result: SearchResult) -> str:
    """A card with a row per kernel, and a picture of predicted against measured for each."""
    rows = [
        [
            code(search.kernel),
            escape(_time(_default_us(search))),
            escape(_time(_chosen_us(search))),
            escape(f"{search.gain:.2f} x"),
            escape(search.why),
        ]
        for search in result.kernels[:LISTED_KERNELS]
    ]
    body = table(rows, ("kernel", "default", "chosen", "gain", ""), "lrrrl")
    hidden = len(result.kernels) - len(rows)
    if hidden > 0:
        body += note(f"and {format_count(hidden, 'more kernel')}: result.kernels")
    for number, search in enumerate(result.kernels[:DRAWN_KERNELS]):
        part = kernel_search_body(search)
        title = f"{search.kernel}: {format_count(len(search.candidates), 'candidate')}"
        body += section(title) + part if number == 0 else fold(title, part)
    left = len(result.kernels) - DRAWN_KERNELS
    if left > 0:
        body += note(f"{format_count(left, 'kernel')} without a picture: result[name] shows one")
    return card("Search", body, subtitle=_summary(result))


def kernel_search_text(search: KernelSearch) -> str:
    """The fastest candidates and what they decide."""
    rows = [
        (
            _mark(search, number),
            _time(candidate.predicted_us),
            _time(candidate.measured_us),
            f"{candidate.ratio:.3f}" if candidate.ratio else candidate.status,
            _time(candidate.confirmed_us),
            _choices(candidate),
        )
        for number, candidate in _listed(search)
    ]
    header = ("", "predicted", "measured", "ratio", "confirmed", "choices")
    lines = [_kernel_summary(search), *text_form.columns(rows, header, "lrrrrl")]
    return "\n".join([*lines, *(f"  {line}" for line in _left_out(search))])


def kernel_search_html(search: KernelSearch) -> str:
    """A card: predicted against measured, and the fastest candidates."""
    return card(search.kernel, kernel_search_body(search), subtitle=_kernel_summary(search))


def kernel_search_body(search: KernelSearch) -> str:
    rows = [
        [
            escape(_mark(search, number)),
            escape(_time(candidate.predicted_us)),
            escape(_time(candidate.measured_us)),
            escape(f"{candidate.ratio:.3f}" if candidate.ratio else candidate.status),
            escape(_time(candidate.confirmed_us)),
            code(shorten(_choices(candidate), 110)),
        ]
        for number, candidate in _listed(search)
    ]
    header = ("", "predicted", "measured", "ratio", "confirmed", "choices")
    drawn = predicted_svg(search)
    width, height = LEFT + SIDE + RIGHT, TOP + SIDE + BOTTOM
    parts = []
    if drawn:
        alt = f"predicted against measured times of {search.kernel}, {height:.0f} px high"
        parts.append(picture(drawn, width, alt))
        parts.append(
            legend_of([(DEFAULT, "the default"), (CHOSEN, "chosen"), (OTHER, "other candidates")])
        )
    parts.append(table(rows, header, "lrrrrl"))
    parts += [note(line) for line in _left_out(search)]
    return "".join(parts)


def predicted_svg(search: KernelSearch) -> str:
    """The picture alone; empty where fewer than two candidates were measured."""
    dots = [
        (number, candidate)
        for number, candidate in enumerate(search.candidates)
        if candidate.status == "measured" and candidate.predicted_us > 0
    ]
    if len(dots) < 2:
        return ""
    values = [v for _, c in dots for v in (c.predicted_us, c.measured_us)]
    low, high = min(values) / 1.15, max(values) * 1.15

    def place(value: float) -> float:
        return SIDE * math.log(value / low) / math.log(high / low)

    parts = [
        svg.rect(LEFT, TOP, SIDE, SIDE, fill="none", stroke=LIGHT.border),
        svg.line(LEFT, TOP + SIDE, LEFT + SIDE, TOP, stroke=LIGHT.line, stroke_dasharray="4 4"),
    ]
    for tick in ticks(low, high):
        at = place(tick)
        label = _time(tick)
        parts += [
            svg.line(LEFT + at, TOP + SIDE, LEFT + at, TOP + SIDE + 4, stroke=LIGHT.line),
            svg.text(LEFT + at, TOP + SIDE + 18, label, text_anchor="middle", fill=LIGHT.quiet),
            svg.line(LEFT - 4, TOP + SIDE - at, LEFT, TOP + SIDE - at, stroke=LIGHT.line),
            svg.text(LEFT - 8, TOP + SIDE - at + 4, label, text_anchor="end", fill=LIGHT.quiet),
        ]
    middle = TOP + SIDE / 2
    parts += [
        svg.text(
            LEFT + SIDE / 2, TOP + SIDE + 38, "predicted", text_anchor="middle", fill=LIGHT.text
        ),
        svg.text(
            12, middle, "measured", text_anchor="middle", fill=LIGHT.text,
            transform=f"rotate(-90 12 {middle:g})",
        ),
    ]  # fmt: skip
    # The default and the chosen one last: they lie on top.
    for number, candidate in sorted(dots, key=lambda item: _rank(search, item[0])):
        x, y = LEFT + place(candidate.predicted_us), TOP + SIDE - place(candidate.measured_us)
        parts.append(_dot(x, y, search, number))
    return svg.document(LEFT + SIDE + RIGHT, TOP + SIDE + BOTTOM, "".join(parts))


def ticks(low: float, high: float) -> list[float]:
    """Round numbers between two times, at most seven: 1, 2, 5 and their tenfolds."""
    found = []
    exponent = math.floor(math.log10(low))
    while 10.0**exponent <= high:
        found += [step * 10.0**exponent for step in (1, 2, 5)]
        exponent += 1
    inside = [tick for tick in found if low <= tick <= high]
    return inside[:: max(1, -(-len(inside) // 7))]


def cost_text(estimate: CostEstimate) -> str:
    """The predicted time and its terms."""
    longest = max((term.microseconds for term in estimate.terms), default=0) or 1
    rows = [
        (
            ("+ " if term.is_added else "  ") + term.name,
            _time(term.microseconds),
            text_form.bar(term.microseconds / longest),
            term.why,
        )
        for term in estimate.terms
    ]
    return "\n".join([_cost_summary(estimate), *text_form.columns(rows, align="lrll")])


def cost_html(estimate: CostEstimate) -> str:
    """A card with a bar per term; the one that decides is named."""
    longest = max((term.microseconds for term in estimate.terms), default=0) or 1
    rows = [
        [
            escape("added" if term.is_added else ""),
            code(term.name),
            escape(_time(term.microseconds)),
            bar(term.microseconds / longest, CHOSEN.light.edge, 160),
            escape(term.why),
        ]
        for term in estimate.terms
    ]
    body = table(rows, ("", "term", "time", "", ""), "nlrnl")
    body += note("of the terms that are not added the longest counts: they go on at one time")
    return card(f"Cost of {plain(estimate.kernel)}", body, subtitle=_cost_summary(estimate))


# -- parts -----------------------------------------------------------------------------------------


def _summary(result: SearchResult) -> str:
    count = sum(len(search.candidates) for search in result.kernels)
    kept = sum(search.chosen not in (-1, search.default) for search in result.kernels)
    return (
        f"{format_count(count, 'candidate')} of {format_count(len(result.kernels), 'kernel')} of "
        f"{plain(result.model)} in {format_seconds(result.seconds)}, {kept} tuned, "
        f"{format_count(result.threads, 'thread')}"
    )


def _kernel_summary(search: KernelSearch) -> str:
    return (
        f"{plain(search.kernel)}: {format_count(len(search.candidates), 'candidate')} in "
        f"{format_seconds(search.seconds)}; {plain(search.why)}"
    )


def _cost_summary(estimate: CostEstimate) -> str:
    share = max((t.microseconds for t in estimate.terms if not t.is_added), default=0.0)
    part = format_percent(share / estimate.microseconds) if estimate.microseconds else "none"
    return f"{_time(estimate.microseconds)} predicted, {part} of it {estimate.bound}"


def _dot(x: float, y: float, search: KernelSearch, number: int) -> str:
    """Shape and colour both say what a dot is."""
    if number == search.chosen:
        points = [(x, y - 8), (x + 8, y), (x, y + 8), (x - 8, y)]
        return svg.polygon(points, fill=CHOSEN.light.fill, stroke=CHOSEN.light.ink, stroke_width=2)
    if number == search.default:
        return svg.rect(
            x - 6, y - 6, 12, 12, fill=DEFAULT.light.fill, stroke=DEFAULT.light.ink, stroke_width=2
        )
    return svg.rect(x - 3.5, y - 3.5, 7, 7, rx=3.5, fill=OTHER.light.fill, stroke=OTHER.light.ink)


def _rank(search: KernelSearch, number: int) -> int:
    return (number == search.default) + 2 * (number == search.chosen)


def _mark(search: KernelSearch, number: int) -> str:
    words = []
    if number == search.chosen:
        words.append("chosen")
    if number == search.default:
        words.append("default")
    return f"{number} {' '.join(words)}".rstrip()


def _listed(search: KernelSearch) -> list[tuple[int, Candidate]]:
    """The fastest first; those without a time last."""
    order = sorted(
        enumerate(search.candidates), key=lambda item: (item[1].ratio or math.inf, item[0])
    )
    return order[:LISTED_CANDIDATES]


def _left_out(search: KernelSearch) -> Sequence[str]:
    lines = []
    hidden = len(search.candidates) - LISTED_CANDIDATES
    if hidden > 0:
        lines.append(f"and {format_count(hidden, 'more candidate')}: search.candidates")
    for number, candidate in enumerate(search.candidates):
        if candidate.status in ("failed", "wrong", "hung") and len(lines) < LISTED_CANDIDATES:
            lines.append(f"{number} {candidate.status}: {shorten(candidate.reason, 160)}")
    return lines


def _choices(candidate: Candidate) -> str:
    return " ".join(f"{name}={value}" for name, value in candidate.choices)


def _default_us(search: KernelSearch) -> float:
    """In turns with the chosen one, where there was a second measurement of it."""
    if search.chosen >= 0:
        chosen = search.candidates[search.chosen]
        if chosen.confirmed_default_us or chosen.default_us:
            return chosen.confirmed_default_us or chosen.default_us
    return search.candidates[search.default].measured_us if search.default >= 0 else 0.0


def _chosen_us(search: KernelSearch) -> float:
    if search.chosen < 0:
        return 0.0
    chosen = search.candidates[search.chosen]
    return chosen.confirmed_us or chosen.measured_us


def _time(microseconds: float) -> str:
    if not microseconds or not math.isfinite(microseconds):
        return "-"
    return format_nanoseconds(microseconds * 1e3)

"""Where one tensor is off: histograms of its values and errors, and its worst elements.

/classifier/relu1_output after binary on cpu: 1x64 float32, 38 of 64 elements equal
  values       0  █▅▁▃ ▃▁▃  5.46
  errors   1e-10        ▅▇█▂  10
  worst at   reference       value   off by
  [0, 42]    0.0789858   0.0789890   3.2e-6
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from explorer.results.accuracy import AccuracyReport, PassAccuracy, TensorDetail, TensorError
from explorer.views.numbers import format_count, format_error
from explorer.views.parts import svg
from explorer.views.parts.markup import escape, paragraph, picture, plain, section, table
from explorer.views.parts.plain import columns
from explorer.views.theme import BLUE, LIGHT, cividis, tone_of

SMALLEST_DECADE, LARGEST_DECADE = -10, 1
LEVELS = " ▁▂▃▄▅▆▇█"
PLOT_WIDTH, PLOT_HEIGHT, GAP = 300.0, 96.0, 24.0
HEADER = ("worst at", "reference", "value", "off by")


def worst_detail(report: AccuracyReport) -> tuple[PassAccuracy, TensorError, TensorDetail] | None:
    """The worst tensor of the last comparison that has a detail, errors in isolation first: these
    blame the operation that makes them."""
    for measured in (report.isolated, report.passes):
        for accuracy in reversed(measured):
            known = [
                t
                for t in accuracy.tensors
                if t.detail is not None and t.detail < len(report.details)
            ]
            if known:
                error = max(known, key=lambda t: _order(t.max_relative))
                assert error.detail is not None
                return accuracy, error, report.details[error.detail]
    return None


def detail_text(report: AccuracyReport) -> list[str]:
    """Lines about the worst tensor; none where the report holds no details."""
    found = worst_detail(report)
    if found is None:
        return []
    accuracy, error, detail = found
    rows = [
        ("values", _short(detail.low), sparkline(detail.value_counts), _short(detail.high)),
        ("errors", f"1e{SMALLEST_DECADE}", sparkline(detail.error_counts), "10"),
    ]
    if detail.value_counts != detail.expected_counts:
        reference = ("reference", _short(detail.low), sparkline(detail.expected_counts))
        rows.insert(0, (*reference, _short(detail.high)))
    lines = [f"Worst tensor: {plain(error.tensor)} after {plain(accuracy.name)}, {_facts(detail)}"]
    lines += columns(rows, align="lrll")
    lines += columns(_worst_rows(detail), HEADER, "lrrr")
    return lines


def detail_html(report: AccuracyReport) -> str:
    """The same as a section of a card."""
    found = worst_detail(report)
    if found is None:
        return ""
    accuracy, error, detail = found
    body = section(f"Worst tensor: {plain(error.tensor)} after {plain(accuracy.name)}")
    body += paragraph(escape(_facts(detail)), quiet=True)
    width = 2 * PLOT_WIDTH + GAP
    words = f"histograms of the values and the errors of {plain(error.tensor)}"
    body += picture(detail_svg(detail, report.tolerance), width, words)
    rows = [[escape(cell) for cell in row] for row in _worst_rows(detail)]
    return body + table(rows, HEADER, "nrrr")


def detail_svg(detail: TensorDetail, tolerance: float) -> str:
    """Two histograms side by side: the values over those of the reference, and the errors.

    Heights are logarithmic, for counts span many powers of ten.
    """
    floor = PLOT_HEIGHT - 18
    most = max(1, *detail.expected_counts, *detail.value_counts)
    width = PLOT_WIDTH / len(detail.expected_counts)
    parts = [svg.text(0, 10, "values: reference (bars), value (line)", fill=LIGHT.quiet)]
    for place, count in enumerate(detail.expected_counts):
        height = _height(count, most, floor - 18)
        parts.append(svg.rect(place * width, floor - height, width, height, fill=LIGHT.border))
    tops = [floor - _height(count, most, floor - 18) for count in detail.value_counts]
    steps = "L".join(
        f"{place * width:.1f} {y:.1f}L{(place + 1) * width:.1f} {y:.1f}"
        for place, y in enumerate(tops)
    )
    edge = tone_of(BLUE, LIGHT).edge
    parts.append(svg.path(f"M{steps}", fill="none", stroke=edge, stroke_width=1.5))
    parts += _axis(0.0, floor, _short(detail.low), _short(detail.high))
    left = PLOT_WIDTH + GAP
    most = max(1, *detail.error_counts)
    width = PLOT_WIDTH / len(detail.error_counts)
    decades = LARGEST_DECADE - SMALLEST_DECADE
    parts.append(svg.text(left, 10, "errors, relative to the largest value", fill=LIGHT.quiet))
    for place, count in enumerate(detail.error_counts):
        height = _height(count, most, floor - 18)
        exponent = SMALLEST_DECADE + (place + 0.5) * decades / len(detail.error_counts)
        colour = cividis(min(max(exponent / 8 + 1, 0.0), 1.0))
        x = left + place * width
        parts.append(svg.rect(x, floor - height, width - 0.5, height, fill=colour))
    if tolerance > 0:
        share = (math.log10(tolerance) - SMALLEST_DECADE) / decades
        x = left + PLOT_WIDTH * min(max(share, 0.0), 1.0)
        parts.append(svg.line(x, 14, x, floor, stroke=LIGHT.text, stroke_dasharray="4 3"))
        parts.append(svg.text(x + 4, 24, "tolerance", fill=LIGHT.text, font_size=10))
    parts += _axis(left, floor, f"1e{SMALLEST_DECADE}", "10")
    return svg.document(2 * PLOT_WIDTH + GAP, PLOT_HEIGHT, "".join(parts))


def sparkline(counts: Sequence[int]) -> str:
    """A histogram as a line of text; heights are logarithmic, a blank is an empty bin."""
    most = max(1, *counts)
    return "".join(LEVELS[math.ceil(_height(count, most, len(LEVELS) - 1))] for count in counts)


def _height(count: int, most: int, full: float) -> float:
    return full * math.log1p(count) / math.log1p(most)


def _axis(left: float, floor: float, low: str, high: str) -> list[str]:
    right = left + PLOT_WIDTH
    style = {"fill": LIGHT.quiet, "font_size": 10}
    return [
        svg.line(left, floor, right, floor, stroke=LIGHT.line),
        svg.text(left, floor + 13, low, **style),
        svg.text(right, floor + 13, high, text_anchor="end", **style),
    ]


def _facts(detail: TensorDetail) -> str:
    shape = "x".join(map(str, detail.shape)) or "scalar"
    size = math.prod(detail.shape)
    facts = (
        f"{shape} {detail.element_type}, {detail.equal:,} of {format_count(size, 'element')} equal"
    )
    for who, special in (("value", detail.value_special), ("reference", detail.expected_special)):
        named = zip(special, ("NaN", "infinity", "minus infinity"), strict=True)
        words = [f"{count:,} {name}" for count, name in named if count]
        if words:
            facts += f"; {who}: {', '.join(words)}"
    return facts


def _worst_rows(detail: TensorDetail) -> list[tuple[str, str, str, str]]:
    return [
        (
            f"[{', '.join(map(str, w.index))}]" if w.index else "padding" if detail.shape else "-",
            f"{w.expected:.9g}",
            f"{w.value:.9g}",
            format_error(w.difference),
        )
        for w in detail.worst
    ]


def _short(value: float) -> str:
    return f"{value:.3g}"


def _order(error: float) -> float:
    return math.inf if math.isnan(error) else error

"""Where one tensor is off: histograms of its values and errors, and its worst elements.

Worst tensor: /relu1_output after binary on cpu, 1x64 float32, 38 of 64 elements equal
  values       0  █▅▁▃ ▃▁▃  5.46
  errors   1e-10        ▅▇█▂  10
  worst at   reference       value   off by
  [0, 42]    0.0789858   0.0789890   3.2e-6
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from explorer.results.accuracy import (
    AccuracyReport,
    PassAccuracy,
    TensorDetail,
    TensorError,
    WorstElement,
)
from explorer.views.numbers import format_count
from explorer.views.parts.plain import columns
from explorer.views.specification import (
    Bars,
    Cell,
    ChartSpec,
    Column,
    Label,
    Line,
    Mark,
    Part,
    Rect,
    Row,
    Section,
    TableSpec,
)
from explorer.views.theme import BLUE, LIGHT, cividis, tone_of

SMALLEST_DECADE, LARGEST_DECADE = -10, 1
LEVELS = " ▁▂▃▄▅▆▇█"
PLOT_WIDTH, PLOT_HEIGHT, GAP = 300.0, 96.0, 24.0
FLOOR = PLOT_HEIGHT - 18
WORST = (
    Column(key="index", title="worst at", format="name"),
    Column(key="expected", title="reference", format="decimal"),
    Column(key="value", title="value", format="decimal"),
    Column(key="difference", title="off by", format="error"),
)


def detail_parts(report: AccuracyReport) -> Iterator[Part]:
    """About the worst tensor; nothing where the report holds no details."""
    found = _worst_detail(report)
    if found is None:
        return
    accuracy, error, detail = found
    rows = tuple(_worst_row(worst, detail) for worst in detail.worst)
    yield Section(
        title=f"Worst tensor: {error.tensor} after {accuracy.name}, {_facts(detail)}",
        parts=(
            _chart(error.tensor, detail, report.tolerance),
            TableSpec(title="worst elements", columns=WORST, rows=rows),
        ),
    )


def _worst_detail(report: AccuracyReport) -> tuple[PassAccuracy, TensorError, TensorDetail] | None:
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
                error = max(known, key=lambda t: (math.isnan(t.max_relative), t.max_relative))
                assert error.detail is not None
                return accuracy, error, report.details[error.detail]
    return None


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


def _worst_row(worst: WorstElement, detail: TensorDetail) -> Row:
    index = f"[{', '.join(map(str, worst.index))}]"
    return Row(
        cells={
            "index": index if worst.index else "padding" if detail.shape else "-",
            "expected": Cell(value=worst.expected, text=f"{worst.expected:.9g}"),
            "value": Cell(value=worst.value, text=f"{worst.value:.9g}"),
            "difference": worst.difference,
        }
    )


def _chart(name: str, detail: TensorDetail, tolerance: float) -> ChartSpec:
    """Two histograms side by side: the values over those of the reference, and the errors.

    Heights are logarithmic, for counts span many powers of ten.
    """
    low, high = f"{detail.low:.3g}", f"{detail.high:.3g}"
    rows = [
        ("values", low, sparkline(detail.value_counts), high),
        ("errors", f"1e{SMALLEST_DECADE}", sparkline(detail.error_counts), "10"),
    ]
    if detail.value_counts != detail.expected_counts:
        rows.insert(0, ("reference", low, sparkline(detail.expected_counts), high))
    left = PLOT_WIDTH + GAP
    return ChartSpec(
        title=f"histograms of the values and the errors of {name}",
        width=2 * PLOT_WIDTH + GAP,
        height=PLOT_HEIGHT,
        marks=(
            *_values(detail),
            *_axis(0.0, low, high),
            *_errors(detail, left, tolerance),
            *_axis(left, f"1e{SMALLEST_DECADE}", "10"),
        ),
        lines=tuple(columns(rows, align="lrll", indent=0)),
    )


def _values(detail: TensorDetail) -> Iterator[Mark]:
    most = max(1, *detail.expected_counts, *detail.value_counts)
    width = PLOT_WIDTH / len(detail.expected_counts)
    yield Label(x=0, y=10, text="values: reference (bars), value (line)")
    heights = tuple(_height(count, most, FLOOR - 18) for count in detail.expected_counts)
    yield Bars(x=0, base=FLOOR, step=width, heights=heights, role="border")
    tops = [FLOOR - _height(count, most, FLOOR - 18) for count in detail.value_counts]
    steps = tuple((x * width, y) for place, y in enumerate(tops) for x in (place, place + 1))
    yield Line(points=steps, role=tone_of(BLUE, LIGHT).edge, width=1.5)


def _errors(detail: TensorDetail, left: float, tolerance: float) -> Iterator[Mark]:
    most = max(1, *detail.error_counts)
    bins = len(detail.error_counts)
    width, decades = PLOT_WIDTH / bins, LARGEST_DECADE - SMALLEST_DECADE
    yield Label(x=left, y=10, text="errors, relative to the largest value")
    for place, count in enumerate(detail.error_counts):
        height = _height(count, most, FLOOR - 18)
        exponent = SMALLEST_DECADE + (place + 0.5) * decades / bins
        colour = cividis(min(max(exponent / 8 + 1, 0.0), 1.0))
        x = left + place * width
        yield Rect(x=x, y=FLOOR - height, width=width - 0.5, height=height, role=colour)
    if tolerance > 0:
        share = (math.log10(tolerance) - SMALLEST_DECADE) / decades
        x = left + PLOT_WIDTH * min(max(share, 0.0), 1.0)
        yield Line(points=((x, 14), (x, FLOOR)), role="text", is_dashed=True)
        yield Label(x=x + 4, y=24, text="tolerance", role="text", size=10)


def _axis(left: float, low: str, high: str) -> Iterator[Mark]:
    right = left + PLOT_WIDTH
    yield Line(points=((left, FLOOR), (right, FLOOR)))
    yield Label(x=left, y=FLOOR + 13, text=low, size=10)
    yield Label(x=right, y=FLOOR + 13, text=high, anchor="end", size=10)


def sparkline(counts: Sequence[int]) -> str:
    """A histogram as a line of text; heights are logarithmic, a blank is an empty bin."""
    most = max(1, *counts)
    return "".join(LEVELS[math.ceil(_height(count, most, len(LEVELS) - 1))] for count in counts)


def _height(count: int, most: int, full: float) -> float:
    return full * math.log1p(count) / math.log1p(most)

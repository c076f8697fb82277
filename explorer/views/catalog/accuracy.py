"""Accuracy as a map of pass by layer, and the layers with the worst errors first.

    ✓ equal to the source model up to rounding (worst 4.5e-6 of 1.0e-4 allowed)
      pass             worst    at
      fold-batch-norm  4.5e-6   Relu_10_out
    Worst layers after plan-memory, each fed the reference's inputs (1 of 1)
      softmax_1        3.0e-7 relative, 6.0e-7 absolute, 132 dB

Colours run on cividis over the logarithm of the relative error, from 1e-8 (and below) to 1. Of a
quantized program a table says how far it is from the float model, which is measured, not judged.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from statistics import median

from explorer.results import Trace
from explorer.results.accuracy import AccuracyReport, PassAccuracy, TensorError
from explorer.views.catalog.tensor_detail import detail_parts
from explorer.views.numbers import format_error
from explorer.views.parts import svg
from explorer.views.parts.plain import WIDTH, columns
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
    Section,
    Specification,
    TableSpec,
    Text,
)
from explorer.views.theme import (
    LIGHT,
    VERMILLION,
    WRONG,
    Look,
    cividis,
    judge,
    judged_error,
    text_on,
    tone_of,
)
from explorer.views.verdicts import costliest_parts, grounds, judged_words, tie_words, worst_judged
from explorer.views.view import JAVASCRIPT, Pane, View

LOWEST_EXPONENT = -8
MAX_LAYERS = 10
MAX_DRAWN_LAYERS, MAX_DRAWN_PASSES = 80, 40
HEAD, CELL_HEIGHT, NAME_WIDTH, WORST_WIDTH, CELLS_WIDTH = 22.0, 18.0, 150.0, 190.0, 400.0
SCALE_STEPS, SCALE_WIDTH = 32, 240.0
LAYERS = (
    Column(key="operation", title="operation", format="layer"),
    Column(key="tensor", title="tensor"),
    Column(key="relative", title="relative", format="error", moves="sqnr_db"),
    Column(key="absolute", title="absolute", format="error", moves="sqnr_db"),
    Column(key="sqnr", title="signal to noise", format="decibels", moves="sqnr_db"),
)
FLOAT_PASSES = (
    Column(key="pass", title="pass", format="name"),
    Column(key="worst", title="worst", format="decibels", moves="sqnr_db"),
    Column(key="tensor", title="at", format="name"),
    Column(key="median", title="median", format="decibels", moves="sqnr_db"),
)
FLOAT_TENSORS = (
    Column(key="tensor", title="tensor", format="name"),
    Column(key="sqnr", title="signal to noise", format="decibels", moves="sqnr_db"),
    Column(key="cosine", title="cosine", format="decimal", moves="sqnr_db"),
)


def accuracy(trace: Trace, index: int = -1) -> Specification:
    """Of a trace with a comparison."""
    assert trace.accuracy is not None, "the view needs it"
    return compared(trace.accuracy)


def compared(report: AccuracyReport) -> Specification:
    """The verdict, the worst tensor of every pass as map and table, and the worst layers."""
    look, words = _verdict(report)
    parts: list[Part] = [Text(text=text, is_quiet=False) for text in grounds(report)]
    if report.fault is not None:
        left_out = f"; left out by decisions={{{report.fault.address!r}: False}}"
        how = left_out if report.fault.address else ""
        parts.append(Text(text=f"bisected: {report.fault}{how}", is_quiet=False))
    parts += [*map(Text.of, _tie_words(report)), *costliest_parts(report), *_map(report, words)]
    parts += [*_worst_layers(report), *_against_float(report), *detail_parts(report)]
    return Specification(
        title=f"Accuracy against {report.oracle} on {report.target}",
        subtitle=words,
        look=look,
        parts=tuple(parts),
    )


def _verdict(report: AccuracyReport) -> tuple[Look, str]:
    """Of all passes in both modes and of the outputs; wrong wherever the comparison did not pass,
    whatever the tensors say that could be compared."""
    passes = (*report.passes, *report.isolated)
    tensors = [*(t for p in passes for t in p.tensors), *report.outputs]
    worst = worst_judged(tensors, report.tolerance)
    judged = None if worst is None else judged_error(worst, report.tolerance)
    look = judge(judged, report.tolerance)
    if worst is None:
        return look, look.title
    title = look.title
    if report.oracle.startswith("the imported"):
        title = title.replace("the source model", report.oracle)
    if report.integers_from:
        until = f"the source model before {report.integers_from}, and then to the target's integers"
        title = title.replace("the source model", until)
    numbers = f"(worst {judged_words(worst, report.tolerance)})"
    if report.problem and look is not WRONG:
        return WRONG, "not shown to be equal to the source model"
    isolated = ", operation by operation" if report.rests_on == "isolated" else ""
    return look, f"{title}{isolated} {numbers}"


def _worst_tensor(accuracy: PassAccuracy) -> TensorError | None:
    """The tensor with the largest error; one that is not a number is worse than any."""
    return max(accuracy.tensors, key=lambda t: _order(t.max_relative), default=None)


def _order(error: float) -> float:
    return math.inf if math.isnan(error) else error


def _tie_words(report: AccuracyReport) -> list[str]:
    """A line per near-tie after the last pass; older reports name only the operation."""
    if not report.passes:
        return []
    last = report.passes[-1]
    known = {tie.operation for tie in last.near_ties}
    return [tie_words(tie) for tie in last.near_ties] + [
        f"{name}: a near-tie of an index; what follows is compared in isolation."
        for name in last.ties
        if name not in known
    ]


def _worst_layers(report: AccuracyReport) -> Iterator[Section]:
    """Errors in isolation blame the layer that makes them; where they were not measured, the
    accumulated ones have to do."""
    is_isolated = any(p.tensors for p in report.isolated)
    measured = [p for p in (report.isolated if is_isolated else report.passes) if p.tensors]
    if not measured:
        return
    last = measured[-1]
    layers = sorted(last.tensors, key=lambda t: -_order(t.max_relative))
    count = min(MAX_LAYERS, len(layers))
    how = "each fed the reference's inputs" if is_isolated else "errors accumulated"
    title = f"Worst layers after {last.name}, {how} ({count} of {len(layers)})"
    rows = tuple(map(_layer, layers[:count]))
    yield Section(title=title, parts=(TableSpec(title=title, columns=LAYERS, rows=rows),))


def _layer(error: TensorError) -> Row:
    worst = (
        f"[{', '.join(map(str, error.worst_index))}] is {error.worst_value:.6g}, "
        f"expected {error.expected_value:.6g}"
    )
    return Row(
        operations=(error.operation,),
        cells={
            "operation": error.operation,
            "tensor": error.tensor,
            "relative": Cell(value=error.max_relative, exact=worst if error.worst_index else ""),
            "absolute": error.max_absolute,
            "sqnr": error.sqnr_db,
        },
    )


# -- against the float model -----------------------------------------------------------------------


def _against_float(report: AccuracyReport) -> Iterator[Section]:
    """A row per pass after which something changed, and where it is most; nothing where nothing
    was quantized."""
    rows, before = [], None
    for accuracy in report.against_float:
        if not accuracy.tensors:
            continue
        worst = min(accuracy.tensors, key=lambda t: t.sqnr_db)
        middle = median(t.sqnr_db for t in accuracy.tensors)
        found = (worst.sqnr_db, worst.tensor, middle)
        if found != before:
            cells = dict(zip(("worst", "tensor", "median"), found, strict=True))
            rows.append(Row(cells={"pass": accuracy.name, **cells}))
        before = found
    if not rows:
        return
    title = "Against the float model (measured, not judged)"
    table = TableSpec(title="passes", columns=FLOAT_PASSES, rows=tuple(rows), max_rows=1000)
    yield Section(title=title, parts=(table,))
    last = [accuracy for accuracy in report.against_float if accuracy.tensors][-1]
    own: dict[str, TensorError] = {}
    for error in sorted(last.tensors, key=lambda t: t.sqnr_db):
        own.setdefault(error.tensor, error)  # several operations may make one
    listed = tuple(
        Row(
            cells={
                "tensor": error.tensor,
                "sqnr": error.sqnr_db,
                "cosine": Cell(value=error.cosine, text=f"{error.cosine:.5f}"),
            }
        )
        for error in [*own.values()][:MAX_LAYERS]
    )
    title = f"Furthest after {last.name} ({len(listed)} of {len(own)} tensors)"
    table = TableSpec(title="tensors", columns=FLOAT_TENSORS, rows=listed)
    yield Section(title=title, parts=(table,))


# -- the map ---------------------------------------------------------------------------------------


def _map(report: AccuracyReport, words: str) -> Iterator[Part]:
    """The map; where there are no pictures a table of the worst tensors."""
    passes = [p for p in report.passes if p.tensors]
    if not passes:
        return
    drawn_passes = passes[-MAX_DRAWN_PASSES:]
    tensors = list(dict.fromkeys(t.tensor for p in drawn_passes for t in p.tensors))
    worst_of = dict.fromkeys(tensors, 0.0)
    for error in (t for p in drawn_passes for t in p.tensors):
        worst_of[error.tensor] = max(worst_of[error.tensor], _order(error.max_relative))
    chosen = set(sorted(tensors, key=lambda t: -worst_of[t])[:MAX_DRAWN_LAYERS])
    drawn = [t for t in tensors if t in chosen]
    chart = _chart(report, drawn_passes, drawn, f"errors by pass and layer: {words}")
    lines = columns(_folded(passes), ("pass", "worst", "at"), "lrl", indent=0, width=WIDTH - 2)
    yield replace(chart, lines=tuple(lines))
    left_out = []
    if len(drawn) < len(tensors):
        left_out.append(f"the {len(drawn)} worst of {len(tensors)} layers")
    if len(drawn_passes) < len(passes):
        left_out.append(f"the last {len(drawn_passes)} of {len(passes)} passes")
    if left_out:
        yield Text(text=f"The map shows {' and '.join(left_out)}: report.passes holds all.")


def _folded(passes: Sequence[PassAccuracy]) -> list[tuple[str, str, str]]:
    """The worst tensor after every pass; passes in a row after which it is the same are one row."""
    worst = [(p.name, _worst_tensor(p)) for p in passes]
    found = [(name, format_error(w.max_relative), w.tensor) for name, w in worst if w is not None]
    rows = []
    for (error, tensor), group in groupby(found, lambda row: row[1:]):
        names = [name for name, *_ in group]
        more = f" to {names[-1]} ({len(names)} passes)" if len(names) > 1 else ""
        rows.append((f"{names[0]}{more}", error, tensor))
    return rows


def _chart(
    report: AccuracyReport, passes: Sequence[PassAccuracy], tensors: Sequence[str], title: str
) -> ChartSpec:
    """One row per pass, one column per tensor of the source model; the worst cell of each row is
    framed and named at its end."""
    cell = max(5.0, min(28.0, CELLS_WIDTH / len(tensors)))
    height = HEAD + CELL_HEIGHT * len(passes) + 44
    marks: list[Mark] = [Label(x=NAME_WIDTH, y=14, text="layers in program order →", size=11)]
    for row, accuracy in enumerate(passes):
        marks += _row(accuracy, HEAD + row * CELL_HEIGHT, tensors, cell, report.tolerance)
    marks += _scale(report.tolerance, height - 32)
    width = max(NAME_WIDTH + cell * len(tensors) + WORST_WIDTH, NAME_WIDTH + 330)
    return ChartSpec(title=title, width=width, height=height, marks=tuple(marks))


def _row(
    accuracy: PassAccuracy, y: float, tensors: Sequence[str], cell: float, tolerance: float
) -> Iterator[Mark]:
    errors = {t.tensor: t for t in accuracy.tensors}
    name = svg.fit(accuracy.name, NAME_WIDTH - 12)
    yield Label(x=NAME_WIDTH - 8, y=y + 13, text=name, anchor="end", role="text")
    for column, tensor in enumerate(tensors):
        x = NAME_WIDTH + column * cell
        error = errors.get(tensor)
        if error is None:  # fused away: no such tensor after this pass
            middle = y + CELL_HEIGHT / 2
            ends = ((x + cell / 3, middle), (x + 2 * cell / 3, middle))
            yield Line(points=ends, role="border")
            continue
        colour = cividis(_position(error.max_relative))
        yield Rect(x=x, y=y + 1, width=cell - 1, height=CELL_HEIGHT - 2, role=colour)
        if not judged_error(error, tolerance) <= tolerance:
            yield Label(
                x=x + cell / 2 - 0.5,
                y=y + 13,
                text="✗",
                anchor="middle",
                role=text_on(colour),
                size=10,
                is_on_mark=True,
            )
    worst = _worst_tensor(accuracy)
    if worst is None:
        return
    if worst.tensor in tensors and worst.max_relative != 0:
        left, top = NAME_WIDTH + tensors.index(worst.tensor) * cell - 0.5, y + 0.5
        right, bottom = left + cell, top + CELL_HEIGHT - 1
        frame = ((left, top), (right, top), (right, bottom), (left, bottom), (left, top))
        yield Line(points=frame, role=tone_of(VERMILLION, LIGHT).edge, width=2)
    where = f" {worst.tensor}" if worst.max_relative != 0 else ""
    label = svg.fit(f"{format_error(worst.max_relative)}{where}", WORST_WIDTH - 16, 11)
    x = NAME_WIDTH + cell * len(tensors) + 8
    yield Label(x=x, y=y + 13, text=label, role="text", size=11)


def _scale(tolerance: float, y: float) -> Iterator[Mark]:
    """The scale of colours with its numbers, and the tolerance marked on it."""
    step = SCALE_WIDTH / SCALE_STEPS
    for i in range(SCALE_STEPS):
        colour = cividis((i + 0.5) / SCALE_STEPS)
        yield Rect(x=NAME_WIDTH + i * step, y=y, width=step + 0.5, height=8, role=colour)
    for exponent in range(LOWEST_EXPONENT, 1, 2):
        x = NAME_WIDTH + SCALE_WIDTH * (exponent - LOWEST_EXPONENT) / -LOWEST_EXPONENT
        label = "1" if exponent == 0 else f"1e{exponent}"
        anchor = "start" if exponent == LOWEST_EXPONENT else "middle"
        yield Label(x=x, y=y + 21, text=label, anchor=anchor, size=10)
    x = NAME_WIDTH + SCALE_WIDTH * _position(tolerance)
    yield Line(points=((x, y - 5), (x, y + 10)), role="text", width=2)
    words = f"▏tolerance {format_error(tolerance)}"
    yield Label(x=NAME_WIDTH + SCALE_WIDTH + 8, y=y + 8, text=words, role="text", size=10)
    yield Label(x=NAME_WIDTH - 8, y=y + 8, text="relative error", anchor="end", size=10)


def _position(error: float) -> float:
    """Where an error stands on the scale, 0 to 1; what is not a number stands at the end."""
    if math.isnan(error) or math.isinf(error):
        return 1.0
    if error <= 0:
        return 0.0
    return min(max(math.log10(error) / -LOWEST_EXPONENT + 1, 0.0), 1.0)


VIEW = View(
    name="accuracy",
    title="errors of every tensor after every pass",
    needs=("accuracy",),
    specification=accuracy,
    json=lambda trace, _: trace.accuracy,
    pane=Pane(
        moves="sqnr_db",
        module=JAVASCRIPT / "measures" / "accuracy.js",
        function="accuracyView",
        key="a",
        redraws=("mode", "metric"),
        is_drawn_of_payload=True,
    ),
)

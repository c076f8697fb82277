"""Accuracy as a map of pass by layer, and the layers with the worst errors first.

    ✓ equal to the source model up to rounding, tolerance 1.0e-4, against onnxruntime
      pass             worst    at
      fold-batch-norm  4.5e-6   Relu_10_out
    worst layers after plan-memory (each fed the reference's inputs)
      softmax_1        3.0e-7 relative, 6.0e-7 absolute, 132 dB

Colours run on cividis over the logarithm of the relative error, from 1e-8 (and below) to 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from explorer.results.accuracy import AccuracyReport, Fault, PassAccuracy, TensorError
from explorer.views.numbers import format_decibels, format_error
from explorer.views.parts import svg
from explorer.views.parts.against_float import against_float_html, against_float_text
from explorer.views.parts.details import detail_html, detail_text
from explorer.views.parts.markup import (
    badge,
    card,
    code,
    escape,
    note,
    paragraph,
    picture,
    plain,
    section,
    table,
)
from explorer.views.parts.plain import columns
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
from explorer.views.verdicts import costliest_words, grounds, judged_words, tie_words, worst_judged

LOWEST_EXPONENT = -8
WORST_LAYERS = 10
DRAWN_LAYERS = 80
DRAWN_PASSES = 40
CELL_HEIGHT = 18.0
NAME_WIDTH = 150.0
WORST_WIDTH = 190.0
CELLS_WIDTH = 400.0


def accuracy_text(report: AccuracyReport) -> str:
    """The verdict, the worst tensor of every pass, and the worst layers."""
    look, words = _verdict(report)
    rows = [
        (p.name, format_error(worst.max_relative), worst.tensor)
        for p in report.passes
        if (worst := worst_tensor(p)) is not None
    ]
    lines = [f"{look.glyph} {words}", *(f"  {plain(text)}" for text in grounds(report))]
    lines += [*columns(rows, ("pass", "worst", "at"), "lrl")]
    source, layers = _worst_layers(report)
    if layers:
        lines.append(source)
        lines += columns([(t.operation, t.tensor, *_measures(t)) for t in layers], _HEADER, "llrrr")
    lines += against_float_text(report)
    lines += [f"  {plain(words)}" for words in costliest_words(report)]
    if report.fault is not None:
        lines.append(f"  bisected: {_fault_words(report.fault)}")
    lines += detail_text(report)
    lines += [f"  {words}" for words in _tie_words(report)]
    return "\n".join(lines)


def accuracy_html(report: AccuracyReport) -> str:
    """A card with the map and the table of the worst layers."""
    look, words = _verdict(report)
    body = paragraph(badge(look, words))
    for text in grounds(report):
        body += paragraph(escape(plain(text)))
    if report.fault is not None:
        body += paragraph(escape(f"Bisected: {_fault_words(report.fault)}"))
    if report.passes and any(p.tensors for p in report.passes):
        drawing, width, left_out = accuracy_svg(report)
        body += picture(drawing, width, f"errors by pass and layer: {words}")
        if left_out:
            body += note(left_out)
    source, layers = _worst_layers(report)
    if layers:
        body += section(source)
        rows = [
            [
                code(t.operation),
                escape(t.tensor),
                *(escape(number) for number in _measures(t)),
                escape(
                    f"[{', '.join(map(str, t.worst_index))}] is {t.worst_value:.6g}, "
                    f"expected {t.expected_value:.6g}"
                )
                if t.worst_index
                else "",
            ]
            for t in layers
        ]
        body += table(rows, (*_HEADER, "worst element"), "llrrrl")
    body += against_float_html(report)
    body += "".join(paragraph(escape(plain(words))) for words in costliest_words(report))
    body += detail_html(report)
    for words in _tie_words(report):
        body += note(words)
    return card("Accuracy", body, subtitle=f"against {report.oracle} on {report.target}")


_HEADER = ("operation", "tensor", "relative", "absolute", "signal to noise")


def accuracy_svg(report: AccuracyReport) -> tuple[str, float, str]:
    """(SVG document, width, what is left out) of the map: one row per pass, one column per tensor
    of the source model; the worst cell of each row is framed and named at its end."""
    passes = [p for p in report.passes if p.tensors]
    drawn_passes = passes if len(passes) <= DRAWN_PASSES else passes[-DRAWN_PASSES:]
    tensors = list(dict.fromkeys(t.tensor for p in drawn_passes for t in p.tensors))
    worst_of = dict.fromkeys(tensors, 0.0)
    for accuracy in drawn_passes:
        for t in accuracy.tensors:
            worst_of[t.tensor] = max(worst_of[t.tensor], _order(t.max_relative))
    chosen = set(sorted(tensors, key=lambda t: -worst_of[t])[:DRAWN_LAYERS])
    drawn = [t for t in tensors if t in chosen]
    cell = max(5.0, min(28.0, CELLS_WIDTH / len(drawn)))
    head = 22.0
    width = NAME_WIDTH + cell * len(drawn) + WORST_WIDTH
    width = max(width, NAME_WIDTH + 330)
    height = head + CELL_HEIGHT * len(drawn_passes) + 44
    parts = [svg.text(NAME_WIDTH, 14, "layers in program order →", fill=LIGHT.quiet, font_size=11)]
    for row, accuracy in enumerate(drawn_passes):
        y = head + row * CELL_HEIGHT
        parts.append(_row(accuracy, y, drawn, cell, report.tolerance))
    parts.append(_scale(report.tolerance, height - 32))
    left_out = []
    if len(drawn) < len(tensors):
        left_out.append(f"the {len(drawn)} worst of {len(tensors)} layers")
    if len(drawn_passes) < len(passes):
        left_out.append(f"the last {len(drawn_passes)} of {len(passes)} passes")
    words = f"The map shows {' and '.join(left_out)}: report.passes holds all." if left_out else ""
    return svg.document(width, height, "".join(parts)), width, words


def worst_tensor(accuracy: PassAccuracy) -> TensorError | None:
    """The tensor with the largest error; one that is not a number is worse than any."""
    return max(accuracy.tensors, key=lambda t: _order(t.max_relative), default=None)


def _row(
    accuracy: PassAccuracy, y: float, tensors: Sequence[str], cell: float, tolerance: float
) -> str:
    errors = {t.tensor: t for t in accuracy.tensors}
    worst = worst_tensor(accuracy)
    name = svg.fit(accuracy.name, NAME_WIDTH - 12)
    parts = [svg.text(NAME_WIDTH - 8, y + 13, name, text_anchor="end", fill=LIGHT.text)]
    for column, tensor in enumerate(tensors):
        x = NAME_WIDTH + column * cell
        error = errors.get(tensor)
        if error is None:  # fused away: no such tensor after this pass
            middle = y + CELL_HEIGHT / 2
            parts.append(svg.line(x + cell / 3, middle, x + 2 * cell / 3, middle,
                                  stroke=LIGHT.border))  # fmt: skip
            continue
        colour = cividis(_position(error.max_relative))
        parts.append(svg.rect(x, y + 1, cell - 1, CELL_HEIGHT - 2, fill=colour))
        if not judged_error(error, tolerance) <= tolerance:
            parts.append(
                svg.text(x + cell / 2 - 0.5, y + 13, "✗", text_anchor="middle",
                         fill=text_on(colour), font_size=10,
                         **svg.ON_ITS_OWN_GROUND)
            )  # fmt: skip
    if worst is None:
        return "".join(parts)
    if worst.tensor in tensors and worst.max_relative != 0:
        x = NAME_WIDTH + tensors.index(worst.tensor) * cell
        parts.append(
            svg.rect(x - 0.5, y + 0.5, cell, CELL_HEIGHT - 1, fill="none",
                     stroke=tone_of(VERMILLION, LIGHT).edge, stroke_width=2)
        )  # fmt: skip
    where = f" {worst.tensor}" if worst.max_relative != 0 else ""
    label = svg.fit(f"{format_error(worst.max_relative)}{where}", WORST_WIDTH - 16, 11)
    x = NAME_WIDTH + cell * len(tensors) + 8
    parts.append(svg.text(x, y + 13, label, fill=LIGHT.text, font_size=11))
    return "".join(parts)


def _scale(tolerance: float, y: float) -> str:
    """The scale of colours with its numbers, and the tolerance marked on it."""
    steps, width = 32, 240.0
    parts = [
        svg.rect(NAME_WIDTH + i * width / steps, y, width / steps + 0.5, 8,
                 fill=cividis((i + 0.5) / steps))
        for i in range(steps)
    ]  # fmt: skip
    for exponent in range(LOWEST_EXPONENT, 1, 2):
        x = NAME_WIDTH + width * (exponent - LOWEST_EXPONENT) / -LOWEST_EXPONENT
        label = "1" if exponent == 0 else f"1e{exponent}"
        anchor = "start" if exponent == LOWEST_EXPONENT else "middle"
        parts.append(svg.text(x, y + 21, label, text_anchor=anchor, fill=LIGHT.quiet, font_size=10))
    x = NAME_WIDTH + width * _position(tolerance)
    parts.append(svg.line(x, y - 5, x, y + 10, stroke=LIGHT.text, stroke_width=2))
    parts.append(
        svg.text(NAME_WIDTH + width + 8, y + 8, "▏tolerance " + format_error(tolerance),
                 fill=LIGHT.text, font_size=10)
    )  # fmt: skip
    parts.append(
        svg.text(NAME_WIDTH - 8, y + 8, "relative error", text_anchor="end", fill=LIGHT.quiet,
                 font_size=10)
    )  # fmt: skip
    return "".join(parts)


def _fault_words(fault: Fault) -> str:
    """What a bisection found, and the decision that leaves the rewrite out."""
    switch = f"; left out by decisions={{{fault.address!r}: False}}" if fault.address else ""
    return plain(f"{fault}{switch}")


def _tie_words(report: AccuracyReport) -> list[str]:
    """A line per near-tie after the last pass; older reports name only the operation."""
    if not report.passes:
        return []
    last = report.passes[-1]
    known = {tie.operation for tie in last.near_ties}
    return [plain(tie_words(tie)) for tie in last.near_ties] + [
        f"{plain(name)}: a near-tie of an index; what follows is compared in isolation."
        for name in last.ties
        if name not in known
    ]


def _position(error: float) -> float:
    """Where an error stands on the scale, 0 to 1; what is not a number stands at the end."""
    if math.isnan(error):
        return 1.0
    if error <= 0:
        return 0.0
    if math.isinf(error):
        return 1.0
    return min(max(math.log10(error) / -LOWEST_EXPONENT + 1, 0.0), 1.0)


def _order(error: float) -> float:
    return math.inf if math.isnan(error) else error


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


def _worst_layers(report: AccuracyReport) -> tuple[str, list[TensorError]]:
    """What the table is about, and its rows. Errors in isolation blame the layer that makes them;
    where they were not measured, the accumulated ones have to do."""
    is_isolated = any(p.tensors for p in report.isolated)
    measured = [p for p in (report.isolated if is_isolated else report.passes) if p.tensors]
    if not measured:
        return "", []
    last = measured[-1]
    layers = sorted(last.tensors, key=lambda t: -_order(t.max_relative))
    count = min(WORST_LAYERS, len(layers))
    how = "each fed the reference's inputs" if is_isolated else "errors accumulated"
    title = f"Worst layers after {plain(last.name)}, {how} ({count} of {len(layers)})"
    return title, layers[:count]


def _measures(error: TensorError) -> tuple[str, str, str]:
    return (
        format_error(error.max_relative),
        format_error(error.max_absolute),
        format_decibels(error.sqnr_db),
    )

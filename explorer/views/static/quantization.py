"""How a model was quantized: what every layer costs, and why thresholds lie where they do.

    thresholds: best, 200 examples; outputs against the float model: logits 40.7 dB
    costs the outputs most, by bisection: /stage2/relu1_output: 43.1 dB with this layer alone ...
    layer                 mode  represented   weights  reads  both   in the program  saturated
    /stage2/relu1_output  INT8  0 to 4.83     42 dB    47 dB  41 dB  38 dB           0 %

Of weights alone there are no thresholds; a row is a product:

    weights alone, 4.7 KiB instead of 25.3 KiB: 3 by gptq; outputs against the float model: ...
    product  weights             rounding  bytes          nearest  as rounded  sums           ...
    dense1   INT4, blocks of 16  gptq      3072 of 16384  22 dB    19 dB       6.2 dB better

Histograms are logarithmic: a bar of twice the height may count a hundred times as much.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable

from explorer.results import QuantizationRecord, Trace, ValueHistogram
from explorer.results.runs.quantization import RangeCandidate
from explorer.views.numbers import format_bytes, format_decibels, format_error, format_percent
from explorer.views.parts import svg
from explorer.views.parts.markup import (
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
from explorer.views.quantized_rows import QuantizedRow, blocked_bytes, rows
from explorer.views.theme import BLUE, LIGHT, VERMILLION, tone_of
from explorer.views.verdicts import costliest_words

HEADER = (
    "layer", "mode", "represented", "weights", "reads", "both", "in the program", "saturated",
)  # fmt: skip
ALIGN = "lnlrrrrr"
BLOCKS_HEADER = (
    "product", "weights", "rounding", "bytes", "nearest", "as rounded", "sums", "by itself",
    "in the program",
)  # fmt: skip
BLOCKS_ALIGN = "lnlrrrrrr"
BLOCKS_NOTE = (
    "Nearest and as rounded: signal to noise of the weights themselves. Sums: how much less they "
    "err by GPTQ than with the nearest numbers, over what calibration saw."
)
NO_HISTOGRAMS = (
    "No histograms: the table came without them. explorer calibrate MODEL --data FILE.npz -o TABLE "
    "writes them beside it, in TABLE.observed.npz"
)
NOT_MEASURED = "Costs are known after a comparison with the float model: c.accuracy(inputs)"
DRAWN = 4
"""Layers whose histograms a card shows."""
WIDTH, HEIGHT, LEFT = 460.0, 150.0, 8.0


def quantization_text(trace: Trace, width: int) -> str:
    """The outputs, the layers by their cost, and the candidates of the costliest."""
    record, found = _record(trace), rows(trace)
    lines = [_summary(trace), *map(plain, costliest_words(trace.accuracy))]
    if record.blocks:
        cells = [_block_cells(row) for row in found]
        lines += columns(cells, BLOCKS_HEADER, BLOCKS_ALIGN, width=width)
        lines += [NOT_MEASURED] * (trace.accuracy is None)
        return "\n".join([*lines, BLOCKS_NOTE])
    lines += columns([_cells(row) for row in found], HEADER, ALIGN, width=width)
    if trace.accuracy is None:
        lines.append(NOT_MEASURED)
    if all(t.observed is None for t in record.tensors):
        lines.append(NO_HISTOGRAMS)
    for row in _observed(found)[:1]:
        lines.append(f"Candidates of {plain(row.name)}, the costliest")
        candidates = [
            (c.method, range_words(c.low, c.high), *_candidate_errors(c)) for c in _candidates(row)
        ]
        lines += columns(candidates, ("method", "represents", "own error", "outputs"), "llrr")
    return "\n".join(lines)


def quantization_html(trace: Trace) -> str:
    """A card with the same and the histograms of the costliest layers."""
    record, found = _record(trace), rows(trace)
    sentences = (_summary(trace), *map(plain, costliest_words(trace.accuracy)))
    body = "".join(paragraph(escape(words)) for words in sentences)
    if record.blocks:
        cells = [[code(row[0]), *map(escape, row[1:])] for row in map(_block_cells, found)]
        body += table(cells, BLOCKS_HEADER, BLOCKS_ALIGN.replace("n", "l"))
        body += note(NOT_MEASURED) if trace.accuracy is None else ""
        return card("Quantization", body + note(BLOCKS_NOTE), subtitle="weights alone")
    cells = [[code(row[0]), *map(escape, row[1:])] for row in map(_cells, found)]
    body += table(cells, HEADER, ALIGN.replace("n", "l"))
    if trace.accuracy is None:
        body += note(NOT_MEASURED)
    observed = _observed(found)
    if not observed:
        return card("Quantization", body + note(NO_HISTOGRAMS))
    for row in observed[:DRAWN]:
        body += section(f"{plain(row.name)}: {_represented(row)} of what calibration saw")
        body += picture(_histogram_svg(row), WIDTH, f"histogram of {plain(row.name)}, logarithmic")
        cells = [
            [escape(c.method), escape(range_words(c.low, c.high)), *_candidate_errors(c)]
            for c in _candidates(row)
        ]
        body += table(cells, ("method", "represents", "own error", "outputs"), "llrr")
    if len(observed) > DRAWN:
        body += note(f"Histograms of the {DRAWN} costliest of {len(observed)} tensors.")
    return card("Quantization", body, subtitle=plain(record.method))


def range_words(low: float, high: float) -> str:
    """`0 to 4.83`, `±3.1`."""
    if low == -high:
        return f"±{high:.3g}"
    return f"{low:.3g} to {high:.3g}"


def _record(trace: Trace) -> QuantizationRecord:
    assert trace.quantization is not None, "the view needs it"
    return trace.quantization


def _summary(trace: Trace) -> str:
    record = _record(trace)
    how = plain(record.method) or "of a table that does not say how"
    words = [f"thresholds: {how}"]
    if record.blocks:
        words = [blocked_words(record)]
    report = trace.accuracy
    if report is not None and report.float_outputs:
        outputs = [
            f"{plain(o.tensor)} {o.sqnr_db:.1f} dB (cosine {o.cosine:.5f})"
            for o in report.float_outputs
        ]
        words.append(f"outputs against the float model: {', '.join(outputs)}")
    return "; ".join(words)


def blocked_words(record: QuantizationRecord) -> str:
    """`weights alone, 4.7 KiB instead of 25.3 KiB: 3 by gptq`: as they are, whatever was found."""
    narrow, wide = blocked_bytes(record)
    roundings = Counter(f"by {b.rounding}" if b.rounding else "float" for b in record.blocks)
    counts = ", ".join(f"{count} {how}" for how, count in sorted(roundings.items()))
    return f"weights alone, {format_bytes(narrow)} instead of {format_bytes(wide)}: {counts}"


def _block_cells(row: QuantizedRow) -> tuple[str, ...]:
    blocked, layer, far = row.blocked, row.layer, row.against_float
    assert blocked is not None
    gain = blocked.sums_gain_db
    decibels = (
        blocked.nearest_db,
        blocked.weights_db,
        None if layer is None else layer.both_db,
        None if far is None else far.sqnr_db,
    )
    nearest, own, alone, together = ("" if db is None else format_decibels(db) for db in decibels)
    return (
        row.name,
        f"{blocked.mode}, blocks of {blocked.block}" if blocked.block else "stay float",
        blocked.rounding,
        f"{blocked.size_bytes} of {blocked.float_bytes}",
        nearest,
        own,
        "" if gain is None else f"{gain:.1f} dB better",
        alone,
        together,
    )


def _cells(row: QuantizedRow) -> tuple[str, ...]:
    layer = row.layer
    stages = (None,) * 3 if layer is None else (
        layer.weights_db, layer.activations_db, layer.both_db,
    )  # fmt: skip
    far = None if row.against_float is None else row.against_float.sqnr_db
    return (
        row.name,
        row.tensor.mode if row.tensor else "",
        _represented(row),
        *("" if db is None else format_decibels(db) for db in (*stages, far)),
        "" if row.saturation is None else format_percent(row.saturation.share),
    )


def _represented(row: QuantizedRow) -> str:
    if row.tensor is None:
        return "stays float"
    return range_words(row.tensor.low, row.tensor.high)


def _observed(found: list[QuantizedRow]) -> list[QuantizedRow]:
    return [row for row in found if row.tensor is not None and row.tensor.observed is not None]


def _candidates(row: QuantizedRow) -> tuple[RangeCandidate, ...]:
    assert row.tensor is not None and row.tensor.observed is not None
    return row.tensor.observed.candidates


def _candidate_errors(candidate: RangeCandidate) -> tuple[str, str]:
    measured = candidate.outputs_db
    own = format_error(candidate.squared_error)
    return own, "" if measured is None else f"{measured:.1f} dB"


def _histogram_svg(row: QuantizedRow) -> str:
    """Bars over the logarithm of their counts, what is represented shaded, candidates as marks."""
    assert row.tensor is not None and row.tensor.observed is not None
    seen = row.tensor.observed
    histogram, low, high = seen.histogram, row.tensor.low, row.tensor.high
    left = min(histogram.start, low)
    right = max(histogram.start + histogram.width * len(histogram.counts), high)
    scale = (WIDTH - 2 * LEFT) / ((right - left) or 1.0)

    def x(value: float) -> float:
        return LEFT + (value - left) * scale

    base = HEIGHT - 20
    blue, red = tone_of(BLUE, LIGHT), tone_of(VERMILLION, LIGHT)
    parts = [svg.rect(x(low), 12, (high - low) * scale, base - 12, fill=blue.fill)]
    parts.append(svg.path(_bars(histogram, x, base), fill=LIGHT.quiet))
    for candidate in seen.candidates:
        for end in {candidate.low, candidate.high} - {0.0}:
            parts.append(
                svg.line(x(end), 12, x(end), base, stroke=LIGHT.text, stroke_dasharray="2 3")
            )
    for end in {low, high} - {0.0}:
        parts.append(svg.line(x(end), 4, x(end), base + 4, stroke=red.edge, stroke_width=2))
    for value, anchor in ((left, "start"), (right, "end")):
        words = f"{value:.3g}"
        parts.append(svg.text(x(value), HEIGHT - 6, words, text_anchor=anchor, fill=LIGHT.quiet,
                              font_size=11))  # fmt: skip
    return svg.document(WIDTH, HEIGHT, "".join(parts))


def _bars(histogram: ValueHistogram, x: Callable[[float], float], base: float) -> str:
    """One path of all bars; one number is one pixel high at least."""
    most = math.log1p(max(histogram.counts, default=0)) or 1.0
    found = []
    for place, count in enumerate(histogram.counts):
        if not count:
            continue
        start = x(histogram.start + place * histogram.width)
        end = x(histogram.start + (place + 1) * histogram.width)
        top = base - max(1.0, math.log1p(count) / most * (base - 16))
        found.append(f"M{start:.1f} {base:.1f}V{top:.1f}H{end:.1f}V{base:.1f}Z")
    return "".join(found)

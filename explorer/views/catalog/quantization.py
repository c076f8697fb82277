"""How a model was quantized: what every layer costs, and why thresholds lie where they do.

    thresholds: best, 200 examples; outputs against the float model: logits 40.7 dB
    costs the outputs most, by bisection: /stage2/relu1_output: 43.1 dB with this layer alone ...
    layer                 mode  represented   weights  reads  both   in the program  saturated
    /stage2/relu1_output  INT8  0 to 4.83     42 dB    47 dB  41 dB  38 dB           0 %

Of weights alone there are no thresholds; a row is a product:

    weights alone, 4.7 KiB instead of 25.3 KiB: 3 by gptq; outputs against the float model: ...
    product  weights  block  rounding    bytes  nearest  as rounded  sums better by  ...
    dense1   INT4        16  gptq      3.0 KiB    22 dB       19 dB            6 dB

Histograms are logarithmic: a bar of twice the height may count a hundred times as much.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from explorer.results import (
    BlockedWeights,
    ObservedTensor,
    QuantizationRecord,
    QuantizedTensor,
    Trace,
    WeightRanges,
)
from explorer.results.runs.quantization import RangeCandidate
from explorer.views.numbers import format_bytes, format_count, format_decibels, format_exact
from explorer.views.payload.measures import number, rounded
from explorer.views.payload.text import Json
from explorer.views.quantized_rows import QuantizedRow, blocked_bytes, rows
from explorer.views.specification import (
    Action,
    Bars,
    Cell,
    ChartSpec,
    Column,
    Label,
    Line,
    Mark,
    Own,
    Part,
    Rect,
    Row,
    Section,
    Specification,
    TableSpec,
    Text,
)
from explorer.views.theme import BLUE, LIGHT, tone_of
from explorer.views.verdicts import costliest_parts
from explorer.views.view import JAVASCRIPT, Pane, View

THRESHOLD, MODE = "quantize-tensors/threshold/", "quantize-tensors/mode/"
WEIGHTS = "quantize-weights/mode/"
MODES = {"INT8": "store it in 8 bits", "INT16": "store it in 16 bits", "F32": "keep it float"}
WEIGHT_MODES = {
    "INT4": "4 bits around zero",
    "UINT4": "4 bits with a zero point",
    "INT8": "8 bits around zero",
    "UINT8": "8 bits with a zero point",
    "F32": "keep it float",
}
IN_PROGRAM = "SQNR against the float model, with the errors of all before it"
LAYERS = (
    Column(key="layer", title="layer", format="layer"),
    Column(key="mode", title="mode"),
    Column(key="represented", title="represented"),
    Column(
        key="weights",
        title="weights",
        format="decibels",
        hint="SQNR of the layer by itself, only its weights rounded",
        moves="sqnr_db",
    ),
    Column(
        key="reads",
        title="reads",
        format="decibels",
        hint="SQNR of the layer by itself, only what it reads rounded",
        moves="sqnr_db",
    ),
    Column(
        key="both",
        title="both",
        format="decibels",
        hint="SQNR of the layer by itself: the lower, the more it costs",
        moves="sqnr_db",
    ),
    Column(
        key="in_program",
        title="in program",
        format="decibels",
        hint=IN_PROGRAM,
        moves="sqnr_db",
    ),
    Column(
        key="saturated",
        title="saturated",
        format="percent",
        hint="share of elements beyond what is represented",
        moves="sqnr_db",
    ),
)
PRODUCTS = (
    Column(key="layer", title="product", format="layer"),
    Column(key="weights", title="weights"),
    Column(
        key="block", title="block", format="count", hint="weights with one scale", moves="sqnr_db"
    ),
    Column(key="rounding", title="rounding"),
    Column(
        key="bytes",
        title="bytes",
        format="bytes",
        hint="of the weights with their scales and zero points",
        moves="weights_bytes",
    ),
    Column(
        key="nearest",
        title="nearest",
        format="decibels",
        hint="SQNR of the weights if each were the nearest number",
        moves="sqnr_db",
    ),
    Column(
        key="own",
        title="as rounded",
        format="decibels",
        hint="SQNR of the weights",
        moves="sqnr_db",
    ),
    Column(
        key="gain",
        title="sums better by",
        format="decibels",
        hint="how much less sums err by GPTQ than with the nearest numbers, over what calibration "
        "saw",
        moves="sqnr_db",
    ),
    Column(
        key="both",
        title="by itself",
        format="decibels",
        hint="SQNR of the product by itself: the lower, the more it costs",
        moves="sqnr_db",
    ),
    Column(
        key="in_program",
        title="in program",
        format="decibels",
        hint=IN_PROGRAM,
        moves="sqnr_db",
    ),
)
CANDIDATES = (
    Column(key="method", title="method"),
    Column(key="represents", title="represents", format="name"),
    Column(
        key="own",
        title="own error",
        format="error",
        hint="expected squared error of the tensor's own numbers",
        moves="sqnr_db",
    ),
    Column(
        key="outputs",
        title="outputs",
        format="decimal",
        hint="signal to noise of the model's outputs with this range; – was not measured",
        moves="sqnr_db",
    ),
    Column(key="use", title=""),
)
READS = (
    Column(key="layer", title="reads", format="layer"),
    Column(key="both", title="both", format="decibels", moves="sqnr_db"),
)
NO_HISTOGRAMS = (
    "No histograms: the table came without them. explorer calibrate MODEL --data FILE.npz -o TABLE "
    "writes them next to it, in TABLE.observed.npz; explorer.calibrate(model, data) returns them."
)
NOT_MEASURED = "Costs are known after a comparison with the float model: c.accuracy(inputs)"
BLOCKS_NOTE = (
    "Nearest and as rounded: signal to noise of the weights themselves. Sums: how much less they "
    "err by GPTQ than with the nearest numbers, over what calibration saw."
)
MAX_DETAILS = 4
"""Layers whose histograms a card shows."""
WIDTH, HEIGHT, LEFT = 460.0, 150.0, 8.0
CHANNELS_WIDTH, CHANNELS_HEIGHT, CHANNELS_LEFT = 440.0, 96.0, 48.0


def quantization(trace: Trace, index: int = -1) -> Specification:
    """The outputs, and the layers by their cost with histograms and candidates of each."""
    record, found = _record(trace), rows(trace)
    how = f"thresholds: {record.method or 'of a table that does not say how'}"
    how = blocked_words(record) if record.blocks else how
    how += f", from {record.table}" if record.table else ""
    parts: list[Part] = [Text(text=how), *costliest_parts(trace.accuracy)]
    if trace.accuracy is None or trace.accuracy.quantization is None:
        parts.append(Text(text=NOT_MEASURED))
    knobs = {knob.address: knob.value for knob in trace.knobs}
    made = {row.name: row for row in found}
    of = _product if record.blocks else _layer
    parts.append(
        TableSpec(
            title="layers by what quantizing them costs",
            columns=PRODUCTS if record.blocks else LAYERS,
            rows=tuple(of(row, made, knobs) for row in found),
            max_details=MAX_DETAILS,
            chosen=next((place for place, row in enumerate(found) if _seen(row)), 0),
        )
    )
    if record.blocks:
        parts.append(Text(text=BLOCKS_NOTE))
    elif all(tensor.observed is None for tensor in record.tensors):
        parts.append(Text(text=NO_HISTOGRAMS))
    if candidates := next((_candidates(row) for row in found if _seen(row)), None):
        name = next(row.name for row in found if _seen(row))
        title = f"Candidates of {name}, the costliest"
        parts.append(Section(title=title, parts=(candidates,), is_for_page=False))
    return Specification(title="Quantization", subtitle=_outputs(trace), parts=tuple(parts))


def _record(trace: Trace) -> QuantizationRecord:
    assert trace.quantization is not None, "the view needs it"
    return trace.quantization


def _outputs(trace: Trace) -> str:
    words = trace.accuracy.from_float_words if trace.accuracy else ""
    return f"outputs against the float model: {words}" if words else ""


def blocked_words(record: QuantizationRecord) -> str:
    """`weights alone, 4.7 KiB instead of 25.3 KiB: 3 by gptq`: as they are, whatever was found."""
    narrow, wide = blocked_bytes(record)
    roundings = Counter(f"by {b.rounding}" if b.rounding else "float" for b in record.blocks)
    counts = ", ".join(f"{count} {how}" for how, count in sorted(roundings.items()))
    return f"weights alone, {format_bytes(narrow)} instead of {format_bytes(wide)}: {counts}"


def range_words(low: float, high: float) -> str:
    """`0 to 4.83`, `±3.1`."""
    return f"±{high:.3g}" if low == -high else f"{low:.3g} to {high:.3g}"


def _operations(row: QuantizedRow) -> tuple[str, ...]:
    """The one that makes it, and where it stands after the passes that follow."""
    own = () if row.layer is None else (row.layer.operation,)
    return tuple(dict.fromkeys((*own, row.operation)))


# -- weights alone ---------------------------------------------------------------------------------


def _product(
    row: QuantizedRow, made: Mapping[str, QuantizedRow], knobs: Mapping[str, object]
) -> Row:
    blocked, layer, far = row.blocked, row.layer, row.against_float
    assert blocked is not None
    return Row(
        operations=_operations(row),
        details=tuple(_product_details(blocked, knobs)),
        cells={
            "layer": row.name,
            "weights": blocked.mode if blocked.block else "stay float",
            "block": blocked.block or None,
            "rounding": blocked.rounding,
            "bytes": Cell(
                value=blocked.size_bytes,
                exact=f"{format_exact(blocked.size_bytes)} of {format_exact(blocked.float_bytes)}",
            ),
            "nearest": blocked.nearest_db,
            "own": blocked.weights_db,
            "gain": blocked.sums_gain_db,
            "both": None if layer is None else _decibels(layer.both_db),
            "in_program": None if far is None else _decibels(far.sqnr_db),
        },
    )


def _product_details(blocked: BlockedWeights, knobs: Mapping[str, object]) -> Iterator[Part]:
    address = f"{WEIGHTS}{blocked.operation}"
    if address in knobs:
        yield from _choices(address, blocked.mode, WEIGHT_MODES)
    if not blocked.block:
        yield Text(text="Its weights stay float.")
        return
    yield Text(
        text=f"{blocked.mode} in blocks of {blocked.block}, rounded by {blocked.rounding}: "
        f"{format_bytes(blocked.size_bytes)} instead of {format_bytes(blocked.float_bytes)} "
        f"({100 * blocked.size_bytes / blocked.float_bytes:.1f} %), read where they are multiplied."
    )
    own, nearest = (
        format_decibels(math.nan if db is None else db)
        for db in (blocked.weights_db, blocked.nearest_db)
    )
    if blocked.sums_gain_db is None:
        yield Text(text=f"Each is the nearest number: {own} of the weights themselves.")
        return
    yield Text(
        text=f"By GPTQ sums err {format_decibels(blocked.sums_gain_db)} less over what calibration "
        f"saw. The weights themselves have {own}, with the nearest numbers {nearest}: errors make "
        "up for one another."
    )


def _choices(address: str, mode: str, modes: Mapping[str, str]) -> Iterator[Action]:
    for other, title in modes.items():
        if other != mode:
            yield Action(title=title, decisions={address: other})


# -- tensors ---------------------------------------------------------------------------------------


def _layer(row: QuantizedRow, made: Mapping[str, QuantizedRow], knobs: Mapping[str, object]) -> Row:
    layer, far, saturation = row.layer, row.against_float, row.saturation
    return Row(
        operations=_operations(row),
        details=tuple(_layer_details(row, made, knobs)),
        cells={
            "layer": row.name,
            "mode": row.tensor.mode if row.tensor else "",
            "represented": range_words(row.tensor.low, row.tensor.high)
            if row.tensor
            else "stays float",
            "weights": None if layer is None else _decibels(layer.weights_db),
            "reads": None if layer is None else _decibels(layer.activations_db),
            "both": None if layer is None else _decibels(layer.both_db),
            "in_program": None if far is None else _decibels(far.sqnr_db),
            "saturated": None
            if saturation is None
            else Cell(
                value=saturation.share,
                exact=f"{saturation.clipped:,} of {saturation.total:,} elements",
            ),
        },
    )


def _decibels(value: float | None) -> Cell:
    return Cell(value=value, exact="" if value is None else f"{value:.2f} dB")


def _layer_details(
    row: QuantizedRow, made: Mapping[str, QuantizedRow], knobs: Mapping[str, object]
) -> Iterator[Part]:
    tensor, layer = row.tensor, row.layer
    if tensor is None:
        yield Text(text="Only floats read this result, so it has no threshold: sums are as good.")
    else:
        stored = "stays float"
        if tensor.storage:
            stored = f"{tensor.storage}, represents {range_words(tensor.low, tensor.high)}"
        yield Text(text=stored)
        yield from _choices(f"{MODE}{tensor.name}", tensor.mode, MODES)
        if tensor.observed is None:
            yield Text(text=NO_HISTOGRAMS)
        else:
            yield _threshold(row.name, tensor, tensor.observed, knobs)
    if layer is not None and layer.activations_db is not None:
        apart = math.nan if layer.weights_db is None else layer.weights_db - layer.activations_db
        gap = round(apart) if math.isfinite(apart) else 0
        words = f"{layer.operation} makes it"
        if gap > 0:
            words += f"; rounding what it reads costs {gap} dB more than rounding its weights"
        if gap < 0:
            words += f"; rounding its weights costs {-gap} dB more than what it reads"
        yield Text(text=words, layers=(layer.operation,))
        reads = [made[name] for name in layer.reads if name in made and name != row.name]
        table = tuple(
            Row(
                operations=_operations(read),
                cells={"layer": read.name, "both": read.layer and read.layer.both_db},
            )
            for read in reads
        )
        if table:
            yield TableSpec(title="what it reads", columns=READS, rows=table)
    if candidates := _candidates(row):
        yield candidates
        seen = _seen(row)
        assert seen is not None
        yield Text(
            text=f"{format_count(seen.histogram.count, 'number')} were seen, from "
            f"{seen.histogram.low:.3g} to {seen.histogram.high:.3g}."
        )
    if row.weights is not None:
        yield from _channels(row.weights)


def _seen(row: QuantizedRow) -> ObservedTensor | None:
    return row.tensor and row.tensor.observed


def _candidates(row: QuantizedRow) -> TableSpec | None:
    """Ranges that the methods would choose; the one in use, and those that are best at something.
    Ranges are equal up to the rounding of scales and zero points."""
    tensor, seen = row.tensor, _seen(row)
    if tensor is None or seen is None:
        return None
    least = min((c.squared_error for c in seen.candidates), default=0.0)
    most = max((c.outputs_db or -math.inf for c in seen.candidates), default=-math.inf)
    near = (tensor.high - tensor.low) / 255

    def of(candidate: RangeCandidate) -> Row:
        low, high = candidate.low, candidate.high
        is_used = abs(low - tensor.low) <= near and abs(high - tensor.high) <= near
        decisions = {f"{THRESHOLD}{tensor.name}": float(f"{max(-low, high):.6g}")}
        measured = candidate.outputs_db
        words = [
            *(["in use"] if is_used else []),
            *(["least error"] if candidate.squared_error == least else []),
            *(["best outputs"] if measured is not None and measured == most else []),
        ]
        return Row(
            action=None if is_used else Action(title="use", decisions=decisions),
            cells={
                "method": candidate.method,
                "represents": range_words(low, high),
                "own": candidate.squared_error,
                "outputs": None
                if measured is None
                else Cell(value=measured, text=f"{measured:.1f} dB"),
                "use": ", ".join(words),
            },
        )

    title = "thresholds of all methods"
    return TableSpec(title=title, columns=CANDIDATES, rows=tuple(map(of, seen.candidates)))


def _threshold(
    name: str, tensor: QuantizedTensor, seen: ObservedTensor, knobs: Mapping[str, object]
) -> Own:
    """The histogram: in the page the end that is in use can be dragged."""
    histogram = seen.histogram
    address = f"{THRESHOLD}{tensor.name}"
    data: Json = {
        "name": name,
        "tensor": {
            "low": number(tensor.low),
            "high": number(tensor.high),
            "address": address,
            "knob": knobs.get(address),
        },
        "observed": {
            "start": number(histogram.start),
            "width": number(histogram.width),
            "counts": list(histogram.counts),
            "zeros": histogram.zeros,
            "bits": seen.bits,
            "candidates": [
                {
                    "method": c.method,
                    "low": number(c.low),
                    "high": number(c.high),
                    "own": rounded(c.squared_error),
                }
                for c in seen.candidates
            ],
        },
    }
    return Own(name="threshold", data=data, parts=(_histogram(name, tensor, seen),))


def _histogram(name: str, tensor: QuantizedTensor, seen: ObservedTensor) -> ChartSpec:
    """Bars over the logarithm of their counts, what is represented shaded, candidates as marks."""
    histogram, low, high = seen.histogram, tensor.low, tensor.high
    left = min(histogram.start, low)
    right = max(histogram.start + histogram.width * len(histogram.counts), high)
    scale = (WIDTH - 2 * LEFT) / ((right - left) or 1.0)
    base = HEIGHT - 20

    def x(value: float) -> float:
        return LEFT + (value - left) * scale

    most = math.log1p(max(histogram.counts, default=0)) or 1.0
    heights = (max(1.0, (base - 14) * math.log1p(c) / most) if c else 0 for c in histogram.counts)
    shade = tone_of(BLUE, LIGHT).fill
    marks: list[Mark] = [
        Rect(x=x(low), y=12, width=(high - low) * scale, height=base - 12, role=shade),
        Bars(
            x=x(histogram.start),
            base=base,
            step=histogram.width * scale,
            heights=tuple(heights),
            role="quiet",
        ),
    ]
    ends = {end for c in seen.candidates for end in (c.low, c.high)} - {0.0}
    for end in sorted(ends):
        marks.append(Line(points=((x(end), 12), (x(end), base)), role="text", is_dashed=True))
    for end in sorted({low, high} - {0.0}):
        marks.append(Line(points=((x(end), 4), (x(end), base + 4)), role="#d55e00"))
    marks.append(Label(x=x(left), y=HEIGHT - 6, text=f"{left:.3g}"))
    marks.append(Label(x=x(right), y=HEIGHT - 6, text=f"{right:.3g}", anchor="end"))
    title = f"histogram of {name}, logarithmic"
    return ChartSpec(title=title, width=WIDTH, height=HEIGHT, marks=tuple(marks))


def _channels(weights: WeightRanges) -> tuple[Part, ...]:
    """A bar from the lowest to the highest weight of each channel. Where some are many times as
    wide as others, one scale for all would leave those few steps."""
    sizes = [max(-low, high) for low, high in zip(weights.lows, weights.highs, strict=True)]
    count = len(sizes)
    largest = max(sizes, default=0.0) or 1.0
    narrow = min((size for size in sizes if size > 0), default=largest)
    words = f"Weights of {weights.operation}: {format_count(weights.total, 'channel')}"
    if count < weights.total:
        words += f", shown are the {count // 2} widest and the {count // 2} narrowest"
    words += f"; the widest has {largest / narrow:.1f} times the range of the narrowest"
    middle = (CHANNELS_HEIGHT - 16) / 2 + 2
    step = (CHANNELS_WIDTH - CHANNELS_LEFT - 4) / max(count, 1)

    def y(value: float) -> float:
        return value / largest * (middle - 6)

    marks: list[Mark] = []
    for tick in (largest, 0.0, -largest):
        at = middle - y(tick)
        marks.append(Line(points=((CHANNELS_LEFT, at), (CHANNELS_WIDTH - 4, at)), role="border"))
        marks.append(Label(x=CHANNELS_LEFT - 6, y=at + 4, text=f"{tick:.3g}", anchor="end"))
    marks.append(
        Bars(
            x=CHANNELS_LEFT,
            base=middle,
            step=step,
            heights=tuple(round(y(high) + 0.5, 1) for high in weights.highs),
            depths=tuple(round(y(-low) + 0.5, 1) for low in weights.lows),
            titles=_channel_words(weights),
        )
    )
    chart = ChartSpec(
        title=f"ranges of {count} channels of {weights.operation}",
        width=CHANNELS_WIDTH,
        height=CHANNELS_HEIGHT,
        marks=tuple(marks),
    )
    return Text(text=words), chart


def _channel_words(weights: WeightRanges) -> tuple[str, ...]:
    ranges: Sequence[tuple[int, float, float]] = tuple(
        zip(weights.channels, weights.lows, weights.highs, strict=True)
    )
    return tuple(f"{channel}: {low:.3g} to {high:.3g}" for channel, low, high in ranges)


def _payload(trace: Trace) -> Json:
    """For the overlays of the graph."""
    found = rows(trace)
    return {
        "layers": [[r.layer.operation, rounded(r.layer.both_db)] for r in found if r.layer],
        "saturated": [[r.operation, r.saturation.share] for r in found if r.saturation],
    }


VIEW = View(
    name="quantization",
    title="thresholds over histograms, and what quantizing every layer costs",
    needs=("quantization",),
    uses=("accuracy",),
    specification=quantization,
    json=lambda trace, _: rows(trace),
    payload=_payload,
    pane=Pane(
        moves="sqnr_db",
        module=JAVASCRIPT / "measures" / "threshold_plot.js",
        function="quantizationPane",
        key="q",
        is_optional=True,
    ),
)

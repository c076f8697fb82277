"""Weights of the model as it was imported: numbers, a histogram and a picture of each.

operation  weight               shape     type     bytes    low   high  mean  deviation  zeros
conv1      stage1.conv1.weight  16x1x3x3  float32  576 B  -0.61   0.66  0.02       0.29    0 %
"""

from __future__ import annotations

import base64
import binascii
import math

from explorer.results import Trace
from explorer.results.weights import PART, WeightsRecord, WeightTensor
from explorer.views.fixed_numbers import MODEL, WEIGHTS
from explorer.views.numbers import format_bytes, format_count, format_error
from explorer.views.specification import (
    Bars,
    Cell,
    ChartSpec,
    Column,
    ImageSpec,
    Label,
    Part,
    Row,
    Specification,
    TableSpec,
)
from explorer.views.view import Pane, View

COLUMNS = (
    Column(key="operation", title="operation", format="layer"),
    Column(key="weight", title="weight", format="name"),
    Column(key="shape", title="shape", moves=MODEL),
    Column(key="type", title="type"),
    Column(key="bytes", title="bytes", format="bytes", moves="weights_bytes"),
    Column(key="low", title="low", format="error", hint="the smallest element", moves=WEIGHTS),
    Column(key="high", title="high", format="error", hint="the largest element", moves=WEIGHTS),
    Column(key="mean", title="mean", format="error", moves=WEIGHTS),
    Column(
        key="deviation", title="deviation", format="error", hint="standard deviation", moves=WEIGHTS
    ),
    Column(
        key="zeros",
        title="zeros",
        format="percent",
        hint="elements that are exactly zero",
        moves=WEIGHTS,
    ),
    Column(
        key="not_finite",
        title="not finite",
        format="count",
        hint="NaN and infinities",
        moves=WEIGHTS,
    ),
)
WIDTH, HEIGHT, BASE = 384, 96, 78
"""Of a histogram; its bars stand on `BASE`."""


def weights(trace: Trace, index: int = -1) -> Specification:
    """A row for every weight, with the distribution and a picture of its elements."""
    record = trace.part(PART, WeightsRecord)
    assert record is not None, "the view needs it"
    table = TableSpec(
        title="weights", columns=COLUMNS, rows=tuple(map(_row, record.tensors)), sort_by="bytes"
    )
    total = sum(tensor.size_bytes for tensor in record.tensors)
    more = f", {record.left_out:,} more not shown" if record.left_out else ""
    return Specification(
        title="Weights",
        subtitle=f"{format_count(len(record.tensors), 'weight')} of {format_bytes(total)}{more}",
        parts=(table,),
    )


def _row(tensor: WeightTensor) -> Row:
    return Row(
        operations=(tensor.operation,),
        title=f"{tensor.operation}: {tensor.name}",
        details=_pictures(tensor),
        cells={
            "operation": tensor.operation,
            "weight": tensor.name,
            "shape": "x".join(map(str, tensor.shape)),
            "type": tensor.element_type,
            "bytes": Cell(value=tensor.size_bytes, exact=format_count(tensor.size_bytes, "byte")),
            "low": Cell(value=tensor.low, text=_end(tensor, tensor.low), exact=repr(tensor.low)),
            "high": Cell(
                value=tensor.high, text=_end(tensor, tensor.high), exact=repr(tensor.high)
            ),
            "mean": tensor.mean,
            "deviation": tensor.deviation,
            "zeros": tensor.zeros,
            "not_finite": tensor.not_finite or None,
        },
    )


def _end(tensor: WeightTensor, number: float) -> str:
    """Of a range: of whole numbers all digits."""
    is_whole = "int" in tensor.element_type and math.isfinite(number)
    return f"{int(number):,}" if is_whole else format_error(number)


def _pictures(tensor: WeightTensor) -> tuple[Part, ...]:
    parts: tuple[Part, ...] = (_histogram(tensor),)
    rows, columns = tensor.picture
    try:
        pixels = base64.b64decode(tensor.pixels, validate=True)
    except binascii.Error:
        pixels = b""
    if rows > 0 and len(pixels) == rows * columns:
        title = f"{tensor.name}: the first axis downwards, the others to the right"
        parts += (ImageSpec(title=title, width=columns, height=rows, pixels=pixels),)
    return parts


def _histogram(tensor: WeightTensor) -> ChartSpec:
    """Elements by their value; the height is their number."""
    most = max(tensor.counts, default=0) or 1
    marks = (
        Bars(
            x=0,
            base=BASE,
            step=WIDTH / max(len(tensor.counts), 1),
            heights=tuple(round((BASE - 4) * count / most, 1) for count in tensor.counts),
        ),
        Label(x=0, y=HEIGHT - 4, text=_end(tensor, tensor.low)),
        Label(x=WIDTH, y=HEIGHT - 4, text=_end(tensor, tensor.high), anchor="end"),
    )
    title = f"{tensor.name}: elements by value, {most:,} in the highest bar"
    return ChartSpec(title=title, width=WIDTH, height=HEIGHT, marks=marks, moves=WEIGHTS)


VIEW = View(
    name="weights",
    title="weights of the model: range, histogram and picture of each",
    needs=(PART,),
    specification=weights,
    json=lambda trace, _: trace.part(PART, WeightsRecord),
    pane=Pane(moves="weights_bytes", key="i", is_optional=True),
)

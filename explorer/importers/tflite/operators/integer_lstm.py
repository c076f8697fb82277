"""LSTMs of bytes: weights and outputs of 8 bits, gates and cells of 16.

    sums of x and of h, each requantized to 1/4096 and added        i, f, o, g: 16 bits
    sigmoid and tanh of them by tables                               1/32768
    c' = f c / 2^15 + i g / 2^(30 + log2(scale of c))                16 bits, saturated and clipped
    h' = o tanh(c')                                               in the scale of the hidden state
    h' W + b                                                      where there is a projection

Without weights of its own the input gate is 32767 - f. The products of the inputs of all steps are
made at once. Source: tensorflow/lite/kernels/lstm_eval.cc, `LstmStepInteger` with cells of 16 bits,
and unidirectional_sequence_lstm.cc, `PopulateQuantizedLstmParams8x8_16`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from math import log2

import numpy as np
from xdsl.dialects.builtin import IntegerType

from explorer.importers.building.build import Build, Unsupported
from explorer.importers.building.expr import Expr
from explorer.importers.building.quantized_types import as_quantized, as_stored
from explorer.importers.building.recurrence import State, run_steps
from explorer.importers.tflite.operators.int16 import MAX_INT16, MIN_INT16, NUMBERS, looked_up_int16
from explorer.importers.tflite.operators.integer_svdf import rescaled
from explorer.importers.tflite.operators.integers import kept_within
from explorer.importers.tflite.operators.node import TfliteNode, kind_of
from explorer.importers.tflite.operators.schemes import DOUBLE
from explorer.importers.tflite.operators.short_fixed_point import sigmoid, tanh
from explorer.ir.deferred import read_only
from explorer.ir.requantization import Requantization, RequantizationAttr, integer_limits
from explorer.ir.top.quantization.fixed_point import FixedPointOp
from explorer.ir.top.quantization.quantized import RequantizeOp
from explorer.ir.types import QuantizedType

INPUT, FORGET, NEW, OUTPUT = range(4)
"""Gates, in the order of operands."""
ORDER = (INPUT, FORGET, OUTPUT, NEW)
"""Those with a sigmoid, and then the cell's."""
INPUT_WEIGHTS, RECURRENT_WEIGHTS, BIASES, STATE, CELL = 1, 5, 12, 18, 19
PROJECTION, PROJECTION_BIAS = 16, 17
HIDDEN_SCALE = 4
"""Of the intermediate tensors: the one that says how h is stored before a projection."""
GATE_SCALE = 2.0**-12
SHIFTED = Requantization("shift", "nearest_away_from_zero")
WORD, WIDE = IntegerType(16), IntegerType(32)
UNIT = QuantizedType.get(WORD, [2.0**-15], [0])
"""Of what lies between -1 and 1."""


@dataclass(frozen=True)
class _Layer:
    """What all steps share."""

    order: Sequence[int]
    """The gates with weights of their own, as `ORDER` has them."""
    size: int
    """Cells of each."""
    recurrence: Expr
    """(hidden, gates * hidden), bytes."""
    recurrent_scales: tuple[float, ...]
    hidden: QuantizedType
    made: QuantizedType
    cell: QuantizedType
    limits: tuple[int, int]
    """Of cells."""
    project: Callable[[Expr], Expr]
    """The hidden state in the type `hidden`, of what is `made`."""


def integer_lstm(node: TfliteNode, time_axis: int, longest: int, build: Build) -> Sequence[Expr]:
    """The hidden state after each step, with the axis of time, and both states after the last."""
    layer = _layer(node, build)
    from_inputs = _of_inputs(node, layer.order, build)
    state = [node.operand(STATE, build), node.operand(CELL, build)]

    def step(parts: Sequence[Expr], now: State) -> tuple[State, Expr]:
        hidden, cell = now
        hidden, cell = _step(parts[0], hidden, cell, layer, build)
        return [hidden, cell], hidden

    made, last = run_steps(
        build, step, [from_inputs], state, False, axis=time_axis, longest=longest
    )
    return [made, *last]


def _layer(node: TfliteNode, build: Build) -> _Layer:
    hidden, cell = (kind_of(node.tensor(place)) for place in (STATE, CELL))
    if hidden is None or cell is None or cell.storage != WORD:
        raise Unsupported("an LSTM of bytes whose cells have no 16 bits")
    exponent = log2(float(cell.scale_array[0]))
    if not exponent.is_integer() or not -15 <= exponent <= -9:
        raise Unsupported(
            f"cells with the scale {cell.scale_array[0]}, no power of two near 1/4096"
        )
    inner = node.file.intermediates
    between = kind_of(inner[HIDDEN_SCALE]) if len(inner) > HIDDEN_SCALE else hidden
    if between is None:
        raise Unsupported("an LSTM of bytes that does not say the scale of its hidden state")
    clip = node.number("cell_clip")
    farthest = min(int(np.float32(clip) / cell.scale_array[0]), MAX_INT16) if clip > 0 else 0
    order = [gate for gate in ORDER if gate != INPUT or node.has(INPUT_WEIGHTS)]
    # Before a projection the kernel takes the zero point away, and bytes saturate accordingly.
    zeros = between.zero_point_array * (-1 if node.has(PROJECTION) else 1)
    made = QuantizedType.get(hidden.storage, between.scale_array.tolist(), zeros.tolist())
    (size,) = node.plain(RECURRENT_WEIGHTS + FORGET).sizes([0], "an LSTM")
    return _Layer(
        order=order,
        size=size,
        recurrence=_joined(node, RECURRENT_WEIGHTS, order, build),
        recurrent_scales=_scales(node, STATE, RECURRENT_WEIGHTS, order),
        hidden=hidden,
        made=made,
        cell=cell,
        limits=(-farthest, farthest) if farthest else (MIN_INT16, MAX_INT16),
        project=_projection(node, made, hidden, build),
    )


def _projection(
    node: TfliteNode, made: QuantizedType, hidden: QuantizedType, build: Build
) -> Callable[[Expr], Expr]:
    if not node.has(PROJECTION):
        return lambda numbers: as_quantized(as_stored(numbers, build), hidden, build)
    weights = kind_of(node.tensor(PROJECTION))
    if weights is None or not weights.is_per_tensor or weights.zero_point_array.any():
        raise Unsupported("a projection with zero points, or a scale for each slice")
    columns = node.operand(PROJECTION, build).transpose([1, 0])
    bias = node.plain(PROJECTION_BIAS) if node.has(PROJECTION_BIAS) else None
    ratio = float(weights.scale_array[0] * made.scale_array[0] / hidden.scale_array[0])
    clip = node.number("proj_clip")
    farthest = min(int(np.float32(clip) / hidden.scale_array[0]), 127) if clip > 0 else 0

    def project(numbers: Expr) -> Expr:
        sums = as_stored(build.matmul(numbers, columns, bias), build)
        found = rescaled(sums, ratio, hidden, build)
        if not farthest:
            return found
        clipped = kept_within(as_stored(found, build), (-farthest, farthest))
        return as_quantized(clipped, hidden, build)

    return project


def _joined(node: TfliteNode, first: int, order: Sequence[int], build: Build) -> Expr:
    """The weights of all gates, (inputs, gates * hidden), with a scale for each gate's."""
    kinds = [kind_of(node.tensor(first + gate)) for gate in order]
    parts = [build.known(node.plain(first + gate), "weights") for gate in order]
    scales: list[float] = []
    for kind, part in zip(kinds, parts, strict=True):
        if kind is None or not kind.is_per_tensor or kind.zero_point_array.any():
            raise Unsupported("weights of an LSTM with zero points, or a scale for each slice")
        scales += [float(kind.scale_array[0])] * len(part)
    kind = QuantizedType.get(IntegerType(8), scales, [0] * len(scales), 1)
    name = f"{node.tensor(first + FORGET).name}.gates"
    return build.weight(np.ascontiguousarray(np.concatenate(parts).T), name, kind)


def _scales(node: TfliteNode, source: int, first: int, order: Sequence[int]) -> tuple[float, ...]:
    """Of the sums, one for each column: products of singles, as the kernel has them."""
    kind = kind_of(node.tensor(source))
    if kind is None:
        raise Unsupported("an LSTM of bytes whose operands are none")
    found: list[float] = []
    for gate in order:
        weight = kind_of(node.tensor(first + gate))
        assert weight is not None
        (count,) = node.plain(first + gate).sizes([0], "an LSTM")
        found += [float(kind.scale_array[0] * weight.scale_array[0])] * count
    return tuple(found)


def _of_inputs(node: TfliteNode, order: Sequence[int], build: Build) -> Expr:
    """What the inputs of every step add to its gates: 16 bits, the last axis gates * hidden."""
    bias = build.concat([node.plain(BIASES + gate) for gate in order], 0)
    weights = _joined(node, INPUT_WEIGHTS, order, build)
    sums = build.matmul(node.operand(0, build), weights, bias)
    return _gate_numbers(sums, _scales(node, 0, INPUT_WEIGHTS, order), WORD, build)


def _gate_numbers(sums: Expr, scales: Sequence[float], storage: IntegerType, build: Build) -> Expr:
    axis = sums.rank - 1
    kind = QuantizedType.get(WIDE, scales, [0] * len(scales), axis)
    by = RequantizationAttr.get(QuantizedType.get(storage, [GATE_SCALE], [0]), DOUBLE)
    return build.value(RequantizeOp, [as_quantized(as_stored(sums, build), kind, build)], by=by)


def _step(
    from_input: Expr, hidden: Expr, cell: Expr, layer: _Layer, build: Build
) -> tuple[Expr, Expr]:
    sums = hidden @ layer.recurrence
    # What comes from the hidden state is added before anything is cut off.
    from_hidden = _gate_numbers(sums, layer.recurrent_scales, WIDE, build)
    gates = _added(from_input, from_hidden, build)
    last = layer.order.index(NEW) * layer.size
    opened = _function(gates.slice(1, 0, last), sigmoid, "sigmoid", 3, build)
    g = _function(_part(gates, NEW, layer), tanh, "tanh", 3, build)
    f = _part(opened, FORGET, layer)
    i = _part(opened, INPUT, layer) if INPUT in layer.order else _rest(f, build)
    kept = _fixed("mul", f, cell, layer.cell, SHIFTED, build)
    added = _fixed("mul", i, g, layer.cell, SHIFTED, build)
    cell = _fixed("add", kept, added, layer.cell, SHIFTED, build, layer.limits)
    integer_bits = 15 + int(log2(float(layer.cell.scale_array[0])))
    shown = _function(cell, tanh, "tanh", integer_bits, build)
    hidden = _fixed("mul", _part(opened, OUTPUT, layer), shown, layer.made, DOUBLE, build)
    return layer.project(hidden), cell


def _added(a: Expr, b: Expr, build: Build) -> Expr:
    """What both add to gates, kept within 16 bits."""
    first, second = (as_stored(x, build).astype(np.int32) for x in (a, b))
    return kept_within(first + second, (MIN_INT16, MAX_INT16)).astype(np.int16)


def _part(gates: Expr, gate: int, layer: _Layer) -> Expr:
    """One of all gates, (batch, gates * hidden), or of the first of them."""
    place = layer.order.index(gate)
    return gates.slice(1, place * layer.size, (place + 1) * layer.size)


def _rest(opened: Expr, build: Build) -> Expr:
    """As far as a gate is closed."""
    return as_quantized(MAX_INT16 - as_stored(opened, build), UNIT, build)


def _fixed(
    kind: str,
    a: Expr,
    b: Expr,
    to: QuantizedType,
    how: Requantization,
    build: Build,
    limits: tuple[int, int] | None = None,
) -> Expr:
    by = RequantizationAttr.get(to, how, limits or integer_limits(to.storage))
    return build.value(FixedPointOp, [a, b], kind=kind, by=by)


def _function(
    x: Expr,
    function: Callable[[np.ndarray, int], np.ndarray],
    name: str,
    integer_bits: int,
    build: Build,
) -> Expr:
    """Of numbers with so many bits before the point, by a table that all steps share."""
    table = _table(function, integer_bits)
    return looked_up_int16(x, table, f"{name}_of_words_{integer_bits}", UNIT, build)


@cache
def _table(function: Callable[[np.ndarray, int], np.ndarray], integer_bits: int) -> np.ndarray:
    return read_only(function(NUMBERS, integer_bits).astype(np.int16))

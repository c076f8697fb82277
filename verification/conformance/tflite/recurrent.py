"""Random models of recurrent layers: their states begin with random numbers, and are compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from verification.conformance.tflite.drawing import LARGE, Draw, Drawn
from verification.conformance.tflite.models import TensorOf

GATES = 4


def _state(draw: Draw, name: str, shape: Sequence[int], like: TensorOf | None = None) -> TensorOf:
    kind = draw.tensor(name, shape) if like is None else like
    return TensorOf(
        name=name,
        shape=shape,
        element_type=kind.element_type,
        scales=kind.scales,
        zeros=kind.zeros,
        is_variable=True,
    )


def _weights(draw: Draw, name: str, shape: Sequence[int], dtype: str, most: int) -> TensorOf:
    if dtype == "float32":
        return draw.constant(name, draw.random.standard_normal(shape) / 2, dtype)
    return TensorOf(
        name=name,
        shape=shape,
        element_type=dtype,
        scales=[draw.scale(0.004, 0.02)],
        zeros=[0],
        data=draw.random.integers(-most, most + 1, shape).astype(dtype),
    )


def _sizes(draw: Draw) -> tuple[int, int, int]:
    """Batch, inputs and units; batches are large where the case is."""
    units = draw.integer(2, 20)
    return (-(-LARGE // units) if draw.is_large else draw.integer(1, 4), draw.integer(1, 12), units)


def lstm(draw: Draw) -> Drawn:
    batch, inputs, hidden = _sizes(draw)
    is_byte, is_time_major = draw.flag(), draw.flag()
    steps = draw.integer(1, 3)
    outer = (steps, batch) if is_time_major else (batch, steps)
    dtype, bias = ("int8", "int32") if is_byte else ("float32", "float32")
    x = draw.tensor("x", (*outer, inputs), dtype)
    y = draw.tensor("y", (*outer, hidden), dtype)
    cell, between = draw.tensor("c", (batch, hidden)), []
    if is_byte:
        x = draw.quantized("x", x.shape, dtype, draw.scale(0.01, 0.1), draw.zero(dtype))
        y = draw.quantized("y", y.shape, dtype, draw.scale(0.006, 0.01), draw.integer(-10, 10))
        power = 2.0 ** -draw.integer(11, 13)
        cell = draw.quantized("c", (batch, hidden), "int16", power, 0)
        gates = [draw.quantized(f"i{k}", (0,), "int16", 2.0**-12, 0) for k in range(GATES)]
        between = [*gates, draw.like(y, "between", (0,))]
    names = [("w", inputs), ("r", hidden)]
    weights = [
        [_weights(draw, f"{name}{k}", (hidden, depth), dtype, 127) for k in range(GATES)]
        for name, depth in names
    ]
    biases = [_weights(draw, f"b{k}", (hidden,), bias, 3000) for k in range(GATES)]
    absent = [None] * 3
    states = [
        _state(draw, "h", (batch, hidden), y if is_byte else None),
        _state(draw, "c", (batch, hidden), cell),
    ]
    return Drawn(
        inputs=[x, *weights[0], *weights[1], *absent, *biases, None, None, *states, *absent, None],
        results=[y],
        options="UnidirectionalSequenceLSTMOptions",
        values={
            "FusedActivationFunction": 4, "TimeMajor": is_time_major,
            "CellClip": draw.choice(0.0, float(draw.random.uniform(1, 3))),
        },
        intermediates=between,
    )  # fmt: skip


def rnn(draw: Draw) -> Drawn:
    batch, inputs, units = _sizes(draw)
    is_sequence = draw.kind != "RNN"
    steps, is_time_major = draw.integer(1, 3), draw.flag()
    outer = (steps, batch) if is_time_major else (batch, steps)
    outer = outer if is_sequence else (batch,)
    values: dict[str, object] = {"FusedActivationFunction": draw.choice(0, 1, 3, 4)}
    if is_sequence:
        values["TimeMajor"] = is_time_major
    return Drawn(
        inputs=[
            draw.tensor("x", (*outer, inputs)),
            _weights(draw, "w", (units, inputs), "float32", 0),
            _weights(draw, "r", (units, units), "float32", 0),
            _weights(draw, "b", (units,), "float32", 0),
            _state(draw, "h", (batch, units)),
        ],
        results=[draw.tensor("y", (*outer, units))],
        options="SequenceRNNOptions" if is_sequence else "RNNOptions",
        values=values,
    )


def svdf(draw: Draw) -> Drawn:
    batch, inputs, units = _sizes(draw)
    is_byte, rank, memory = draw.flag(), draw.integer(1, 2), draw.integer(2, 8)
    filters = units * rank
    dtype, word, bias = ("int8", "int16", "int32") if is_byte else ("float32",) * 3
    x, y = draw.tensor("x", (batch, inputs), dtype), draw.tensor("y", (batch, units), dtype)
    held = draw.tensor("s", (batch, filters * memory), word)
    times = _weights(draw, "t", (filters, memory), word, 32767)
    if is_byte:
        sums = 32768 / 3 * held.scales[0] * 32767 / 2 * times.scales[0] * filters**0.5
        y = draw.quantized("y", y.shape, dtype, float(np.float32(sums / 100)), -128)
    return Drawn(
        inputs=[
            x, _weights(draw, "f", (filters, inputs), dtype, 127), times,
            _weights(draw, "b", (units,), bias, 90_000),
            _state(draw, "s", held.shape, held if is_byte else None),
        ],
        results=[y],
        options="SVDFOptions",
        values={"Rank": rank, "FusedActivationFunction": 1 if is_byte else draw.choice(0, 1)},
    )  # fmt: skip


DRAWS: dict[str, Callable[[Draw], Drawn]] = {
    "UNIDIRECTIONAL_SEQUENCE_LSTM": lstm,
    "UNIDIRECTIONAL_SEQUENCE_RNN": rnn,
    "RNN": rnn,
    "SVDF": svdf,
}

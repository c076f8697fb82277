"""Random models of recurrent layers: their states begin with random numbers, and are compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from verification.conformance.tflite.drawing import LARGE, Draw, Drawn
from verification.conformance.tflite.models import TensorOf

GATES = 4
FORMS = ("", "peepholes", "projection")
"""Of LSTMs."""


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
    """Of a sequence, with floats or bytes, in all forms of the kernel but normalization."""
    batch, inputs, cells = _sizes(draw)
    is_byte, outer, is_time_major = draw.flag(), *_outer(draw, batch)
    dtype = "int8" if is_byte else "float32"
    form = draw.choice("", "projection") if is_byte else draw.choice(*FORMS)
    own, outputs = _gates(draw, "", inputs, cells, dtype, form)
    x = draw.tensor("x", (*outer, inputs), dtype)
    y = draw.tensor("y", (*outer, outputs), dtype)
    cell, between = draw.tensor("c", (batch, cells)), []
    if is_byte:
        x = draw.quantized("x", x.shape, dtype, draw.scale(0.01, 0.1), draw.zero(dtype))
        y = draw.quantized("y", y.shape, dtype, draw.scale(0.006, 0.01), draw.integer(-10, 10))
        power = 2.0 ** -draw.integer(11, 13)
        cell = draw.quantized("c", (batch, cells), "int16", power, 0)
        gates = [draw.quantized(f"i{k}", (0,), "int16", 2.0**-12, 0) for k in range(GATES)]
        hidden = draw.quantized("m", (0,), dtype, draw.scale(0.006, 0.01), draw.integer(-10, 10))
        between = [*gates, draw.like(hidden if outputs != cells else y, "between", (0,))]
    states = [
        _state(draw, "h", (batch, outputs), y if is_byte else None),
        _state(draw, "c", (batch, cells), cell),
    ]
    return Drawn(
        inputs=[x, *own, *states, *[None] * GATES],
        results=[y],
        options="UnidirectionalSequenceLSTMOptions",
        values={"TimeMajor": is_time_major, **_clips(draw)},
        intermediates=between,
    )


def _outer(draw: Draw, batch: int) -> tuple[tuple[int, int], bool]:
    """The first axes of a sequence, and whether time comes first."""
    steps, is_time_major = draw.integer(1, 3), draw.flag()
    return ((steps, batch) if is_time_major else (batch, steps)), is_time_major


def _clips(draw: Draw) -> dict[str, object]:
    return {
        "FusedActivationFunction": 4,
        "CellClip": draw.choice(0.0, float(draw.random.uniform(1, 3))),
        "ProjClip": draw.choice(0.0, float(draw.random.uniform(0.3, 0.9))),
    }


def _gates(
    draw: Draw, name: str, inputs: int, cells: int, dtype: str, form: str
) -> tuple[list[TensorOf | None], int]:
    """Weights, peepholes, biases and projection of one direction; how wide its result is."""
    is_coupled = draw.flag()
    outputs = max(1, cells - 1) if form == "projection" else cells
    bias = "int32" if dtype == "int8" else "float32"
    gates = range(is_coupled, GATES)

    def each(kind: str, shape: Sequence[int], type_: str, most: int) -> list[TensorOf | None]:
        found = {g: _weights(draw, f"{name}{kind}{g}", shape, type_, most) for g in gates}
        return [found.get(gate) for gate in range(GATES)]

    weights = [*each("w", (cells, inputs), dtype, 127), *each("r", (cells, outputs), dtype, 127)]
    looks: list[TensorOf | None] = [None] * 3
    if form == "peepholes":
        looks = each("p", (cells,), dtype, 0)[:3]
    projection: list[TensorOf | None] = [None, None]
    if form == "projection":
        projection[0] = _weights(draw, f"{name}j", (outputs, cells), dtype, 127)
        if draw.flag():
            projection[1] = _weights(draw, f"{name}k", (outputs,), bias, 2000)
    return [*weights, *looks, *each("b", (cells,), bias, 3000), *projection], outputs


def lstm_of_both_directions(draw: Draw) -> Drawn:
    batch, inputs, cells = _sizes(draw)
    outer, is_time_major = _outer(draw, batch)
    form = draw.choice(*FORMS)  # both are equally wide
    is_merged = is_time_major and draw.flag()  # else LiteRT mixes up the states of a batch
    forward, outputs = _gates(draw, "f", inputs, cells, "float32", form)
    backward, _ = _gates(draw, "k", inputs, cells, "float32", form)
    widths = [2 * outputs] if is_merged else [outputs] * 2
    states = [
        _state(draw, name, (batch, size))
        for name, size in (("fh", outputs), ("fc", cells), ("kh", outputs), ("kc", cells))
    ]
    return Drawn(
        inputs=[draw.tensor("x", (*outer, inputs)), *forward, *backward, *states, *[None] * 9],
        results=[draw.tensor(f"y{k}", (*outer, width)) for k, width in enumerate(widths)],
        options="BidirectionalSequenceLSTMOptions",
        values={"TimeMajor": is_time_major, "MergeOutputs": is_merged, **_clips(draw)},
    )


def lstm_of_one_step(draw: Draw) -> Drawn:
    """The full kernel, or the one called BASIC."""
    batch, inputs, cells = _sizes(draw)
    x, options = draw.tensor("x", (batch, inputs)), "LSTMOptions"
    if draw.flag():
        own, outputs = _gates(draw, "", inputs, cells, "float32", draw.choice(*FORMS))
        states = [_state(draw, "h", (batch, outputs)), _state(draw, "c", (batch, cells))]
        results = [draw.tensor("y", (batch, outputs))]
        return Drawn(
            inputs=[x, *own, *states], results=results, options=options, values=_clips(draw)
        )
    h, c = (_state(draw, name, (batch, cells)) for name in ("h", "c"))
    depth = inputs + cells
    w = _weights(draw, "w", (GATES * cells, depth), "float32", 0)
    b = _weights(draw, "b", (GATES * cells,), "float32", 0)
    widths = (cells, cells, depth, GATES * cells)
    return Drawn(
        inputs=[x, h, w, b, c],
        results=[draw.tensor(f"y{k}", (batch, width)) for k, width in enumerate(widths)],
        options=options,
        values={"FusedActivationFunction": 4, "KernelType": 1},
    )


def rnn(draw: Draw) -> Drawn:
    batch, inputs, units = _sizes(draw)
    outer, is_time_major = _outer(draw, batch)
    outer = (batch,) if draw.kind == "RNN" else outer
    values: dict[str, object] = {"FusedActivationFunction": draw.choice(0, 1, 3, 4)}
    if draw.kind != "RNN":
        values["TimeMajor"] = is_time_major
    return Drawn(
        inputs=[draw.tensor("x", (*outer, inputs)), *_cell(draw, "", batch, inputs, units)],
        results=[draw.tensor("y", (*outer, units))],
        options="RNNOptions" if draw.kind == "RNN" else "SequenceRNNOptions",
        values=values,
    )


def _cell(draw: Draw, name: str, batch: int, inputs: int, units: int) -> list[TensorOf]:
    """Weights, recurrence, bias and state of one direction."""
    shapes = {"w": (units, inputs), "r": (units, units), "b": (units,)}
    weights = [_weights(draw, f"{name}{k}", shape, "float32", 0) for k, shape in shapes.items()]
    return [*weights, _state(draw, f"{name}h", (batch, units))]


def rnn_of_both_directions(draw: Draw) -> Drawn:
    batch, inputs, units = _sizes(draw)
    outer, is_time_major = _outer(draw, batch)
    forward, backward = (_cell(draw, name, batch, inputs, units) for name in ("f", "k"))
    is_merged = draw.flag()
    widths = [2 * units] if is_merged else [units, units]
    return Drawn(
        inputs=[draw.tensor("x", (*outer, inputs)), *forward, *backward, None, None, None],
        results=[draw.tensor(f"y{k}", (*outer, width)) for k, width in enumerate(widths)],
        options="BidirectionalSequenceRNNOptions",
        values={
            "FusedActivationFunction": draw.choice(1, 3, 4), "TimeMajor": is_time_major,
            "MergeOutputs": is_merged,
        },
    )  # fmt: skip


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
    "BIDIRECTIONAL_SEQUENCE_LSTM": lstm_of_both_directions,
    "LSTM": lstm_of_one_step,
    "UNIDIRECTIONAL_SEQUENCE_RNN": rnn,
    "BIDIRECTIONAL_SEQUENCE_RNN": rnn_of_both_directions,
    "RNN": rnn,
    "SVDF": svdf,
}

"""Recurrent layers: one step of each at a time, their states as operands and results.

i = sigmoid(x Wi + h Ri + bi)        f, o likewise        g = tanh(x Wg + h Rg + bg)
c' = f c + i g        h' = o tanh(c')
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import SSAValue

from explorer.importers.building.build import Build, Unsupported
from explorer.importers.tflite.operators.activations import activated
from explorer.importers.tflite.operators.integer_lstm import integer_lstm
from explorer.importers.tflite.operators.integer_svdf import integer_svdf
from explorer.importers.tflite.operators.node import TfliteNode

LONGEST = 256
"""Steps that are written out one after another."""
GATES = 4
"""input, forget, cell, output: the order of operands."""
INPUT_WEIGHTS, RECURRENT_WEIGHTS, BIASES, STATE, CELL = 1, 5, 12, 18, 19
LEFT_OUT = {
    **dict.fromkeys((9, 10, 11), "peepholes"),
    **dict.fromkeys((16, 17), "a projection"),
    **dict.fromkeys((20, 21, 22, 23), "layer normalization"),
}


def unidirectional_sequence_lstm(node: TfliteNode, build: Build) -> Sequence[SSAValue]:
    """An LSTM over a sequence; its states are those behind the last step.

    Source: tensorflow/lite/kernels/lstm_eval.cc, `LstmStepFloat`.
    """
    for index, what in LEFT_OUT.items():
        if node.has(index):
            raise Unsupported(f"{what} of an LSTM")
    if not node.has(INPUT_WEIGHTS):
        raise Unsupported("an LSTM whose input gate is the rest of the forget gate")
    if node.activation != "TANH":
        raise Unsupported(f"the activation {node.activation} of an LSTM")
    x = node.plain(0)
    time_axis = 0 if node.integer("time_major") else 1
    (steps,) = build.sizes(x, [time_axis], "the steps of an LSTM")
    if not 0 < steps <= LONGEST:
        raise Unsupported(f"an LSTM of {steps} steps; {LONGEST} are written out at most")
    if node.is_quantized:
        made, hidden, cell = integer_lstm(node, steps, time_axis, build)
        return [build.concat(made, time_axis), hidden, cell]
    if node.tensor(INPUT_WEIGHTS).element_type != "float32":
        raise Unsupported("an LSTM of floats whose weights are bytes")
    weights, recurrence = (_joined(node, first, build) for first in (1, 5))
    bias = build.concat([node.plain(BIASES + gate) for gate in range(GATES)], 0)
    hidden, cell = node.plain(STATE), node.plain(CELL)
    clip = node.number("cell_clip")
    made = []
    for step in range(steps):
        now = build.squeeze(build.slice(x, time_axis, step, step + 1), [time_axis])
        gates = build.binary(
            "add", build.matmul(now, weights, bias), build.matmul(hidden, recurrence)
        )
        i, f, g, o = _gates(gates, build)
        kept = build.binary("mul", f, cell)
        cell = build.binary("add", kept, build.binary("mul", i, g))
        if clip > 0:
            cell = build.unary("clip", cell, -clip, clip)
        hidden = build.binary("mul", o, build.unary("tanh", cell))
        made.append(build.unsqueeze(hidden, [time_axis]))
    return [build.concat(made, time_axis), hidden, cell]


def _joined(node: TfliteNode, first: int, build: Build) -> SSAValue:
    """The weights of all gates, (inputs, gates * hidden): one product makes them all."""
    parts = [build.known(node.plain(first + gate), "weights") for gate in range(GATES)]
    return build.weight(np.concatenate(parts).T, f"{node.tensor(first).name}.gates")


def _gates(gates: SSAValue, build: Build) -> list[SSAValue]:
    size = build.sizes(gates, [1], "gates")[0] // GATES
    parts = [build.slice(gates, 1, gate * size, (gate + 1) * size) for gate in range(GATES)]
    kinds = ("sigmoid", "sigmoid", "tanh", "sigmoid")
    return [build.unary(kind, part) for kind, part in zip(kinds, parts, strict=True)]


def rnn(node: TfliteNode, build: Build) -> Sequence[SSAValue]:
    """One step of h' = activation(x W + h R + b), or one for each element of a sequence."""
    _require_float_weights(node, 1, 2)
    x, hidden = node.plain(0), node.plain(4)
    weights, recurrence = (build.transpose(node.plain(index), [1, 0]) for index in (1, 2))
    bias = node.plain(3)

    def step(now: SSAValue) -> SSAValue:
        own = build.matmul(now, weights, bias)
        return activated(
            build.binary("add", own, build.matmul(hidden, recurrence)), node.activation, build
        )

    if node.operator == "RNN":
        hidden = step(x)
        return [hidden, hidden]
    time_axis = 0 if node.integer("time_major") else 1
    (steps,) = build.sizes(x, [time_axis], "the steps of a sequence")
    if not 0 < steps <= LONGEST:
        raise Unsupported(f"a sequence of {steps} steps; {LONGEST} are written out at most")
    made = []
    for number in range(steps):
        now = build.squeeze(build.slice(x, time_axis, number, number + 1), [time_axis])
        hidden = step(now)
        made.append(build.unsqueeze(hidden, [time_axis]))
    return [build.concat(made, time_axis), hidden]


def svdf(node: TfliteNode, build: Build) -> Sequence[SSAValue]:
    """Filters over features and then over time; the state holds the last features of each.

    Nakkiran et al., "Compressing deep neural networks using a rank-constrained topology", 2015.
    """
    if node.is_quantized:
        return integer_svdf(node, build)
    _require_float_weights(node, 1, 2)
    x, features, times, state = (node.plain(index) for index in (0, 1, 2, 4))
    filters, memory = build.sizes(times, range(2), "filters over time")
    rank = node.integer("rank", 1)
    if rank < 1 or filters % rank:
        raise ValueError(f"{filters} filters of rank {rank}")
    held = build.reshape(state, [-1, filters, memory])
    newest = build.matmul(x, build.transpose(features, [1, 0]))
    kept = build.slice(held, 2, 1, memory)
    held = build.concat([kept, build.unsqueeze(newest, [2])], 2)
    sums = build.reduce("sum", build.binary("mul", held, times), [2])
    y = build.reduce("sum", build.reshape(sums, [-1, filters // rank, rank]), [2])
    if node.has(3):
        y = build.binary("add", y, node.plain(3))
    return [
        activated(y, node.activation, build), build.reshape(held, [-1, filters * memory]),
    ]  # fmt: skip


def _require_float_weights(node: TfliteNode, *places: int) -> None:
    node.require_plain()
    if any(node.tensor(index).element_type != "float32" for index in places):
        raise Unsupported("weights that are no floats of 32 bits")


CONVERTERS = {
    "UNIDIRECTIONAL_SEQUENCE_LSTM": unidirectional_sequence_lstm,
    "UNIDIRECTIONAL_SEQUENCE_RNN": rnn,
    "RNN": rnn,
    "SVDF": svdf,
}

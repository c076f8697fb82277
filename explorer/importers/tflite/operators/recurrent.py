"""Recurrent layers: one step of each at a time, their states as operands and results.

h' = activation(x W + h R + b); LSTMs have a file of their own, `lstm.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from explorer.importers.building.build import Build, Unsupported
from explorer.importers.tflite.operators.activations import activated
from explorer.importers.tflite.operators.integer_svdf import integer_svdf
from explorer.importers.tflite.operators.lstm import LONGEST
from explorer.importers.tflite.operators.node import TfliteNode


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
    "UNIDIRECTIONAL_SEQUENCE_RNN": rnn,
    "RNN": rnn,
    "SVDF": svdf,
}

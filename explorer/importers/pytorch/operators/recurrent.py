"""Recurrent layers: LSTM, GRU and RNN of one or several layers, in one or both directions.

aten.lstm.input(x, (h, c), weights, has_biases, layers, ...)     weights of gates i f g o
aten.gru.input                                                   r z n
aten.lstm_cell(x, (h, c), w_ih, w_hh, b_ih, b_hh)                a layer of one step
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from explorer.importers.building.build import Build, Unsupported
from explorer.importers.building.expr import Expr
from explorer.importers.building.recurrence import (
    Activation,
    Direction,
    RealFactor,
    State,
    Step,
    gru_step,
    lstm_step,
    rnn_step,
    run_layer,
)
from explorer.importers.pytorch.operators.node import AtenNode

_ORDERS = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2), "rnn": (0,)}
"""Where the gates of `building.recurrence` stand among PyTorch's: i o f c, z r n."""


def _activation(kind: str) -> Activation:
    return lambda build, x: x.unary(kind)


def layers(node: AtenNode, build: Build) -> list[Expr]:
    """All outputs, and the last states of every layer and direction."""
    name = node.call.target.removeprefix("aten.").split(".")[0]
    kind = name.split("_")[0]
    _require_plain(node)
    is_batched = node.flag("batch_first")
    x = node.operand("input")
    if is_batched:
        x = x.transpose([1, 0, 2])
    states = node.tensors("hx")
    count, both = node.integer("num_layers", build), node.flag("bidirectional")
    weights = node.tensors("params")
    per_direction = len(weights) // (count * (2 if both else 1))
    lasts: list[State] = []
    for layer in range(count):
        outputs = []
        for backwards in range(2 if both else 1):
            index = layer * (2 if both else 1) + backwards
            own = weights[index * per_direction : (index + 1) * per_direction]
            initial = [_part(state, index) for state in states]
            y, last = _direction(name, kind, x, initial, own, bool(backwards), build)
            outputs.append(y)
            lasts.append(last)
        x = build.concat(outputs, 2)
    ends = [
        build.concat([last[number].unsqueeze([0]) for last in lasts], 0)
        for number in range(len(states))
    ]
    return [x.transpose([1, 0, 2]) if is_batched else x, *ends]


def cell(node: AtenNode, build: Build) -> list[Expr]:
    """One step of one layer: x is (N, I), each state (N, H)."""
    name = node.call.target.removeprefix("aten.").split("_cell")[0]
    x = node.operand("input").unsqueeze([0])
    initial = node.tensors("hx")
    weights = [node.operand("w_ih"), node.operand("w_hh")]
    biases = [node.optional("b_ih"), node.optional("b_hh")]
    weights += [bias for bias in biases if bias is not None]
    _, last = _direction(name, name.split("_")[0], x, initial, weights, False, build)
    return list(last)


def _require_plain(node: AtenNode) -> None:
    if node.has("data") or node.call.target.endswith(".data"):
        raise Unsupported("packed sequences")
    if node.flag("train") and node.number("dropout", 0.0) > 0:
        raise Unsupported("random numbers: export the module in evaluation mode, module.eval()")


def _direction(
    name: str,
    kind: str,
    x: Expr,
    initial: Sequence[Expr],
    weights: Sequence[Expr],
    is_backwards: bool,
    build: Build,
) -> tuple[Expr, State]:
    """One direction of a layer. weights: (gates * hidden, inputs), (gates * hidden, hidden), and
    with biases two vectors; then an LSTM's projection of h, (outputs, hidden)."""
    *weights, projection = weights if len(weights) % 2 else [*weights, None]
    order = _ORDERS[kind]
    (rows,) = weights[1].sizes([0], "a recurrent layer")
    hidden = rows // len(order)
    own, recurrent = (_reordered(w, order, hidden, build) for w in weights[:2])
    zeros = build.weight(np.zeros(rows, x.dtype))
    outer, inner = zeros, zeros
    if len(weights) == 4:
        outer, inner = (_reordered(w, order, hidden, build) for w in weights[2:])
    kept = inner.slice(0, rows - hidden, rows)
    if kind == "gru":  # the new gate's bias belongs inside the reset
        inner = inner.slice(0, 0, rows - hidden).pad([0], [hidden])
    projected = build.matmul(x, own.transpose([1, 0]), outer + inner)
    turned = recurrent.transpose([1, 0])
    parts = [turned]
    if kind == "gru":
        parts = [turned.slice(1, 0, 2 * hidden), turned.slice(1, 2 * hidden, rows)]
    sigmoid, tanh = _activation("sigmoid"), _activation("tanh")
    plain = _activation("relu") if name == "rnn_relu" else tanh
    direction = Direction(
        build=build,
        hidden=hidden,
        recurrence=[RealFactor(part) for part in parts],
        recurrence_bias=kept,
        peepholes=None,
        activations=[plain] if kind == "rnn" else [sigmoid, tanh, tanh],
        clip=None,
        linear_before_reset=True,
        is_coupled=False,
    )
    step = _STEPS[kind] if projection is None else _with_projection(_STEPS[kind], projection)
    return run_layer(direction, step, projected, initial, None, is_backwards)


def _with_projection(step: Step, projection: Expr) -> Step:
    """The step with h times the transposed (outputs, hidden), which the next step takes, too.

    Sak et al., "Long Short-Term Memory Recurrent Neural Network Architectures for Large Scale
    Acoustic Modeling", 2014.
    """

    def projecting(direction: Direction, x: Expr, state: State) -> State:
        h, *others = step(direction, x, state)
        return [h @ projection.transpose([1, 0]), *others]

    return projecting


_STEPS: dict[str, Step] = {"lstm": lstm_step, "gru": gru_step, "rnn": rnn_step}


def _part(state: Expr, index: int) -> Expr:
    return state.slice(0, index, index + 1).squeeze([0])


def _reordered(weight: Expr, order: Sequence[int], hidden: int, build: Build) -> Expr:
    """The gates in another order; a constant where the weight is one."""
    if list(order) == sorted(order):
        return weight
    stored = build.stored(weight)
    if stored is not None:
        parts = stored.reshape(len(order), hidden, *stored.shape[1:])[list(order)]
        array = np.ascontiguousarray(parts.reshape(stored.shape))
        return build.weight(array, f"{build.name_of(weight)}.gates")
    return build.concat([weight.slice(0, g * hidden, (g + 1) * hidden) for g in order], 0)


CONVERTERS = {
    "lstm.input": layers,
    "gru.input": layers,
    "rnn_tanh.input": layers,
    "rnn_relu.input": layers,
    "lstm_cell": cell,
    "gru_cell": cell,
    "rnn_tanh_cell": cell,
    "rnn_relu_cell": cell,
}

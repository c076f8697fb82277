"""Recurrent layers, unrolled: each step of a short sequence becomes operations of its own.

    LSTM over (sequence, batch, input)   ->   one matmul for all inputs, then per step
                                              gates = slice(t) + h R
                                              c = f * c + i * g,  h = o * tanh(c)

Reference: ONNX operators LSTM, GRU and RNN; gates stand in the order i o f c, and z r h.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.ir import SSAValue

from explorer.importers.onnx.build import Axis, Build
from explorer.importers.onnx.nodes import Node, Unsupported, converts

LONGEST_SEQUENCE = 64
"""Longer ones would make more operations than anybody reads."""

_ACTIVATIONS = {"Sigmoid": "sigmoid", "Tanh": "tanh", "Relu": "relu"}


@dataclass(frozen=True)
class _Direction:
    """What one direction of a layer needs; the weights are constants, transposed for matmul."""

    build: Build
    hidden: int
    recurrence: np.ndarray
    """(hidden, gates * hidden)."""
    recurrence_bias: np.ndarray
    """(gates * hidden)."""
    activations: Sequence[str]
    linear_before_reset: bool

    def gate(self, x: SSAValue, index: int) -> SSAValue:
        return self.build.slice(x, 1, index * self.hidden, (index + 1) * self.hidden)

    def activate(self, index: int, x: SSAValue) -> SSAValue:
        return self.build.unary(self.activations[index], x)


State = list[SSAValue]
Step = Callable[[_Direction, SSAValue, State], State]


@converts("LSTM", since=7)
def lstm(node: Node, build: Build) -> Sequence[SSAValue]:
    """Results: all h, the last h, the last c."""
    if node.optional(7) is not None:
        raise Unsupported("peepholes")
    if node.integer("input_forget", 0):
        raise Unsupported("input_forget")
    return _layer(node, _lstm_step, 4, ("Sigmoid", "Tanh", "Tanh"), (5, 6), build)


@converts("GRU", since=7)
def gru(node: Node, build: Build) -> Sequence[SSAValue]:
    """Results: all h, the last h."""
    return _layer(node, _gru_step, 3, ("Sigmoid", "Tanh"), (5,), build)


@converts("RNN", since=7)
def rnn(node: Node, build: Build) -> Sequence[SSAValue]:
    return _layer(node, _rnn_step, 1, ("Tanh",), (5,), build)


def _lstm_step(d: _Direction, x: SSAValue, state: State) -> State:
    """x: what the input gives to the gates, biases included: (batch, 4 * hidden)."""
    build, (h, c) = d.build, state
    gates = build.binary("add", x, build.matmul(h, build.weight(d.recurrence)))
    i, o, f = (d.activate(0, d.gate(gates, index)) for index in range(3))
    g = d.activate(1, d.gate(gates, 3))
    c = build.binary("add", build.binary("mul", f, c), build.binary("mul", i, g))
    return [build.binary("mul", o, d.activate(2, c)), c]


def _gru_step(d: _Direction, x: SSAValue, state: State) -> State:
    """h' = (1 - z) * n + z * h; the reset gate acts before or after the product with R."""
    build, (h,), size = d.build, state, d.hidden
    both, new = d.recurrence[:, : 2 * size], np.ascontiguousarray(d.recurrence[:, 2 * size :])
    bias = d.recurrence_bias[2 * size :]
    inner = build.matmul(h, build.weight(np.ascontiguousarray(both)))
    gates = build.binary("add", build.slice(x, 1, 0, 2 * size), inner)
    z, r = (d.activate(0, d.gate(gates, index)) for index in range(2))
    if d.linear_before_reset:
        product = build.matmul(h, build.weight(new), build.weight(bias))
        inner = build.binary("mul", r, product)
    else:
        inner = build.matmul(build.binary("mul", r, h), build.weight(new), build.weight(bias))
    n = d.activate(1, build.binary("add", d.gate(x, 2), inner))
    # (1 - z) * n + z * h = n + z * (h - n)
    return [build.binary("add", n, build.binary("mul", z, build.binary("sub", h, n)))]


def _rnn_step(d: _Direction, x: SSAValue, state: State) -> State:
    build, (h,) = d.build, state
    return [d.activate(0, build.binary("add", x, build.matmul(h, build.weight(d.recurrence))))]


def _layer(
    node: Node,
    step: Step,
    gates: int,
    activations: tuple[str, ...],
    states: tuple[int, ...],
    build: Build,
) -> Sequence[SSAValue]:
    """All directions of a layer; `states` are the operands with the initial states."""
    if node.integer("layout", 0) or "clip" in node.attributes:
        raise Unsupported("layout = 1 or clip")
    x = node.operand(0)
    (length,) = build.sizes(x, [0], "a recurrent layer")
    if length > LONGEST_SEQUENCE:
        raise Unsupported(f"a sequence of {length} steps; at most {LONGEST_SEQUENCE} are unrolled")
    _check_sequence_lengths(node, length, build)
    w = build.known(node.operand(1), "the weight")
    r = build.known(node.operand(2), "the recurrence weight")
    directions, rows, hidden = r.shape
    if rows != gates * hidden:
        raise ValueError(f"recurrence weight {r.shape} of {gates} gates")
    given = node.optional(3)
    biases = np.zeros((directions, 2 * rows), r.dtype)
    if given is not None:
        biases = build.known(given, "the bias")
    named = node.attributes.get("activations", activations * directions)
    chosen = [_ACTIVATIONS.get(str(name)) for name in named]  # pyright: ignore
    known = [name for name in chosen if name is not None]
    if len(known) != len(chosen):
        raise Unsupported(f"activations {named}")
    is_reverse = node.text("direction", "forward") == "reverse"
    outputs, finals = [], []
    for index in range(directions):
        # Of a GRU the bias of the new gate's recurrence belongs inside the reset.
        inner = biases[index, rows:]
        added = inner.copy()
        if gates == 3:
            added[2 * hidden :] = 0
        outer = biases[index, :rows] + added
        count = len(activations)
        direction = _Direction(
            build,
            hidden,
            np.ascontiguousarray(r[index].T),
            inner,
            known[index * count : (index + 1) * count],
            bool(node.integer("linear_before_reset", 0)),
        )
        weight = build.weight(np.ascontiguousarray(w[index].T))
        projected = build.matmul(x, weight, build.weight(np.ascontiguousarray(outer)))
        state = [_initial(node.optional(s), index, hidden, x, build) for s in states]
        steps = _run(direction, step, projected, state, length, is_reverse or index == 1)
        outputs.append(steps[0])
        finals.append(steps[1])
    all_steps = build.concat(outputs, 1)
    lasts = [build.concat([final[s] for final in finals], 0) for s in range(len(states))]
    return [all_steps, *lasts]


def _run(
    direction: _Direction,
    step: Step,
    projected: SSAValue,
    state: State,
    length: int,
    is_reverse: bool,
) -> tuple[SSAValue, State]:
    """All h as (sequence, 1, batch, hidden), and the last states as (1, batch, hidden)."""
    build = direction.build
    hidden: dict[int, SSAValue] = {}
    for index in reversed(range(length)) if is_reverse else range(length):
        x = build.squeeze(build.slice(projected, 0, index, index + 1), [0])
        state = step(direction, x, state)
        hidden[index] = state[0]
    stacked = build.concat([build.unsqueeze(hidden[i], [0, 1]) for i in range(length)], 0)
    return stacked, [build.unsqueeze(s, [0]) for s in state]


def _initial(
    given: SSAValue | None, index: int, hidden: int, x: SSAValue, build: Build
) -> SSAValue:
    """The initial state (batch, hidden) of a direction; zero where it is not given."""
    if given is not None:
        return build.squeeze(build.slice(given, 0, index, index + 1), [0])
    return build.expand(build.scalar_like(0, x), [Axis(x, 1), hidden])


def _check_sequence_lengths(node: Node, length: int, build: Build) -> None:
    lengths = node.optional(4)
    if lengths is None:
        return
    known = build.knowledge.integers(lengths)
    if known is None or any(n != length for n in known):
        raise Unsupported("sequences of different lengths")

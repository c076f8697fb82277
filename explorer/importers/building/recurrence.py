"""Recurrent layers of all formats: one step of LSTM, GRU or RNN again and again.

    LSTM over (sequence, batch, input)   ->   one matmul for all inputs, then per step
                                              gates = x[t] + h R
                                              c = f * c + i * g,  h = o * tanh(c)

Short sequences are unrolled, so that every step is operations of its own; long ones, and those of
unknown length, become a `top.loop`. Gates stand in the order i o f c, and z r h, as ONNX has them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from xdsl.dialects.builtin import i64

from explorer.importers.building.build import Build
from explorer.importers.building.expr import Expr, where
from explorer.ir.top.indexing import GatherOp
from explorer.ir.types import tensor_type

LONGEST_UNROLLED = 64
"""Steps; more of them would make more operations than anybody reads."""

Activation = Callable[[Build, Expr], Expr]
State = Sequence[Expr]


class Factor(Protocol):
    """Weights (inputs, outputs), in whatever numbers."""

    def times(self, build: Build, x: Expr, bias: Expr | None = None) -> Expr:
        """x @ weights + bias"""
        ...


@dataclass(frozen=True)
class RealFactor:
    """Weights that are real numbers."""

    value: Expr

    def times(self, build: Build, x: Expr, bias: Expr | None = None) -> Expr:
        return build.matmul(x, self.value, bias)


@dataclass(frozen=True, kw_only=True)
class Direction:
    """What one direction of a layer needs."""

    build: Build
    hidden: int
    recurrence: Sequence[Factor]
    """Of all gates together, (hidden, gates * hidden); of a GRU's new gate on its own."""
    recurrence_bias: Expr
    """(hidden): that of a GRU's new gate, which belongs inside the reset."""
    peepholes: Expr | None
    """(3 * hidden): of the gates i, o and f of an LSTM."""
    activations: Sequence[Activation]
    clip: float | None
    linear_before_reset: bool
    is_coupled: bool
    """The forget gate of an LSTM is 1 - i."""

    def gate(self, x: Expr, index: int) -> Expr:
        """One gate of (batch, gates * hidden), or of (gates * hidden)."""
        return x.slice(x.rank - 1, index * self.hidden, (index + 1) * self.hidden)

    def activate(self, index: int, x: Expr) -> Expr:
        if self.clip is not None:
            x = x.clip(-self.clip, self.clip)
        return self.activations[index](self.build, x)

    def with_peephole(self, gate: Expr, index: int, cell: Expr) -> Expr:
        if self.peepholes is None:
            return gate
        return gate + self.gate(self.peepholes, index) * cell


Step = Callable[[Direction, Expr, State], State]


def lstm_step(d: Direction, x: Expr, state: State) -> State:
    """x: what the input gives to the gates, biases included: (batch, 4 * hidden)."""
    build, (h, c) = d.build, state
    gates = x + d.recurrence[0].times(build, h)
    i = d.activate(0, d.with_peephole(d.gate(gates, 0), 0, c))
    g = d.activate(1, d.gate(gates, 3))
    if d.is_coupled:
        f = 1 - i
    else:
        f = d.activate(0, d.with_peephole(d.gate(gates, 2), 2, c))
    c = f * c + i * g
    o = d.activate(0, d.with_peephole(d.gate(gates, 1), 1, c))
    return [o * d.activations[2](build, c), c]


def gru_step(d: Direction, x: Expr, state: State) -> State:
    """h' = (1 - z) * n + z * h; the reset gate acts before or after the product with R."""
    build, (h,), size = d.build, state, d.hidden
    both, new = d.recurrence
    gates = x.slice(1, 0, 2 * size) + both.times(build, h)
    z, r = (d.activate(0, d.gate(gates, index)) for index in range(2))
    if d.linear_before_reset:
        inner = r * new.times(build, h, d.recurrence_bias)
    else:
        inner = new.times(build, r * h, d.recurrence_bias)
    n = d.activate(1, d.gate(x, 2) + inner)
    # (1 - z) * n + z * h = n + z * (h - n)
    return [n + z * (h - n)]


def rnn_step(d: Direction, x: Expr, state: State) -> State:
    build, (h,) = d.build, state
    return [d.activate(0, x + d.recurrence[0].times(build, h))]


# -- all steps -------------------------------------------------------------------------------------


def run_layer(
    direction: Direction,
    step: Step,
    projected: Expr,
    state: State,
    valid: Expr | None,
    is_backwards: bool,
) -> tuple[Expr, State]:
    """All h as (sequence, batch, hidden), and the last states as (batch, hidden).

    projected: what the input gives to the gates, (sequence, batch, gates * hidden). valid: which
    steps belong to which sequence, (sequence, batch, 1); None where all of them do.
    """
    scanned = [projected] if valid is None else [projected, valid]

    def one(parts: Sequence[Expr], now: State) -> tuple[State, Expr]:
        return _stepped(direction, step, parts[0], now, parts[1] if valid is not None else None)

    return run_steps(direction.build, one, scanned, state, is_backwards)


OneStep = Callable[[Sequence[Expr], State], tuple[State, Expr]]
"""The next states and a row, of an element of each sequence and the states."""


def run_steps(
    build: Build,
    step: OneStep,
    scanned: Sequence[Expr],
    state: State,
    is_backwards: bool,
    *,
    axis: int = 0,
    longest: int = LONGEST_UNROLLED,
) -> tuple[Expr, State]:
    """All rows along an axis, and the last states.

    scanned: sequences along that axis, of one length. longest: of a sequence that is written out.
    """
    length = scanned[0].size(axis)
    if length is None or length > longest:
        return _looped(build, step, scanned, state, is_backwards, axis)
    rows: dict[int, Expr] = {}
    for index in reversed(range(length)) if is_backwards else range(length):
        parts = [x.slice(axis, index, index + 1).squeeze([axis]) for x in scanned]
        state, rows[index] = step(parts, state)
    return build.concat([rows[i].unsqueeze([axis]) for i in range(length)], axis), state


def _looped(
    build: Build,
    step: OneStep,
    scanned: Sequence[Expr],
    state: State,
    is_backwards: bool,
    axis: int,
) -> tuple[Expr, State]:
    """As `run_steps`, with one body for all steps."""
    length = scanned[0].size(axis)
    count = build.shape_vector([scanned[0].dim(axis)]).reshape([])
    last = count - build.weight(np.array(1, np.int64))
    with build.inside([tensor_type(i64, ()), *(s.type for s in state)]) as block:
        number, *present = build.arguments(block)
        number.value.name_hint = "step"
        for name, argument in zip(("h", "c"), present, strict=False):
            argument.value.name_hint = name
        place = last - number if is_backwards else number
        parts = [build.value(GatherOp, [x, place], axis=axis) for x in scanned]
        following, row = step(parts, present)
        body = build.end(block, [*following, row])
    *states, rows = build.loop(
        body, state, 1, trip_count=length, count=count if length is None else None
    )
    rows = rows.slices({0: (-1, -1, -1)}) if is_backwards else rows
    order = [*range(1, axis + 1), 0, *range(axis + 1, rows.rank)]
    return (rows.transpose(order) if axis else rows), states


def _stepped(
    direction: Direction, step: Step, x: Expr, state: State, mask: Expr | None
) -> tuple[State, Expr]:
    """The next states and the row of the output; beyond a sequence's end nothing changes."""
    following = step(direction, x, state)
    if mask is None:
        return following, following[0]
    kept = [where(mask, new, old) for new, old in zip(following, state, strict=True)]
    return kept, where(mask, following[0], 0)

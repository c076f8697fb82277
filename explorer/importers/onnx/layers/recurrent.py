"""Recurrent layers of ONNX: LSTM, GRU and RNN with all that they may have.

Reference: ONNX operators LSTM, GRU and RNN. `building.recurrence` has the steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from explorer.importers.building import build as building
from explorer.importers.building.attention_scores import counted
from explorer.importers.building.expr import Expr, where
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
from explorer.importers.onnx.contrib.dynamic_quantization import (
    MICROSOFT,
    Quantized,
    dynamic_product,
)
from explorer.importers.onnx.operators.activations import activated, default_parameters
from explorer.importers.onnx.program.build import Build
from explorer.importers.onnx.program.nodes import Node, Unsupported, converts
from explorer.ir.top.support.operands import may_be_same_shape
from explorer.ir.types import Shape, format_shape


@dataclass(frozen=True)
class _Bytes:
    """Weights of bytes, (inputs, outputs), that products quantize x for."""

    value: Expr
    quantized: Quantized

    def times(self, build: building.Build, x: Expr, bias: Expr | None = None) -> Expr:
        assert isinstance(build, Build), build
        return dynamic_product(x, self.value, self.quantized, bias, build)


@dataclass(frozen=True)
class _Kind:
    """LSTM, GRU or RNN. `parts`: gates whose recurrences are one matrix; `states`: operands with
    the initial states, of which h is the first."""

    step: Step
    parts: tuple[int, ...]
    activations: tuple[str, ...]
    states: tuple[int, ...]

    @property
    def gates(self) -> int:
        return sum(self.parts)


_LSTM = _Kind(lstm_step, (4,), ("Sigmoid", "Tanh", "Tanh"), (5, 6))
_GRU = _Kind(gru_step, (2, 1), ("Sigmoid", "Tanh"), (5,))
_RNN = _Kind(rnn_step, (1,), ("Tanh",), (5,))


@converts("LSTM", since=7)
def lstm(node: Node, build: Build) -> Sequence[Expr]:
    """Results: all h, the last h, the last c."""
    return _layer(node, _LSTM, build)


@converts("DynamicQuantizeLSTM", domain=MICROSOFT)
def dynamic_quantize_lstm(node: Node, build: Build) -> Sequence[Expr]:
    """As LSTM, with weights of bytes; x, and h in every step, are quantized by their range."""
    return _layer(node, _LSTM, build, is_quantized=True)


@converts("GRU", since=7)
def gru(node: Node, build: Build) -> Sequence[Expr]:
    """Results: all h, the last h."""
    return _layer(node, _GRU, build)


@converts("RNN", since=7)
def rnn(node: Node, build: Build) -> Sequence[Expr]:
    """Results: all h, the last h."""
    return _layer(node, _RNN, build)


# -- a layer -------------------------------------------------------------------------------------


def _layer(node: Node, kind: _Kind, build: Build, is_quantized: bool = False) -> Sequence[Expr]:
    """A layer; one of narrow floats is computed in f32: its sums leave the range of f16 soon."""
    dtype = node.operand(0).dtype
    operands = [o.wide() if isinstance(o, Expr) and o.is_float else o for o in node.operands]
    wide = replace(node, operands=tuple(operands))
    return [y.astype(dtype) for y in _directions(wide, kind, build, is_quantized)]


def _directions(node: Node, kind: _Kind, build: Build, is_quantized: bool) -> Sequence[Expr]:
    """All directions of a layer; with `layout = 1` the batch is everywhere the first axis.

    is_quantized: weights are bytes, (directions, inputs, gates * hidden), and their scales and zero
    points are operands 8 to 11.
    """
    batch_first = bool(node.integer("layout", 0))
    x, w, r = (node.operand(index) for index in range(3))
    initial = [node.optional(index) for index in kind.states]
    if batch_first:
        x = x.transpose([1, 0, 2])
        initial = [s if s is None else s.transpose([1, 0, 2]) for s in initial]
    directions, rows, hidden = r.sizes(range(3), "a recurrent layer")
    if is_quantized:
        rows, hidden = hidden, rows
    if rows != kind.gates * hidden:
        raise ValueError(f"recurrence weight {r.shape} of {kind.gates} gates")
    _check_layer(node, kind, (directions, rows, hidden), x, build, is_quantized)
    activations = _activations(node, kind, directions)
    valid = _validity(node, x, build)
    initial = [_of_sequences(given, node.optional(4), build) for given in initial]
    is_reverse = node.text("direction", "forward") == "reverse"
    outputs: list[Expr] = []
    finals: list[State] = []
    for index in range(directions):
        outer, inner = _biases(node.optional(3), index, kind, hidden, x, build)
        direction = Direction(
            build=build,
            hidden=hidden,
            recurrence=[_quantized(node, 2, 10, index, build)]
            if is_quantized
            else [RealFactor(part) for part in _recurrence(r, index, kind, hidden, build)],
            recurrence_bias=inner,
            peepholes=_peepholes(node, index, build),
            activations=activations[index],
            clip=node.number("clip") if "clip" in node.attributes else None,
            linear_before_reset=bool(node.integer("linear_before_reset", 0)),
            is_coupled=bool(node.integer("input_forget", 0)),
        )
        if is_quantized:
            weights = _quantized(node, 1, 8, index, build)
        else:
            weights = RealFactor(_slice_of(w, index, np.transpose, build))
        projected = weights.times(build, x, outer)
        state = [_initial(given, index, hidden, x) for given in initial]
        is_backwards = is_reverse or index == 1
        steps, last = run_layer(direction, kind.step, projected, state, valid, is_backwards)
        outputs.append(steps.unsqueeze([1]))
        finals.append([s.unsqueeze([0]) for s in last])
    everything = build.concat(outputs, 1)
    lasts = [build.concat([final[s] for final in finals], 0) for s in range(len(initial))]
    if not batch_first:
        return [everything, *lasts]
    turned = [last.transpose([1, 0, 2]) for last in lasts]
    return [everything.transpose([2, 0, 1, 3]), *turned]


def _check_layer(
    node: Node,
    kind: _Kind,
    sizes: tuple[int, int, int],
    x: Expr,
    build: Build,
    is_quantized: bool,
) -> None:
    """ValueError where the operands and attributes are not those of one layer.

    sizes: of R, (directions, gates * hidden, hidden). x: (sequence, batch, input).
    """
    directions, rows, hidden = sizes
    stated = node.integer("hidden_size", hidden)
    if stated != hidden:
        raise ValueError(f"hidden_size is {stated}, but the recurrence weight's is {hidden}")
    wanted = {"forward": 1, "reverse": 1, "bidirectional": 2}
    direction = node.text("direction", "forward")
    if wanted.get(direction) != directions:
        raise ValueError(f"direction {direction!r} of a weight with {directions} directions")
    if x.rank != 3:
        raise ValueError(f"operand 0 is {format_shape(x.shape)}; 3 dimensions expected")
    _, batch, width = x.shape
    state_shape = (directions, batch, hidden)
    if bool(node.integer("layout", 0)):
        state_shape = (batch, directions, hidden)
    expected: dict[int, Shape] = {
        1: (directions, width, rows) if is_quantized else (directions, rows, width),
        3: (directions, 2 * rows),
        4: (batch,),
        **dict.fromkeys(kind.states, state_shape),
        7: (directions, 3 * hidden),
    }
    for index, shape in expected.items():
        operand = node.optional(index)
        if operand is not None and not may_be_same_shape(operand.shape, shape):
            raise ValueError(
                f"operand {index} is {format_shape(operand.shape)}; {format_shape(shape)} expected"
            )


# -- operands ------------------------------------------------------------------------------------


def _slice_of(
    value: Expr, index: int, change: Callable[[np.ndarray], np.ndarray] | None, build: Build
) -> Expr:
    """One direction of a weight, perhaps transposed: a constant where the weight is one."""
    stored = build.stored(value)
    if stored is not None:
        array = stored[index] if change is None else change(stored[index])
        return build.weight(np.ascontiguousarray(array))
    own = value.slice(0, index, index + 1).squeeze([0])
    return own if change is None else own.transpose([1, 0])


def _quantized(node: Node, weights: int, parameters: int, index: int, build: Build) -> _Bytes:
    """One direction of operand `weights`; its scales are operand `parameters`, then zero points."""
    value, scale, zero = (
        _slice_of(node.operand(number), index, None, build)
        for number in (weights, parameters, parameters + 1)
    )
    return _Bytes(value, Quantized(node, scale, zero))


def _recurrence(r: Expr, index: int, kind: _Kind, hidden: int, build: Build) -> list[Expr]:
    """The transposed recurrence weights (hidden, gates * hidden) of one direction, in parts."""
    bounds = np.cumsum([0, *kind.parts]) * hidden
    ranges = list(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True))
    stored = build.stored(r)
    if stored is not None:
        turned = stored[index].T
        return [build.weight(np.ascontiguousarray(turned[:, a:b])) for a, b in ranges]
    turned = _slice_of(r, index, np.transpose, build)
    if len(ranges) == 1:
        return [turned]
    return [turned.slice(1, a, b) for a, b in ranges]


def _biases(
    given: Expr | None, index: int, kind: _Kind, hidden: int, x: Expr, build: Build
) -> tuple[Expr, Expr]:
    """What is added to the input's product, and what belongs inside a GRU's reset.

    given: (directions, 2 * gates * hidden), those of W, then those of R.
    """
    rows = kind.gates * hidden
    if given is None:
        zeros = np.zeros(rows, x.dtype)
        return build.weight(zeros), build.weight(zeros[:hidden])
    stored = build.stored(given)
    if stored is not None:
        outer, inner = stored[index, :rows].copy(), stored[index, rows:].copy()
        last = inner[rows - hidden :].copy()
        if kind is _GRU:
            inner[rows - hidden :] = 0
        return build.weight(outer + inner), build.weight(last)
    both = given.slice(0, index, index + 1).squeeze([0])
    outer, inner = both.slice(0, 0, rows), both.slice(0, rows, 2 * rows)
    last = inner.slice(0, rows - hidden, rows)
    if kind is _GRU:
        inner = inner.slice(0, 0, rows - hidden).pad([0], [hidden])
    return outer + inner, last


def _peepholes(node: Node, index: int, build: Build) -> Expr | None:
    given = node.optional(7)
    return None if given is None else _slice_of(given, index, None, build)


def _initial(given: Expr | None, index: int, hidden: int, x: Expr) -> Expr:
    """The initial state (batch, hidden) of a direction; zero where it is not given."""
    if given is not None:
        return given.slice(0, index, index + 1).squeeze([0])
    return x.constant(0).broadcast_to([x.dim(1), hidden])


def _of_sequences(given: Expr | None, lengths: Expr | None, build: Build) -> Expr | None:
    """Initial states (directions, batch, hidden) with 0 for sequences without a step, which is
    their last state in onnxruntime."""
    if given is None or lengths is None:
        return given
    known = build.knowledge.array(lengths)
    if known is not None and np.all(known > 0):
        return given
    return where((lengths > 0).unsqueeze([0, 2]), given, 0)


def _validity(node: Node, x: Expr, build: Build) -> Expr | None:
    """Which steps belong to which sequence, (sequence, batch, 1); None where all of them do."""
    lengths = node.optional(4)
    if lengths is None:
        return None
    length, known = x.size(0), build.knowledge.array(lengths)
    if known is not None and length is not None and np.all(known == length):
        return None
    steps = counted(x, 0, build).astype(lengths.dtype).unsqueeze([1, 2])
    return steps < lengths.unsqueeze([0, 2])


# -- activations ---------------------------------------------------------------------------------

_OF_OTHERS = ("clip", "hardswish", "selu")
"""Activations of fused operators that recurrent layers do not have."""


def _activations(node: Node, kind: _Kind, directions: int) -> list[list[Activation]]:
    """One list per direction. Alphas and betas go in order to the activations that take them."""
    named = node.attributes.get("activations") or kind.activations * directions
    if not isinstance(named, tuple) or len(named) != len(kind.activations) * directions:
        raise ValueError(f"activations {named} for {directions} directions")
    alphas = iter(node.numbers("activation_alpha") or ())
    betas = iter(node.numbers("activation_beta") or ())
    found = [_activation(str(name), alphas, betas) for name in named]
    count = len(kind.activations)
    return [found[index * count : (index + 1) * count] for index in range(directions)]


def _activation(name: str, alphas: Iterator[float], betas: Iterator[float]) -> Activation:
    if name.lower() in _OF_OTHERS:
        raise Unsupported(f"activation {name}")
    given = {"alpha": alphas, "beta": betas}
    defaults = default_parameters(name)
    parameters = [next(given[label], default) for label, default in defaults.items()]
    return lambda build, x: activated(x, name, parameters, build)

"""LSTMs: one step at a time, their states as operands and results.

i = sigmoid(norm(x Wi + h Ri + pi c) + bi)      f likewise, o with c'
g = tanh(norm(x Wg + h Rg) + bg)
c' = f c + i g        h' = (o tanh(c')) W + b

Peepholes p, the normalization and the projection W, b may be absent; without weights of its own
the input gate is 1 - f. With weights of bytes each product is hybrid: x, h and what is projected
become bytes by the range of each row. Source: tensorflow/lite/kernels/lstm_eval.cc.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from explorer.importers.building.build import Build, Unsupported
from explorer.importers.building.expr import Expr
from explorer.importers.building.recurrence import State, run_steps
from explorer.importers.tflite.operators.activations import activated
from explorer.importers.tflite.operators.hybrid import Product, as_floats, product_of_rows
from explorer.importers.tflite.operators.integer_lstm import integer_lstm
from explorer.importers.tflite.operators.node import TfliteNode

LONGEST = 256
"""Steps that are written out one after another."""
INPUT, FORGET, CELL, OUTPUT = range(4)
"""Gates, in the order of operands."""
PEEPHOLES = {INPUT: 0, FORGET: 1, OUTPUT: 2}
"""Where each stands among its like."""
MIN_VARIANCE = 1e-8
NORMS = range(20, 24)


@dataclass(frozen=True)
class _Places:
    """Indices of the operands of one direction."""

    first: int
    """The input gate's weights; all but states and normalization follow."""
    state: int
    norms: int | None = None

    def inputs(self, gate: int) -> int:
        return self.first + gate

    def recurrent(self, gate: int) -> int:
        return self.first + 4 + gate

    def peephole(self, gate: int) -> int:
        return self.first + 8 + PEEPHOLES[gate]

    def bias(self, gate: int) -> int:
        return self.first + 11 + gate

    @property
    def projection(self) -> int:
        return self.first + 15


FORWARD_ONLY = _Places(1, 18, 20)
FORWARD, BACKWARD = _Places(1, 35), _Places(18, 37)
AUXILIARY = 39


@dataclass(frozen=True)
class _Layer:
    gates: Sequence[int]
    """Those with weights of their own."""
    from_input: Product
    from_hidden: Product
    biases: Mapping[int, Expr]
    peepholes: Mapping[int, Expr]
    norms: Mapping[int, Expr]
    project: Callable[[Expr], Expr]
    activation: str
    clip: float


def lstm(node: TfliteNode, build: Build) -> Sequence[Expr]:
    """One step, for each row of a matrix."""
    node.require_plain()
    if node.options.get("kernel_type", "FULL") not in ("FULL", 0):
        return _basic(node, build)
    x = node.plain(0)
    if x.rank != 2:
        raise Unsupported(f"an LSTM of one step with operands of {x.rank} axes")
    layer = _layer(node, FORWARD_ONLY, build)
    hidden, cell = _step(x, node.plain(18), node.plain(19), layer, build)
    return [hidden, hidden, cell]


def _basic(node: TfliteNode, build: Build) -> Sequence[Expr]:
    """The kernel BASIC: h', c', what is multiplied, and the sums of i, g, f, o; then the states.

    Source: tensorflow/lite/kernels/internal/reference/reference_ops.h, `LstmCell`.
    """
    x, hidden, cell = (node.plain(index) for index in (0, 1, 4))
    joined = build.concat([x, hidden], x.rank - 1)
    sums = build.matmul(joined, node.plain(2).transpose([1, 0]), node.plain(3))
    (size,) = cell.sizes([1], "an LSTM")
    i, g, f, o = (sums.slice(1, k * size, (k + 1) * size) for k in range(4))
    kept = f.sigmoid() * cell
    added = i.sigmoid() * g.tanh()
    cell = added + kept
    hidden = o.sigmoid() * cell.tanh()
    states = [made for index, made in ((1, hidden), (4, cell)) if node.tensor(index).is_variable]
    return [hidden, cell, joined, sums, *states]


def unidirectional_sequence_lstm(node: TfliteNode, build: Build) -> Sequence[Expr]:
    """An LSTM over a sequence; its states are those behind the last step."""
    time_axis = 0 if node.integer("time_major") else 1
    if node.is_quantized:
        _check_steps(node, time_axis)
        _require_integer_form(node)
        return integer_lstm(node, time_axis, LONGEST, build)
    return _sequence(node, FORWARD_ONLY, time_axis, build)


def bidirectional_sequence_lstm(node: TfliteNode, build: Build) -> Sequence[Expr]:
    """One LSTM forwards and another backwards, their results side by side or apart."""
    node.require_plain()
    if node.has(AUXILIARY):
        raise Unsupported("an LSTM with auxiliary inputs")
    time_axis = 0 if node.integer("time_major") else 1
    if node.integer("merge_outputs") and time_axis:
        (batch,) = node.plain(0).sizes([0], "an LSTM of both directions")
        if batch > 1:
            # LiteRT 2.3.0 answers otherwise for all of the batch but the first.
            raise Unsupported("directions side by side with the batch first, and not of one")
    forward, *states = _sequence(node, FORWARD, time_axis, build)
    backward, *others = _sequence(node, BACKWARD, time_axis, build, is_backward=True)
    if node.integer("merge_outputs"):
        return [build.concat([forward, backward], 2), *states, *others]
    return [forward, backward, *states, *others]


def _require_integer_form(node: TfliteNode) -> None:
    if any(node.has(FORWARD_ONLY.peephole(gate)) for gate in PEEPHOLES):
        raise Unsupported("peepholes of an LSTM of bytes")
    if any(node.has(index) for index in NORMS):
        raise Unsupported("layer normalization of an LSTM of bytes")
    if node.activation != "TANH":
        raise Unsupported(f"the activation {node.activation} of an LSTM of bytes")


def _check_steps(node: TfliteNode, time_axis: int) -> None:
    steps = node.plain(0).size(time_axis)
    if steps is not None and not 0 < steps <= LONGEST:
        raise Unsupported(f"an LSTM of {steps} steps; {LONGEST} are written out at most")


def _sequence(
    node: TfliteNode, places: _Places, time_axis: int, build: Build, is_backward: bool = False
) -> Sequence[Expr]:
    """The hidden state behind every step, and both states behind the last."""
    layer = _layer(node, places, build)

    def step(parts: Sequence[Expr], state: State) -> tuple[State, Expr]:
        hidden, cell = state
        hidden, cell = _step(parts[0], hidden, cell, layer, build)
        return [hidden, cell], hidden

    state = [node.plain(places.state), node.plain(places.state + 1)]
    _check_steps(node, time_axis)
    made, last = run_steps(
        build, step, [node.plain(0)], state, is_backward, axis=time_axis, longest=LONGEST
    )
    return [made, *last]


def _layer(node: TfliteNode, places: _Places, build: Build) -> _Layer:
    gates = [gate for gate in range(4) if node.has(places.inputs(gate))]
    if gates not in ([INPUT, FORGET, CELL, OUTPUT], [FORGET, CELL, OUTPUT]):
        raise ValueError("weights of gates are missing")
    peepholes = [gate for gate in gates if gate in PEEPHOLES and node.has(places.peephole(gate))]
    norms: dict[int, Expr] = {}
    if places.norms is not None:
        first = places.norms
        norms = {gate: node.plain(first + gate) for gate in gates if node.has(first + gate)}
    if norms and len(norms) != len(gates):
        raise ValueError("coefficients of a normalization are missing")
    return _Layer(
        gates=gates,
        from_input=product_of_rows(node, [places.inputs(gate) for gate in gates], build),
        from_hidden=product_of_rows(node, [places.recurrent(gate) for gate in gates], build),
        biases={gate: node.plain(places.bias(gate)) for gate in gates},
        peepholes={gate: as_floats(node, places.peephole(gate), build) for gate in peepholes},
        norms=norms,
        project=_projection(node, places.projection, build),
        activation=node.activation,
        clip=node.number("cell_clip"),
    )


def _projection(node: TfliteNode, index: int, build: Build) -> Callable[[Expr], Expr]:
    if not node.has(index):
        return lambda hidden: hidden
    product, clip = product_of_rows(node, [index], build), node.number("proj_clip")
    bias = node.plain(index + 1) if node.has(index + 1) else None

    def project(hidden: Expr) -> Expr:
        made = product(hidden, bias)
        return made.clip(-clip, clip) if clip > 0 else made

    return project


def _step(x: Expr, hidden: Expr, cell: Expr, layer: _Layer, build: Build) -> tuple[Expr, Expr]:
    """x (N, inputs), h (N, outputs), c (N, cells) -> h', c'"""
    bias = None
    if not layer.norms:
        bias = build.concat([layer.biases[gate] for gate in layer.gates], 0)
    sums = layer.from_input(x, bias) + layer.from_hidden(hidden, None)
    size = sums.sizes([1], "gates")[0] // len(layer.gates)
    parts = {
        gate: sums.slice(1, place * size, (place + 1) * size)
        for place, gate in enumerate(layer.gates)
    }
    f = _opened(FORGET, parts, cell, layer)
    g = activated(_shifted(CELL, parts[CELL], layer), layer.activation)
    if INPUT in parts:
        i = _opened(INPUT, parts, cell, layer)
    else:
        i = 1.0 - f
    kept = f * cell
    cell = kept + i * g
    if layer.clip > 0:
        cell = cell.clip(-layer.clip, layer.clip)
    o = _opened(OUTPUT, parts, cell, layer)
    return layer.project(o * activated(cell, layer.activation)), cell


def _opened(gate: int, parts: Mapping[int, Expr], cell: Expr, layer: _Layer) -> Expr:
    """How far a gate is open, which may look at the cell."""
    total = parts[gate]
    if gate in layer.peepholes:
        total = total + cell * layer.peepholes[gate]
    return _shifted(gate, total, layer).sigmoid()


def _shifted(gate: int, total: Expr, layer: _Layer) -> Expr:
    """Sums of a gate with the normalization, whose bias stands behind it."""
    if not layer.norms:
        return total
    centered = total - total.mean([1], keepdims=True)
    squares = centered * centered
    variance = squares.mean([1], keepdims=True) + MIN_VARIANCE
    return centered / variance.sqrt() * layer.norms[gate] + layer.biases[gate]


CONVERTERS = {
    "LSTM": lstm,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": unidirectional_sequence_lstm,
    "BIDIRECTIONAL_SEQUENCE_LSTM": bidirectional_sequence_lstm,
}

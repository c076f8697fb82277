"""Recurrent layers: one step of each at a time, their states as operands and results.

h' = activation(x W + h R + b); LSTMs have a file of their own, `lstm.py`. With weights of bytes
products are hybrid (`hybrid.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from explorer.importers.building.build import Build, Unsupported
from explorer.importers.building.expr import Expr
from explorer.importers.building.recurrence import State, run_steps
from explorer.importers.tflite.operators.activations import activated
from explorer.importers.tflite.operators.hybrid import Product, as_floats, product_of_rows
from explorer.importers.tflite.operators.integer_svdf import integer_svdf
from explorer.importers.tflite.operators.lstm import LONGEST
from explorer.importers.tflite.operators.node import TfliteNode

AUXILIARY = 9


def rnn(node: TfliteNode, build: Build) -> Sequence[Expr]:
    """One step of h' = activation(x W + h R + b)."""
    hidden = _cell(node, 1, build)(node.plain(0), node.plain(4))
    return [hidden, hidden]


def unidirectional_sequence_rnn(node: TfliteNode, build: Build) -> Sequence[Expr]:
    """A step for each element of a sequence; the state is that behind the last."""
    return _sequence(node, 1, node.integer("time_major") == 0, build)


def bidirectional_sequence_rnn(node: TfliteNode, build: Build) -> Sequence[Expr]:
    """One forwards and another backwards, their results side by side or apart."""
    if node.has(AUXILIARY):
        raise Unsupported("a sequence with auxiliary inputs")
    is_batch_first = node.integer("time_major") == 0
    if not is_batch_first and node.tensor(1).element_type != "float32":
        # LiteRT 2.3.0 answers otherwise than with the batch first.
        raise Unsupported("weights of bytes where time comes first")
    forward, state = _sequence(node, 1, is_batch_first, build)
    backward, other = _sequence(node, 5, is_batch_first, build, is_backward=True)
    if node.integer("merge_outputs"):
        return [build.concat([forward, backward], 2), state, other]
    return [forward, backward, state, other]


def _cell(node: TfliteNode, first: int, build: Build) -> Callable[[Expr, Expr], Expr]:
    """The next hidden state of an input and a hidden state. first: operand of the weights; those of
    the recurrence, the bias and the state follow."""
    node.require_plain()
    from_input, from_hidden = (_rows_times(node, index, build) for index in (first, first + 1))
    bias = node.plain(first + 2)

    def step(x: Expr, hidden: Expr) -> Expr:
        return activated(from_input(x, bias) + from_hidden(hidden, None), node.activation)

    return step


def _sequence(
    node: TfliteNode, first: int, is_batch_first: bool, build: Build, is_backward: bool = False
) -> tuple[Expr, Expr]:
    """The hidden state behind every step, and that behind the last."""
    x, hidden, time_axis = node.plain(0), node.plain(first + 3), int(is_batch_first)
    step = _cell(node, first, build)
    steps = x.size(time_axis)
    if steps is not None and not 0 < steps <= LONGEST:
        raise Unsupported(f"a sequence of {steps} steps; {LONGEST} are written out at most")

    def one(parts: Sequence[Expr], state: State) -> tuple[State, Expr]:
        following = step(parts[0], state[0])
        return [following], following

    made, (last,) = run_steps(
        build, one, [x], [hidden], is_backward, axis=time_axis, longest=LONGEST
    )
    return made, last


def _rows_times(node: TfliteNode, index: int, build: Build) -> Product:
    """Rows times weights, which only bytes must be known of."""
    if node.tensor(index).element_type != "float32":
        return product_of_rows(node, [index], build)
    columns = node.plain(index).transpose([1, 0])
    return lambda rows, bias: build.matmul(rows, columns, bias)


def svdf(node: TfliteNode, build: Build) -> Sequence[Expr]:
    """Filters over features and then over time; the state holds the last features of each.

    Nakkiran et al., "Compressing deep neural networks using a rank-constrained topology", 2015.
    """
    if node.is_quantized:
        return integer_svdf(node, build)
    x, state, times = node.plain(0), node.plain(4), as_floats(node, 2, build)
    filters, memory = times.sizes(range(2), "filters over time")
    rank = node.integer("rank", 1)
    if rank < 1 or filters % rank:
        raise ValueError(f"{filters} filters of rank {rank}")
    held = state.reshape([-1, filters, memory])
    newest = _rows_times(node, 1, build)(x, None)
    kept = held.slice(2, 1, memory)
    held = build.concat([kept, newest.unsqueeze([2])], 2)
    sums = (held * times).sum([2])
    y = sums.reshape([-1, filters // rank, rank]).sum([2])
    if node.has(3):
        y = y + node.plain(3)
    return [
        activated(y, node.activation), held.reshape([-1, filters * memory]),
    ]  # fmt: skip


CONVERTERS = {
    "UNIDIRECTIONAL_SEQUENCE_RNN": unidirectional_sequence_rnn,
    "BIDIRECTIONAL_SEQUENCE_RNN": bidirectional_sequence_rnn,
    "RNN": rnn,
    "SVDF": svdf,
}

"""Within a pass, and within a phase, the result does not depend on the order of the rules.

Random graphs are rewritten twice, with the rules as they stand and in another order. Both results
compute what the graph computes, and have the same structure: the same operations on the same
operands, whatever they are called. So it is with the rules of all passes of a phase taken
together. Passes run once each, one after the other: what the last one uncovers for the first one
stays. Fusion is no such phase, there the order decides what goes into which weights.
"""

import random
from collections.abc import Hashable

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from explorer.ir.evaluation import entry_function, entry_return
from explorer.ir.program import Snapshot
from explorer.ir.rewriting import RewriteOptions
from explorer.ir.rewriting.passes import RulePass, run_pass
from explorer.ir.structure import value_name
from explorer.ir.top.data import WeightOp
from explorer.ir.types import format_type
from explorer.passes import RECOGNITION, SIMPLIFICATION
from explorer.passes.fixpoint import FixpointPass
from explorer.passes.recognize.recognize_activations import RecognizeActivations
from explorer.passes.recognize.recognize_attention import RecognizeAttentions
from explorer.passes.recognize.recognize_normalization import RecognizeNormalization
from explorer.passes.simplify.fold_batch_norm import FoldBatchNorm
from explorer.passes.simplify.fold_constants import FoldConstants
from explorer.passes.simplify.narrow_transposes import NarrowTransposes
from explorer.passes.simplify.push_transposes import PushTransposes
from explorer.passes.simplify.remove_no_ops import RemoveNoOps
from explorer.passes.simplify.simplify_arithmetic import SimplifyArithmetic
from explorer.passes.simplify.simplify_movement import SimplifyMovement

PASSES = (
    FoldConstants,
    RemoveNoOps,
    SimplifyArithmetic,
    SimplifyMovement,
    RecognizeNormalization,
    RecognizeActivations,
    RecognizeAttentions,
    PushTransposes,
    FoldBatchNorm,
    NarrowTransposes,
)
ROWS, COLUMNS = 4, 6

# Constants merge and products are reassociated: some roundings of float32 (6e-8 each), relative to
# the largest number that occurs anywhere: differences of large numbers may be small.
TOLERANCE = 1e-5


class Graph:
    """Text of a program over 4x6 tensors, made of steps that hypothesis draws."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.values = ["%x", "%z"]
        self.arrays: dict[str, np.ndarray] = {}

    def add(self, text: str, shape: str = "4x6") -> str:
        name = f"%v{len(self.lines)}"
        self.lines.append(f"{name} = {text} : tensor<{shape}xf32>")
        return name

    def weight(self, array: np.ndarray) -> str:
        name = f"c{len(self.arrays)}"
        self.arrays[name] = np.asarray(array, np.float32)
        shape = "".join(f"{size}x" for size in np.shape(array))
        self.lines.append(f'%{name} = top.weight() {{weight = "{name}"}} : tensor<{shape}f32>')
        return f"%{name}"

    def unary(self, kind: str, value: str, more: str = "") -> str:
        return self.add(f'top.unary({value}) {{{more}kind = "{kind}"}}')

    def binary(self, kind: str, left: str, right: str) -> str:
        return self.add(f'top.binary({left}, {right}) {{kind = "{kind}"}}')

    def text(self) -> str:
        lines = "\n".join(self.lines)
        kind = f"tensor<{ROWS}x{COLUMNS}xf32>"
        head = f"func.func @main(%x: {kind}, %z: {kind})"
        return f"{head} {{\n{lines}\ntop.return({self.values[-1]})\n}}"


UNARY = ("relu", "neg", "abs", "tanh", "sigmoid")
"""No rounding: of two numbers that differ in the last place it makes two that differ by one."""
BINARY = ("add", "sub", "mul", "max", "min")
NUMBERS = (0.0, 1.0, -1.0, 2.0, 0.5, 3.0, -0.25, 6.0)


def constant_step(graph: Graph, value: str, draw) -> str:
    number = draw(st.sampled_from(NUMBERS))
    shape = draw(st.sampled_from([(), (COLUMNS,), (ROWS, 1)]))
    weight = graph.weight(
        np.full(shape, number)
        + np.arange(max(np.prod(shape), 1)).reshape(shape) * draw(st.sampled_from([0.0, 0.5]))
    )
    kind = draw(st.sampled_from(BINARY))
    pair = (value, weight) if draw(st.booleans()) else (weight, value)
    return graph.binary(kind, *pair)


def elementwise_step(graph: Graph, value: str, draw) -> str:
    return graph.unary(draw(st.sampled_from(UNARY)), value)


def pair_step(graph: Graph, value: str, draw) -> str:
    other = draw(st.sampled_from(graph.values))
    return graph.binary(draw(st.sampled_from(BINARY)), value, other)


def clip_step(graph: Graph, value: str, draw) -> str:
    low = draw(st.sampled_from([-1.0, 0.0, 0.5]))
    return graph.unary("clip", value, f"alpha = {low}, beta = {low + 2.0}, ")


def power_step(graph: Graph, value: str, draw) -> str:
    exponent = graph.weight(np.float32(draw(st.sampled_from([1.0, 2.0, 3.0]))))
    return graph.binary("pow", graph.unary("tanh", value), exponent)


def transpose_step(graph: Graph, value: str, draw) -> str:
    """A transpose, something on it, and back."""
    turned = graph.add(f"top.transpose({value}) {{permutation = [1, 0]}}", "6x4")
    kind = draw(st.sampled_from(["relu", "neg", "tanh"]))
    inner = graph.add(f'top.unary({turned}) {{kind = "{kind}"}}', "6x4")
    return graph.add(f"top.transpose({inner}) {{permutation = [1, 0]}}")


def reshape_step(graph: Graph, value: str, draw) -> str:
    """A detour over another shape, with something on it or between transposes."""
    flat = graph.add(f"top.reshape({value}) {{shape = [2, 2, 6]}}", "2x2x6")
    if draw(st.booleans()):
        flat = graph.add(f"top.transpose({flat}) {{permutation = [1, 0, 2]}}", "2x2x6")
    else:
        weight = graph.weight(np.arange(1, 7))
        flat = graph.add(f'top.binary({flat}, {weight}) {{kind = "mul"}}', "2x2x6")
    return graph.add(f"top.reshape({flat}) {{shape = [4, 6]}}")


def slice_step(graph: Graph, value: str, draw) -> str:
    """Two slices, joined again in one order or the other."""
    cut = draw(st.integers(1, COLUMNS - 1))
    bounds = [(0, cut), (cut, COLUMNS)]
    parts = [
        graph.add(
            f"top.slice({value}) {{starts = [0, {a}], stops = [{ROWS}, {b}], steps = [1, 1]}}",
            f"{ROWS}x{b - a}",
        )
        for a, b in bounds
    ]
    if draw(st.booleans()):
        parts.reverse()
    return graph.add(f"top.concat({', '.join(parts)}) {{axis = 1}}")


def concat_step(graph: Graph, value: str, draw) -> str:
    """A slice of a concat of two values."""
    other = draw(st.sampled_from(graph.values))
    joined = graph.add(f"top.concat({value}, {other}) {{axis = 1}}", f"{ROWS}x{2 * COLUMNS}")
    start = draw(st.integers(0, COLUMNS))
    return graph.add(
        f"top.slice({joined}) {{starts = [0, {start}], stops = [{ROWS}, {start + COLUMNS}], "
        "steps = [1, 1]}"
    )


def pad_step(graph: Graph, value: str, draw) -> str:
    low = draw(st.integers(0, 2))
    padded = graph.add(
        f"top.pad({value}) {{high = [0, 2], interior = [0, 0], low = [0, {low}], value = 0.0}}",
        f"{ROWS}x{COLUMNS + low + 2}",
    )
    start = draw(st.integers(0, 2))
    return graph.add(
        f"top.slice({padded}) {{starts = [0, {start}], stops = [{ROWS}, {start + COLUMNS}], "
        "steps = [1, 1]}"
    )


def reduce_step(graph: Graph, value: str, draw) -> str:
    """A statistic, subtracted from what it is one of."""
    kind = draw(st.sampled_from(["mean", "max", "sum"]))
    square = graph.binary("mul", value, value) if draw(st.booleans()) else value
    keep = draw(st.booleans())
    if keep:
        total = graph.add(
            f'top.reduce({square}) {{axes = [1], keepdims = true, kind = "{kind}"}}', "4x1"
        )
    else:
        total = graph.add(
            f'top.reduce({square}) {{axes = [1], keepdims = false, kind = "{kind}"}}', "4"
        )
        total = graph.add(f"top.reshape({total}) {{shape = [4, 1]}}", "4x1")
    return graph.binary("sub", value, total)


def norm_step(graph: Graph, value: str, draw) -> str:
    """A layer norm in pieces."""

    def row(text):
        return graph.add(text, "4x1")

    mean = row(f'top.reduce({value}) {{axes = [1], keepdims = true, kind = "mean"}}')
    centered = graph.binary("sub", value, mean)
    square = graph.binary("mul", centered, centered)
    variance = row(f'top.reduce({square}) {{axes = [1], keepdims = true, kind = "mean"}}')
    epsilon = graph.weight(np.float32(0.25))
    total = row(f'top.binary({variance}, {epsilon}) {{kind = "add"}}')
    root = row(f'top.unary({total}) {{kind = "sqrt"}}')
    if draw(st.booleans()):
        return graph.binary("div", centered, root)
    inverse = row(f'top.unary({root}) {{kind = "reciprocal"}}')
    return graph.binary("mul", centered, inverse)


def gate_step(graph: Graph, value: str, draw) -> str:
    """x * sigmoid(x), or a hard one."""
    if draw(st.booleans()):
        return graph.binary("mul", value, graph.unary("sigmoid", value))
    three, sixth = graph.weight(np.float32(3)), graph.weight(np.float32(1 / 6))
    clipped = graph.unary("clip", graph.binary("add", value, three), "alpha = 0.0, beta = 6.0, ")
    return graph.binary("mul", graph.binary("mul", value, clipped), sixth)


def matmul_step(graph: Graph, value: str, draw) -> str:
    """Factors and offsets around a product with weights."""
    random_weights = np.random.default_rng(len(graph.lines)).normal(size=(COLUMNS, COLUMNS)) / 3
    product = graph.add(f"top.matmul({value}, {graph.weight(random_weights)})")
    if draw(st.booleans()):
        product = graph.binary("add", product, graph.weight(np.arange(COLUMNS) / 4))
    if draw(st.booleans()):
        product = graph.binary("mul", product, graph.weight(1 + np.arange(COLUMNS) / 4))
    return product


def attention_step(graph: Graph, value: str, draw) -> str:
    """One head in pieces, in one of the forms of its scores."""
    other = draw(st.sampled_from(graph.values))
    keys = graph.add(f"top.transpose({other}) {{permutation = [1, 0]}}", "6x4")
    half = graph.weight(np.float32(0.5))
    queries = graph.binary("mul", value, half) if draw(st.booleans()) else value
    scores = graph.add(f"top.matmul({queries}, {keys})", "4x4")
    if draw(st.booleans()):
        scores = graph.add(f'top.binary({scores}, {half}) {{kind = "mul"}}', "4x4")
    if draw(st.booleans()):
        bias = graph.weight(np.arange(4) / 4)
        scores = graph.add(f'top.binary({bias}, {scores}) {{kind = "add"}}', "4x4")
    weights = graph.add(f"top.softmax({scores}) {{axis = 1, logarithm = false}}", "4x4")
    return graph.add(f"top.matmul({weights}, {other})")


def rotary_step(graph: Graph, value: str, draw) -> str:
    """Halves of each row turned by angles, with the sign where it was, or in the table."""
    first, second = (
        graph.add(
            f"top.slice({value}) {{starts = [0, {a}], stops = [{ROWS}, {a + 3}], steps = [1, 1]}}",
            "4x3",
        )
        for a in (0, 3)
    )
    if draw(st.booleans()):
        second = graph.add(f'top.unary({second}) {{kind = "neg"}}', "4x3")
    rotated = graph.add(f"top.concat({second}, {first}) {{axis = 1}}")
    tables = [graph.weight(np.cos(np.arange(COLUMNS) + shift)) for shift in (0.0, 1.5)]
    return graph.binary(
        "add", graph.binary("mul", value, tables[0]), graph.binary("mul", rotated, tables[1])
    )


STEPS = (
    constant_step,
    elementwise_step,
    pair_step,
    clip_step,
    power_step,
    transpose_step,
    reshape_step,
    slice_step,
    concat_step,
    pad_step,
    reduce_step,
    norm_step,
    gate_step,
    matmul_step,
    attention_step,
    rotary_step,
)


@st.composite
def graphs(draw) -> Graph:
    graph = Graph()
    for _ in range(draw(st.integers(2, 7))):
        value = draw(st.sampled_from(graph.values[-3:]))
        graph.values.append(draw(st.sampled_from(STEPS))(graph, value, draw))
    return graph


def structure(snapshot: Snapshot) -> Hashable:
    """What a program computes, as a term over its inputs; weights by their rough values."""
    terms: dict[object, Hashable] = {}
    block = entry_function(snapshot.module).body.block
    for argument in block.args:
        terms[argument] = ("input", argument.index)
    table: dict[Hashable, int] = {}
    for op in block.ops:
        operands = tuple(terms[o] for o in op.operands)
        if isinstance(op, WeightOp):
            array = snapshot.weights[op.weight.data]
            term: Hashable = ("weight", tuple(float(f"{n:.3g}") for n in array.reshape(-1)))
        else:
            properties = {k: str(v) for k, v in op.properties.items() if k != "operandSegmentSizes"}
            if op.name == "top.binary" and "add" in properties["kind"]:
                operands = tuple(sorted(operands, key=repr))
            term = (op.name, operands, tuple(sorted(properties.items())))
        number = table.setdefault(term, len(table))
        for result in op.results:
            terms[result] = ("value", number, result.index, format_type(result.type))
    returned = entry_return(entry_function(snapshot.module))
    used = {terms[o] for o in returned.operands}
    numbers = {number: term for term, number in table.items()}
    return _expanded(tuple(used), numbers)


def _expanded(term: Hashable, numbers: dict[int, Hashable]) -> Hashable:
    if isinstance(term, tuple):
        if len(term) == 4 and term[0] == "value":
            return (term[2:], _expanded(numbers[term[1]], numbers))
        return tuple(_expanded(part, numbers) for part in term)
    return term


def returned_values(snapshot: Snapshot, values) -> list[np.ndarray]:
    returned = entry_return(entry_function(snapshot.module))
    return [values[value_name(o)] for o in returned.operands]


def shuffled(kind: type[RulePass], seed: int) -> RulePass:
    """The pass with its rules in another order."""
    rules = list(kind.rules)
    random.Random(seed).shuffle(rules)
    return type(kind.__name__, (kind,), {"rules": tuple(rules), "name": kind.name})()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", PASSES, ids=lambda kind: kind.name)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(graph=graphs(), seed=st.integers(0, 2**16))
def test_the_order_of_rules_changes_neither_numbers_nor_structure(make_program, kind, graph, seed):
    inputs = {
        name: np.random.default_rng(seed + i).normal(size=(ROWS, COLUMNS)).astype(np.float32)
        for i, name in enumerate("xz")
    }
    first = run_pass(kind(), make_program(graph.text(), graph.arrays), RewriteOptions())
    other = run_pass(
        shuffled(kind, seed), make_program(graph.text(), graph.arrays), RewriteOptions()
    )
    assert structure(other.after) == structure(first.after)
    values = first.before.run(inputs)
    largest = max(float(np.abs(array).max(initial=1.0)) for array in values.values())
    (expected,) = returned_values(first.before, values)
    for snapshot in (first.after, other.after):
        (actual,) = returned_values(snapshot, snapshot.run(inputs))
        assert np.abs(actual - expected).max() <= TOLERANCE * largest


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", PASSES, ids=lambda kind: kind.name)
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(graph=graphs())
def test_a_pass_leaves_nothing_for_a_second_run_of_itself(make_program, kind, graph):
    working = make_program(graph.text(), graph.arrays)
    run_pass(kind(), working, RewriteOptions())
    again = run_pass(kind(), working, RewriteOptions())
    assert not [r.address for r in again.rewrites if r.applied]


def rules_of(kinds, seed: int | None) -> RulePass:
    """One pass with the rules of all these, in their order or in another one."""
    rules = list(dict.fromkeys(r for kind in kinds for r in kind.rules))
    if seed is not None:
        random.Random(seed).shuffle(rules)
    return type("Phase", (FixpointPass,), {"rules": tuple(rules), "name": "phase"})()


@pytest.mark.parametrize(
    "kinds", [SIMPLIFICATION, RECOGNITION], ids=["simplification", "recognition"]
)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(graph=graphs(), seed=st.integers(0, 2**16))
def test_the_order_of_all_rules_of_a_phase_does_not_matter(make_program, kinds, graph, seed):
    forms = []
    for chosen in (None, seed):
        working = make_program(graph.text(), graph.arrays)
        forms.append(structure(run_pass(rules_of(kinds, chosen), working, RewriteOptions()).after))
    assert forms[0] == forms[1]

"""Bounds of values, from the operations that make them."""

from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.ir.evaluation import entry_function, entry_return
from explorer.ir.operation import identity_of
from explorer.passes.simplify.arithmetic.ranges import EVERYTHING, range_of

X = "tensor<2x3xf32>"


def returned(working):
    return entry_return(entry_function(working.module)).operands[0]


def bounds(make_program, operations, arrays=None):
    text = f"func.func @main(%x: {X}, %z: {X}) {{\n{operations}\ntop.return(%y)\n}}"
    working = make_program(text, arrays)
    return range_of(returned(working), working.weights)


def unary(kind, value="%x", name="y", more=""):
    return f'%{name} = top.unary({value}) {{{more}kind = "{kind}"}} : {X}\n'


def binary(kind, left, right, name="y"):
    return f'%{name} = top.binary({left}, {right}) {{kind = "{kind}"}} : {X}\n'


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("relu", (0, inf)),
        ("sigmoid", (0, 1)),
        ("tanh", (-1, 1)),
        ("exp", (0, inf)),
        ("abs", (0, inf)),
        ("log", EVERYTHING),
        ("neg", EVERYTHING),
        ("gelu", EVERYTHING),
    ],
)
def test_a_function_has_the_range_of_its_results(make_program, kind, expected):
    assert bounds(make_program, unary(kind)) == expected


def test_a_weight_lies_between_its_smallest_and_its_largest_number(make_program):
    operation = '%y = top.weight() {weight = "y"} : tensor<3xf32>'
    assert bounds(make_program, operation, {"y": np.float32([3, -2, 1])}) == (-2, 3)
    nan = np.float32([3, np.nan, 1])
    assert bounds(make_program, operation, {"y": nan}) == EVERYTHING


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        (unary("clip", more="alpha = -1.0, beta = 2.0, "), (-1, 2)),
        (unary("clip", more="alpha = 2.0, beta = 1.0, "), EVERYTHING),
        (unary("sigmoid", name="s") + unary("neg", "%s"), (-1, 0)),
        (unary("sigmoid", name="s") + unary("relu", "%s"), (0, 1)),
        (unary("clip", name="s", more="alpha = 0.5, beta = 2.0, ") + unary("reciprocal", "%s"),
         (0.5, 2)),
        (unary("relu", name="s") + unary("reciprocal", "%s"), EVERYTHING),
        (binary("mul", "%x", "%x"), (0, inf)),
        (binary("mul", "%x", "%z"), EVERYTHING),
        (unary("sigmoid", name="s") + binary("max", "%x", "%s"), (0, inf)),
        (unary("sigmoid", name="s") + binary("min", "%x", "%s"), (-inf, 1)),
        (unary("tanh", name="s") + binary("add", "%s", "%s"), EVERYTHING),
        (f"%y = top.softmax(%x) {{axis = 1, logarithm = false}} : {X}", (0, 1)),
        (f"%y = top.softmax(%x) {{axis = 1, logarithm = true}} : {X}", (-inf, 0)),
    ],
)  # fmt: skip
def test_ranges_follow_through_operations(make_program, operations, expected):
    assert bounds(make_program, operations) == expected


def test_a_sum_of_what_is_not_negative_is_at_least_its_largest_term(make_program):
    operations = (
        binary("mul", "%x", "%x", "q")
        + '%e = top.weight() {weight = "e"} : tensor<f32>\n'
        + binary("add", "%q", "%e")
    )
    assert bounds(make_program, operations, {"e": np.float32(0.5)}) == (0.5, inf)


def test_movement_keeps_a_range_and_a_concat_joins_them(make_program):
    operations = (
        unary("sigmoid", name="s")
        + unary("tanh", name="t")
        + "%u = top.transpose(%t) {permutation = [1, 0]} : tensor<3x2xf32>\n"
        + f"%r = top.reshape(%u) {{shape = [2, 3]}} : {X}\n"
        + "%y = top.concat(%s, %r) {axis = 0} : tensor<4x3xf32>"
    )
    assert bounds(make_program, operations) == (-1, 1)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("max", (0, 1)), ("min", (0, 1)), ("mean", (0, inf)), ("sum", (0, inf)), ("l2", (0, inf))],
)
def test_reductions_of_what_is_not_negative_are_not_negative(make_program, kind, expected):
    operations = unary("sigmoid", name="s") + (
        f'%y = top.reduce(%s) {{axes = [1], keepdims = true, kind = "{kind}"}} : tensor<2x1xf32>'
    )
    assert bounds(make_program, operations) == expected


def test_a_chain_is_followed_so_far_only(make_program):
    chain = unary("sigmoid", name="v0")
    for i in range(12):
        chain += f"%v{i + 1} = top.reshape(%v{i}) {{shape = [2, 3]}} : {X}\n"
    assert bounds(make_program, chain + unary("neg", "%v12")) == EVERYTHING
    assert bounds(make_program, chain + unary("neg", "%v4")) == (-1, 0)


KINDS = ("relu", "sigmoid", "tanh", "neg", "abs", "exp", "sqrt", "reciprocal", "softplus")


@settings(max_examples=60, deadline=None)
@given(
    steps=st.lists(st.tuples(st.sampled_from((*KINDS, "add", "mul", "max", "min")),
                             st.integers(0, 9)), min_size=1, max_size=6),
    seed=st.integers(0, 2**16),
)  # fmt: skip
def test_no_number_lies_outside_its_range(make_program, steps, seed):
    lines, names = "", ["%x", "%z"]
    for index, (kind, place) in enumerate(steps):
        value, name = names[place % len(names)], f"v{index}"
        is_unary = kind in KINDS
        lines += unary(kind, value, name) if is_unary else binary(kind, value, names[-1], name)
        names.append(f"%{name}")
    text = f"func.func @main(%x: {X}, %z: {X}) {{\n{lines}top.return({names[-1]})\n}}"
    working = make_program(text)
    random = np.random.default_rng(seed)
    inputs = {n: random.normal(size=(2, 3)).astype(np.float32) for n in "xz"}
    computed = working.snapshot.run(inputs)
    for op in entry_function(working.module).body.block.ops:
        if not op.results:
            continue
        low, high = range_of(op.results[0], working.weights)
        numbers = computed[identity_of(op)]
        numbers = numbers[~np.isnan(numbers)]
        assert np.all(numbers >= low) and np.all(numbers <= high)


@pytest.mark.parametrize(("fill", "expected"), [(0.0, (0, 1)), (-2.0, (-2, 1)), (3.0, (0, 3))])
def test_padding_lies_in_the_range_of_what_is_padded(make_program, fill, expected):
    operations = unary("sigmoid", name="s") + (
        f"%p = top.pad(%s) {{low = [0, 1], high = [0, 0], interior = [0, 0], value = {fill}}} "
        ": tensor<2x4xf32>\n"
        "%y = top.slice(%p) {starts = [0, 0], stops = [2, 3], steps = [1, 1]} : " + X
    )
    assert bounds(make_program, operations) == expected

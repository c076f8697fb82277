"""Constraints of symbolic dimensions: found in operations, kept in text, checked before use."""

import numpy as np
import pytest

from explorer.errors import InputError
from explorer.ir.evaluation import entry_function, evaluate_module
from explorer.ir.inspection.printing import dump, parse
from explorer.ir.sizes import symbols
from explorer.ir.sizes.constraints import Constraint, check_sizes, constraints_of, set_constraints
from explorer.ir.top.requirements import requirements
from explorer.ir.weights import Weights


def tensor(*shape):
    sizes = "x".join("?" if isinstance(d, str) else str(d) for d in shape)
    names = ", ".join(f'"{d if isinstance(d, str) else ""}"' for d in shape)
    element = (
        "f32>"
        if all(isinstance(d, int) for d in shape)
        else f"f32, #top.encoding<dims = [{names}]>>"
    )
    return f"tensor<{sizes}x{element}"


def found(text, weights=None, declared=None):
    function = entry_function(parse(text))
    return [c.text for c in requirements(function, weights or Weights(), declared)]


def one(operands, operation):
    """The constraints of one operation on inputs a, b ... of the given shapes."""
    arguments = ", ".join(f"%{n}: {tensor(*s)}" for n, s in zip("abc", operands, strict=False))
    return found(f"func.func @main({arguments}) {{\n{operation}\n  top.return(%y)\n}}")


@pytest.mark.parametrize(
    ("operands", "operation", "expected"),
    [
        (
            [("n", "h"), ("n", "w")],
            f'%y = top.binary(%a, %b) {{kind = "add"}} : {tensor("n", "h")}',
            ["h == w, or one of them is 1"],
        ),
        (
            [("n", 4), (3, 4)],
            f'%y = top.binary(%a, %b) {{kind = "add"}} : {tensor(3, 4)}',
            ["n == 3, or one of them is 1"],
        ),
        (
            [("n", "k"), ("j", 5)],
            f"%y = top.matmul(%a, %b) : {tensor('n', 5)}",
            ["k == j"],
        ),
        (
            [("n", 3), ("m", 4)],
            f"%y = top.concat(%a, %b) {{axis = 1}} : {tensor('n', 7)}",
            ["n == m"],
        ),
        (
            [("n", 3, "h", 9)],
            '%y = top.pool(%a) {kind = "max", window = [5, 3], strides = [2, 1], '
            f"pads = [1, 0, 1, 0], dilations = [1, 1]}} : {tensor('n', 3, '(h-1)//2', 7)}",
            ["h >= 3"],
        ),
        (
            [("s", 2)],
            f"%y = top.reshape(%a) {{shape = [-1, 8]}} : {tensor('s//4', 8)}",
            ["s % 4 == 0"],
        ),
        (
            [("n", 3)],
            f"%y = top.reshape(%a) {{shape = [1, 3]}} : {tensor(1, 3)}",
            ["n == 1"],
        ),
        (
            [("n", 3)],
            f"%y = top.reshape(%a) {{shape = [-1, 3]}} : {tensor('n', 3)}",
            [],
        ),
        (
            [("s",)],
            f"%y = top.slice(%a) {{starts = [3], stops = [9223372036854775807], steps = [1]}} : "
            f"{tensor('max(0,s-3)')}",
            [],
        ),
        (
            [("n", "n")],
            f'%y = top.binary(%a, %a) {{kind = "mul"}} : {tensor("n", "n")}',
            [],
        ),
    ],
)
def test_what_an_operation_asks(operands, operation, expected):
    assert one(operands, operation) == expected


POSITIONS = """
func.func @main(%x: tensor<?x8xf32, #top.encoding<dims = ["s", ""]>>) {
  %shape = top.shape(%x) {start = 0, end = 1} : tensor<1xi64>
  %limit = top.reshape(%shape) {shape = []} : tensor<i64>
  %zero = top.weight() {weight = "zero"} : tensor<i64>
  %one = top.weight() {weight = "one"} : tensor<i64>
  %table = top.weight() {weight = "table"} : tensor<512x8xf32>
  %positions = top.range(%zero, %limit, %one) : tensor<?xi64, #top.encoding<dims = ["s"]>>
  %rows = top.gather(%table, %positions) {axis = 0}
    : tensor<?x8xf32, #top.encoding<dims = ["s", ""]>>
  top.return(%rows)
}
"""


def test_a_table_of_positions_bounds_the_length():
    weights = Weights()
    weights.add("zero", np.array(0, np.int64))
    weights.add("one", np.array(1, np.int64))
    assert found(POSITIONS, weights) == ["s <= 512"]


def test_the_name_that_the_file_gives_a_result():
    body = f"%y = top.concat(%a, %b) {{axis = 0}} : {tensor('m+n', 4)}\n  top.return(%y)"
    text = f"func.func @main(%a: {tensor('n', 4)}, %b: {tensor('m', 4)}) {{\n{body}\n}}"
    assert found(text, declared={"out": ("total", 4)}) == ["m+n == total"]
    assert found(text, declared={"out": ("n", 4)}) == ["m+n == n"]


def test_a_result_that_is_the_larger_of_two_sizes_is_called_after_either():
    first, second = symbols.parse("past"), symbols.parse("past+1")
    for text in ("max(past,total)", "min(past,total)"):
        assert symbols.is_one_of(first, symbols.parse(text))
    for text in ("past", "past+1", "max(past,total)+1", "max(past+1,total)"):
        assert not symbols.is_one_of(first, symbols.parse(text))
    assert symbols.is_one_of(second, symbols.parse("max(past+1,total)"))


def test_constraints_survive_text():
    module = parse(POSITIONS)
    kept = (Constraint("at most", "s", "512", "rows", ('Gather "1"',)),)
    set_constraints(entry_function(module), kept)
    assert constraints_of(entry_function(parse(dump(module)))) == kept


@pytest.mark.parametrize(
    ("constraint", "sizes", "way_out"),
    [
        (Constraint("at most", "s", "512", "op"), {"s": 513}, "--dim s=512 or less"),
        (Constraint("at least", "h", "3", "op"), {"h": 2}, "--dim h=3 or more"),
        (Constraint("multiple", "s", "4", "op"), {"s": 7}, "--dim s=8"),
        (Constraint("fixed", "n", "1", "op"), {"n": 2}, "--dim n=1"),
        (Constraint("equal", "past+1", "total", "op"), {"past": 3, "total": 5}, "sizes for which"),
    ],
)
def test_sizes_that_do_not_fit_are_refused_with_a_way_out(constraint, sizes, way_out):
    with pytest.raises(InputError, match="but the model needs") as caught:
        check_sizes([constraint], sizes, "the sizes are")
    assert way_out in caught.value.hint
    assert caught.value.node == "op"


def test_what_is_not_known_is_not_refused():
    check_sizes([Constraint("at most", "s", "512", "op")], {}, "the sizes are")
    check_sizes([Constraint("named", "s", "total", "op")], {"s": 1, "total": 2}, "the sizes are")
    check_sizes([Constraint("broadcast", "a", "b", "op")], {"a": 1, "b": 2}, "the sizes are")


TWO_INPUTS = f"""
func.func @main(%a: {tensor("n", 2)}, %b: {tensor("n", 2)}) {{
  %y = top.binary(%a, %b) {{kind = "add"}} : {tensor("n", 2)}
  top.return(%y)
}}
"""


def test_inputs_that_disagree_about_a_dimension_are_refused_when_the_program_runs():
    inputs = {"a": np.zeros((1, 2), np.float32), "b": np.zeros((3, 2), np.float32)}
    with pytest.raises(InputError, match="dimension 'n' is 1 in input 'a', but 3 in 'b'"):
        evaluate_module(parse(TWO_INPUTS), Weights(), inputs)

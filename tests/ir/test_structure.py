"""Modules as plain data: names of values, records of operations, functions by kind."""

from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import pytest

from explorer.ir.inspection.printing import parse
from explorer.ir.structure import (
    device_of,
    functions,
    index_operations,
    kernel_functions,
    operations,
    value_name,
    walk_blocks,
    walk_inside,
)
from explorer.ir.top.reductions.reduction import ReduceOp

programs = SimpleNamespace(**run_path(str(Path(__file__).parents[1] / "programs.py")))

TEXT = """
func.func @main(%x : tensor<1x4xf32>) -> (tensor<1x2xf32>, tensor<1x2xi64>) {
  %v, %i = top.topk(%x) {axis = 1, k = 2, largest = true} : tensor<1x2xf32>, tensor<1x2xi64>
  top.return(%v, %i)
}
"""
NESTED = """
func.func @main(%c : tensor<i1>, %x : tensor<4xf32>) -> tensor<4xf32> {
  %y = top.if(%c) {
    %a = top.unary(%x) {kind = "abs"} : tensor<4xf32>
    top.return(%a)
  } {
    top.return(%x)
  } : tensor<4xf32>
  top.return(%y)
}
"""


def test_a_record_names_operands_by_what_makes_them():
    module = parse("""func.func @main(%x : tensor<4xf32>) -> tensor<4xf32> {
      %a = top.unary(%x) {kind = "abs"} : tensor<4xf32>
      %y = top.unary(%a) {kind = "clip", beta = 6.0, alpha = 0.0} : tensor<4xf32>
      top.return(%y)
    }""")
    index = index_operations(module)
    assert list(index) == ["a", "y"]
    assert index["y"].operands == ("a",)
    assert index["a"].operands == ("x",)
    assert index["y"].text() == ("top.unary(%a) {alpha = 0.0, beta = 6.0, kind = clip} : 4 f32")


def test_records_are_equal_exactly_when_operations_are():
    text = """func.func @main(%x : tensor<4xf32>) -> tensor<4xf32> {{
      %y = top.unary(%x) {{kind = "{0}"}} : tensor<4xf32>
      top.return(%y)
    }}"""
    one, same, other = (index_operations(parse(text.format(k)))["y"] for k in ("abs", "abs", "neg"))
    assert one == same
    assert hash(one) == hash(same)
    assert one != other


def test_arguments_and_results_have_names():
    module = parse(NESTED)
    (function,) = functions(module)
    assert [value_name(a) for a in function.body.block.args] == ["c", "x"]
    names = [value_name(r) for op in operations(module) for r in op.results]
    assert names == ["y", "a"]


def test_nested_operations_come_after_what_holds_them():
    (function,) = functions(parse(NESTED))
    names = [op.name for op in walk_blocks(function.body.block)]
    assert names == ["top.if", "top.unary", "top.return", "top.return", "top.return"]


def test_functions_and_kernels_are_told_apart():
    working = programs.program("""func.func @main(%x : tensor<4xf32>) -> tensor<4xf32> {
      %y = top.unary(%x) {kind = "abs"} : tensor<4xf32>
      top.return(%y)
    }""")
    assert [device_of(f) for f in functions(working.module)] == ["host"]
    final = programs.lower(working, lanes=4)[-1].after
    assert {f.sym_name.data: device_of(f) for f in functions(final.module)} == {
        "main": "host", "main_cpu": "cpu"
    }  # fmt: skip
    assert list(kernel_functions(final.module)) == ["abs_1"]


def test_operations_are_walked_from_outside_inwards_as_xdsl_does():
    module = parse(NESTED)
    assert walk_inside(module) == list(module.walk())
    assert len(walk_inside(module)) == 7


def test_an_operation_that_cannot_be_made_leaves_no_use_behind():
    module = parse(NESTED)
    value = module.body.block.first_op.body.block.args[1]
    before = list(value.uses)
    with pytest.raises(ValueError, match="axes"):
        ReduceOp.make([value], kind="sum", axes=[7], keepdims=False)
    assert list(value.uses) == before
    with pytest.raises(ValueError, match="takes one value as input, not 0"):
        ReduceOp.make([None], kind="sum", axes=[0], keepdims=False)

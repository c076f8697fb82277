"""Symbolic dimensions get sizes, and everything inside follows."""

import pytest

from explorer.errors import InputError, PassError
from explorer.ir.rewriting import RewriteOptions
from explorer.ir.rewriting.passes import run_pass
from explorer.passes.sizes.bind_dimensions import BindDimensions

TWO_NAMES = """
func.func @main(%x: tensor<?x?x4xf32, #top.encoding<dims = ["batch", "length", ""]>>) {
  %relu1 = top.unary(%x) {kind = "relu"}
    : tensor<?x?x4xf32, #top.encoding<dims = ["batch", "length", ""]>>
  %sum1 = top.reduce(%relu1) {kind = "sum", axes = [2], keepdims = false}
    : tensor<?x?xf32, #top.encoding<dims = ["batch", "length"]>>
  top.return(%sum1)
}
"""


def bound(make_program, pass_, text):
    return run_pass(pass_, make_program(text), RewriteOptions())


def test_sizes_go_from_the_inputs_to_every_type(make_program):
    result = bound(make_program, BindDimensions({"batch": 2, "length": 3}), TWO_NAMES)
    assert [line.strip() for line in result.after.text.lines[1:5]] == [
        "func.func @main(%x: tensor<2x3x4xf32>) -> tensor<2x3xf32> {",
        '%relu1 = top.unary(%x) {kind = "relu"} : tensor<2x3x4xf32>',
        '%sum1 = top.reduce(%relu1) {axes = [2], keepdims = false, kind = "sum"} : tensor<2x3xf32>',
        "top.return(%sum1)",
    ]
    (event,) = result.events
    assert event.address == "bind-dimensions/bind/main"
    assert event.explanation == "sizes of symbolic dimensions: batch = 2, length = 3"
    assert event.produced == ("relu1", "sum1")


def test_the_default_is_for_first_dimensions_only(make_program):
    result = bound(make_program, BindDimensions({"length": 3}, default=1), TWO_NAMES)
    assert "%x: tensor<1x3x4xf32>" in result.after.text.lines[1]
    with pytest.raises(
        InputError, match=r"no size for 1 .*: length; where: node x; .*--dim length"
    ):
        bound(make_program, BindDimensions({}, default=1), TWO_NAMES)


def test_without_a_default_all_missing_names_are_listed(make_program):
    with pytest.raises(InputError, match=r"2 symbolic dimension.s.: batch, length"):
        bound(make_program, BindDimensions(), TWO_NAMES)


def test_an_unknown_name_is_an_error_that_suggests_the_right_one(make_program):
    with pytest.raises(InputError, match=r"no input has a dimension 'bach'.*did you mean 'batch'"):
        bound(make_program, BindDimensions({"bach": 2}, default=1), TWO_NAMES)


def test_a_size_below_one_is_an_error(make_program):
    with pytest.raises(InputError, match="dimension 'batch' cannot be 0"):
        bound(make_program, BindDimensions({"batch": 0}), TWO_NAMES)


def test_unnamed_dimensions_are_called_after_their_place(make_program):
    text = """
    func.func @main(%x: tensor<2x?xf32>) {
      %y = top.unary(%x) {kind = "relu"} : tensor<2x?xf32>
      top.return(%y)
    }
    """
    result = bound(make_program, BindDimensions({"x.1": 5}), text)
    assert "%x: tensor<2x5xf32>" in result.after.text.lines[1]


def test_a_size_that_does_not_fit_names_the_operation_and_its_source(make_program):
    text = """
    func.func @main(%x: tensor<?x4xf32, #top.encoding<dims = ["n", ""]>>) {
      %w = top.weight() {weight = "w"} : tensor<3x4xf32>
      %y = top.binary(%x, %w) {kind = "add"} : tensor<3x4xf32>
      top.return(%y)
    }
    """
    with pytest.raises(PassError, match=r"top.binary y do not fit.*operation y, node y"):
        bound(make_program, BindDimensions({"n": 2}), text)


def test_static_programs_stay_as_they_are(make_program):
    text = """
    func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
      %y = top.unary(%x) {kind = "relu"} : tensor<2xf32>
      top.return(%y)
    }
    """
    result = bound(make_program, BindDimensions({}, default=1), text)
    assert result.after is result.before


def test_a_constraint_refuses_a_size_before_anything_changes(make_program):
    constraint = '#top.constraint<"at most", "length", "16", "relu1", ["Embed"]>'
    text = TWO_NAMES.replace(">>) {", f">>) attributes {{constraints = [{constraint}]}} {{")
    working = make_program(text)
    before = working.snapshot.text.lines
    with pytest.raises(InputError, match=r"length = 17.*needs length <= 16.*node Embed.*length=16"):
        run_pass(BindDimensions({"batch": 2, "length": 17}), working, RewriteOptions())
    assert working.take_snapshot().text.lines == before
    bound_at_limit = run_pass(BindDimensions({"batch": 2, "length": 16}), working, RewriteOptions())
    assert "top.constraint" in "\n".join(bound_at_limit.after.text.lines)

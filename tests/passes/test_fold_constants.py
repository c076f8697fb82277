"""What depends on weights and known shapes only is computed by the compiler."""

import numpy as np
import pytest

from explorer.ir.rewriting import RewriteOptions
from explorer.ir.rewriting.passes import run_pass
from explorer.passes.simplify.fold_constants import FoldConstants

INTEGERS = np.int64


def test_a_shape_computation_folds_into_the_reshape_that_it_feeds(check):
    checked = check(
        FoldConstants(),
        """
        func.func @main(%x: tensor<2x3x8x8xf32>) {
          %rest = top.weight() {weight = "rest"} : tensor<1xi64>
          %s = top.shape(%x) : tensor<4xi64>
          %n = top.slice(%s) {starts = [0], stops = [1], steps = [1]} : tensor<1xi64>
          %t = top.concat(%n, %rest) {axis = 0} : tensor<2xi64>
          %y = top.reshape(%x, target = %t) : tensor<?x?xf32>
          %z = top.unary(%y) {kind = "relu"} : tensor<?x?xf32>
          top.return(%z)
        }
        """,
        arrays={"rest": np.array([-1], INTEGERS)},
    )
    assert checked.lines == [
        "%reshape1 = top.reshape(%x) {shape = [2, -1]} : tensor<2x192xf32>",
        '%z = top.unary(%reshape1) {kind = "relu"} : tensor<2x192xf32>',
        "top.return(%z)",
    ]
    assert checked.fired == [
        "fold-shape s",
        "fold-constant n",
        "fold-constant t",
        "specialize-reshape y",
        "infer-again z",
    ]


@pytest.mark.parametrize(
    ("allow_zero", "target", "expected"),
    [
        ("false", [0, -1], "shape = [2, -1]} : tensor<2x12xf32>"),
        ("true", [4, 6], "shape = [4, 6]}"),
    ],
)
def test_a_zero_in_a_target_copies_the_size_unless_it_means_zero(
    check, allow_zero, target, expected
):
    checked = check(
        FoldConstants(),
        """
        func.func @main(%x: tensor<2x3x4xf32>) {
          %t = top.weight() {weight = "t"} : tensor<2xi64>
          %y = top.reshape(%x, target = %t) {allow_zero = ALLOW} : tensor<?x?xf32>
          top.return(%y)
        }
        """.replace("ALLOW", allow_zero),
        arrays={"t": np.array(target, INTEGERS)},
    )
    assert expected in checked.lines[0]


def test_computed_bounds_of_a_slice_become_properties(check):
    checked = check(
        FoldConstants(),
        """
        func.func @main(%x: tensor<3x8xf32>) {
          %a = top.weight() {weight = "a"} : tensor<1xi64>
          %b = top.weight() {weight = "b"} : tensor<1xi64>
          %c = top.weight() {weight = "c"} : tensor<1xi64>
          %y = top.slice(%x, starts_value = %a, stops_value = %b, steps_value = %c) {axes = [1]}
            : tensor<3x?xf32>
          top.return(%y)
        }
        """,
        arrays={n: np.array([v], INTEGERS) for n, v in (("a", -1), ("b", -100), ("c", -2))},
    )
    assert checked.lines[0] == (
        "%slice1 = top.slice(%x) {starts = [0, 7], steps = [1, -2], stops = [3, -1]} "
        ": tensor<3x4xf32>"
    )


def test_computed_amounts_of_a_pad_become_properties(check):
    text = """
    func.func @main(%x: tensor<2x3xf32>) {
      %a = top.weight() {weight = "a"} : tensor<4xi64>
      %y = top.pad(%x, amounts = %a) {value = 1.5} : tensor<?x?xf32>
      top.return(%y)
    }
    """
    checked = check(FoldConstants(), text, arrays={"a": np.array([0, 1, 2, 3], INTEGERS)})
    assert checked.lines[0] == (
        "%pad1 = top.pad(%x) {high = [2, 3], interior = [0, 0], low = [0, 1], value = 1.5} "
        ": tensor<4x7xf32>"
    )


def test_a_computed_shape_of_an_expand_becomes_a_property(check):
    text = """
    func.func @main(%x: tensor<1x3xf32>) {
      %t = top.weight() {weight = "t"} : tensor<3xi64>
      %y = top.expand(%x, target = %t) : tensor<?x?x?xf32>
      top.return(%y)
    }
    """
    checked = check(FoldConstants(), text, arrays={"t": np.array([2, 4, 1], INTEGERS)})
    assert checked.lines[0] == "%expand1 = top.expand(%x) {shape = [2, 4, 1]} : tensor<2x4x3xf32>"


def test_a_folded_value_keeps_its_origin_and_its_sources(check):
    checked = check(
        FoldConstants(),
        """
        func.func @main(%x: tensor<3xf32>) {
          %a = top.weight() {weight = "a"} : tensor<3xf32>
          %n = top.unary(%a) {kind = "neg"} : tensor<3xf32>
          %y = top.binary(%x, %n) {kind = "add"} : tensor<3xf32>
          top.return(%y)
        }
        """,
    )
    assert checked.lines[0] == '%y = top.binary(%x, %folded1) {kind = "add"} : tensor<3xf32>'
    assert checked.result.after.origins["folded1"].tensor == "n"
    assert checked.sources("folded1") == ("n",)


def test_a_range_of_constants_folds(check):
    text = """
    func.func @main(%x: tensor<4xi64>) {
      %s = top.weight() {weight = "s"} : tensor<i64>
      %e = top.weight() {weight = "e"} : tensor<i64>
      %d = top.weight() {weight = "d"} : tensor<i64>
      %r = top.range(%s, %e, %d) : tensor<?xi64>
      %y = top.binary(%x, %r) {kind = "add"} : tensor<4xi64>
      top.return(%y)
    }
    """
    numbers = {n: np.array(v, INTEGERS) for n, v in (("s", 1), ("e", 9), ("d", 2))}
    checked = check(FoldConstants(), text, arrays=numbers)
    assert checked.weight("folded1").tolist() == [1, 3, 5, 7]


IF = """
func.func @main(%x: tensor<4xf32>) {
  %c = top.weight() {weight = "c"} : tensor<i1>
  %y = top.if(%c) {
    %a = top.unary(%x) {kind = "relu"} : tensor<4xf32>
    %b = top.unary(%a) {kind = "neg"} : tensor<4xf32>
    top.return(%b)
  } {
    %d = top.unary(%x) {kind = "abs"} : tensor<4xf32>
    top.return(%d)
  } : tensor<4xf32>
  %z = top.unary(%y) {kind = "tanh"} : tensor<4xf32>
  top.return(%z)
}
"""


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (True, ['%a = top.unary(%x) {kind = "relu"}', '%b = top.unary(%a) {kind = "neg"}', "%b"]),
        (False, ['%d = top.unary(%x) {kind = "abs"}', "%d"]),
    ],
)
def test_a_branch_with_a_constant_condition_is_inlined(check, condition, expected):
    checked = check(FoldConstants(), IF, arrays={"c": np.array(condition)})
    *inner, value = expected
    assert [line.split(" :")[0] for line in checked.lines] == [
        *inner,
        f'%z = top.unary({value}) {{kind = "tanh"}}',
        "top.return(%z)",
    ]
    assert checked.fired == ["inline-if y"]


def test_a_large_result_of_small_constants_is_not_stored(check):
    text = """
    func.func @main(%x: tensor<64x1024xf32>) {
      %a = top.weight() {weight = "a"} : tensor<f32>
      %e = top.expand(%a) {shape = [64, 1024]} : tensor<64x1024xf32>
      %y = top.binary(%x, %e) {kind = "add"} : tensor<64x1024xf32>
      top.return(%y)
    }
    """
    checked = check(FoldConstants(), text)
    assert checked.declined == [
        "fold-constant e: e would be a constant of 262144 bytes, made of 4: "
        "cheaper to compute than to store"
    ]
    assert checked.fired == []


def test_weights_of_one_number_are_weights_however_large_and_hold_it_once(check, monkeypatch):
    monkeypatch.setattr("explorer.passes.simplify.fold_constants.LARGEST_RESULT_BYTES", 64)
    text = """
    func.func @main(%x: tensor<1x64xf32>) {
      %a = top.weight() {weight = "a"} : tensor<f32>
      %e = top.expand(%a) {shape = [300, 64]} : tensor<300x64xf32>
      %t = top.transpose(%e) {permutation = [1, 0]} : tensor<64x300xf32>
      %y = top.matmul(%x, %t) : tensor<1x300xf32>
      top.return(%y)
    }
    """
    checked = check(FoldConstants(), text)
    assert checked.fired == ["fold-constant e", "fold-constant t"]
    assert checked.lines[0] == "%y = top.matmul(%x, %folded2) : tensor<1x300xf32>"
    weights = checked.result.after.weights
    assert [w.strides for name, w in weights.items() if "folded" in name] == [(0, 0), (0, 0)]


def test_a_range_without_an_end_in_sight_is_refused_before_it_is_made(check):
    text = """
    func.func @main(%x: tensor<4xi64>) {
      %s = top.weight() {weight = "s"} : tensor<i64>
      %e = top.weight() {weight = "e"} : tensor<i64>
      %d = top.weight() {weight = "d"} : tensor<i64>
      %r = top.range(%s, %e, %d) : tensor<?xi64>
      top.return(%x)
    }
    """
    numbers = {n: np.array(v, INTEGERS) for n, v in (("s", 0), ("e", 10**7), ("d", 1))}
    checked = check(FoldConstants(), text, arrays=numbers)
    assert checked.declined == ["fold-constant r: r would be a constant of 76 MiB"]


def test_a_large_matrix_is_transposed_once_since_it_gets_no_larger(check, monkeypatch):
    monkeypatch.setattr("explorer.passes.simplify.fold_constants.LARGEST_RESULT_BYTES", 8)
    text = """
    func.func @main(%x: tensor<1x4xf32>) {
      %w = top.weight() {weight = "w"} : tensor<8x4xf32>
      %t = top.transpose(%w) {permutation = [1, 0]} : tensor<4x8xf32>
      %y = top.matmul(%x, %t) : tensor<1x8xf32>
      top.return(%y)
    }
    """
    checked = check(FoldConstants(), text)
    assert checked.fired == ["fold-constant t"]


def test_what_cannot_be_computed_is_declined_with_the_reason(make_program):
    text = """
    func.func @main(%x: tensor<4xf32>) {
      %a = top.weight() {weight = "a"} : tensor<4xf32>
      %i = top.weight() {weight = "i"} : tensor<1xi64>
      %g = top.gather(%a, %i) {axis = 0} : tensor<1xf32>
      top.return(%g)
    }
    """
    working = make_program(text, {"i": np.array([7], INTEGERS)})
    (rewrite,) = run_pass(FoldConstants(), working, RewriteOptions()).rewrites
    assert not rewrite.applied
    assert rewrite.reason.startswith("g cannot be computed: ")


def test_weights_of_a_convolution_are_stored_however_they_are_made(check):
    text = """
    func.func @main(%x: tensor<1x64x4x4xf32>) {
      %a = top.weight() {weight = "a"} : tensor<f32>
      %w = top.expand(%a) {shape = [64, 64, 3, 3]} : tensor<64x64x3x3xf32>
      %y = top.conv(%x, %w) {dilations = [1, 1], group = 1, pads = [1, 1, 1, 1],
        strides = [1, 1]} : tensor<1x64x4x4xf32>
      top.return(%y)
    }
    """
    checked = check(FoldConstants(), text)
    assert checked.fired == ["fold-constant w"]
    assert checked.weight("folded1").nbytes == 64 * 64 * 9 * 4


def test_negative_amounts_of_a_pad_take_away(check):
    text = """
      func.func @main(%x: tensor<4x6xf32>) {
        %a = top.weight() {weight = "a"} : tensor<4xi64>
        %y = top.pad(%x, amounts = %a) {value = 1.5} : tensor<?x?xf32>
        top.return(%y)
      }
    """
    checked = check(FoldConstants(), text, {"a": np.array([1, -2, 0, -1])})
    assert "{high = [0, 0], interior = [0, 0], low = [1, 0], value = 1.5}" in checked.lines[0]
    assert "starts = [0, 2], steps = [1, 1], stops = [5, 5]}" in checked.lines[1]
    assert "tensor<5x3xf32>" in checked.lines[1]


def test_axes_without_a_size_are_not_cut(make_program):
    text = """
      func.func @main(%x: tensor<4x?xf32>) {
        %a = top.weight() {weight = "a"} : tensor<4xi64>
        %y = top.pad(%x, amounts = %a) {value = 0.0} : tensor<?x?xf32>
        top.return(%y)
      }
    """
    working = make_program(text, {"a": np.array([0, -2, 0, -1])})
    result = run_pass(FoldConstants(), working, RewriteOptions())
    assert [r.reason for r in result.rewrites] == ["y takes away from axes without a size yet"]

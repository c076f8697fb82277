"""Equal operations on equal operands are computed once."""

import numpy as np

from explorer.ir.rewriting import RewriteOptions
from explorer.passes.simplify.eliminate_common_subexpressions import EliminateCommonSubexpressions

TWICE = """
func.func @main(%x: tensor<4xf32>) {
  %a = top.unary(%x) {kind = "relu"} : tensor<4xf32>
  %b = top.unary(%x) {kind = "relu"} : tensor<4xf32>
  %c = top.unary(%a) {kind = "neg"} : tensor<4xf32>
  %d = top.unary(%b) {kind = "neg"} : tensor<4xf32>
  %e = top.binary(%c, %d) {kind = "mul"} : tensor<4xf32>
  top.return(%e)
}
"""


def test_equal_operations_become_one_and_so_do_their_users(check):
    checked = check(EliminateCommonSubexpressions(), TWICE)
    assert checked.lines == [
        '%a = top.unary(%x) {kind = "relu"} : tensor<4xf32>',
        '%c = top.unary(%a) {kind = "neg"} : tensor<4xf32>',
        '%e = top.binary(%c, %c) {kind = "mul"} : tensor<4xf32>',
        "top.return(%e)",
    ]


def test_an_override_keeps_one_of_them(check):
    options = RewriteOptions({"eliminate-common-subexpressions/reuse-equal/b": False})
    checked = check(EliminateCommonSubexpressions(), TWICE, options=options)
    assert checked.fired == []
    assert checked.declined == ["reuse-equal b: declined by an override"]


def test_weights_with_equal_contents_become_one(check):
    text = """
    func.func @main(%x: tensor<2xf32>) {
      %u = top.weight() {weight = "u"} : tensor<2xf32>
      %v = top.weight() {weight = "v"} : tensor<2xf32>
      %w = top.weight() {weight = "w"} : tensor<2xf32>
      %a = top.binary(%u, %x) {kind = "add"} : tensor<2xf32>
      %b = top.binary(%v, %x) {kind = "add"} : tensor<2xf32>
      %c = top.binary(%w, %x) {kind = "add"} : tensor<2xf32>
      top.return(%a, %b, %c)
    }
    """
    one, other = np.array([1, 2], np.float32), np.array([1, 3], np.float32)
    checked = check(
        EliminateCommonSubexpressions(), text, arrays={"u": one, "v": one.copy(), "w": other}
    )
    assert checked.lines[-1] == "top.return(%a, %a, %c)"


def test_other_properties_or_operands_are_not_equal(check):
    text = TWICE.replace('%b = top.unary(%x) {kind = "relu"}', '%b = top.unary(%x) {kind = "abs"}')
    assert not check(EliminateCommonSubexpressions(), text).result.changed


def test_nothing_is_merged_across_a_region(check):
    text = """
    func.func @main(%c: tensor<i1>, %x: tensor<4xf32>) {
      %y = top.if(%c) {
        %a = top.unary(%x) {kind = "relu"} : tensor<4xf32>
        top.return(%a)
      } {
        %b = top.unary(%x) {kind = "relu"} : tensor<4xf32>
        top.return(%b)
      } : tensor<4xf32>
      top.return(%y)
    }
    """
    assert not check(EliminateCommonSubexpressions(), text).result.changed


def test_a_sum_of_swapped_operands_is_the_same_sum_and_a_difference_is_not(check):
    def text(kind):
        return f"""
        func.func @main(%x: tensor<4xf32>, %z: tensor<4xf32>) {{
          %a = top.binary(%x, %z) {{kind = "{kind}"}} : tensor<4xf32>
          %b = top.binary(%z, %x) {{kind = "{kind}"}} : tensor<4xf32>
          top.return(%a, %b)
        }}
        """

    assert check(EliminateCommonSubexpressions(), text("add")).lines[-1] == "top.return(%a, %a)"
    assert not check(EliminateCommonSubexpressions(), text("sub")).fired

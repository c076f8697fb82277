"""What nobody reads is removed, with all that fed only it."""

from explorer.ir.rewriting import Fuel, RewriteOptions
from explorer.passes.simplify.eliminate_dead_code import EliminateDeadCode

DEAD_CHAIN = """
func.func @main(%x: tensor<4xf32>) {
  %w = top.weight() {weight = "w"} : tensor<4xf32>
  %a = top.binary(%x, %w) {kind = "add"} : tensor<4xf32>
  %b = top.unary(%a) {kind = "relu"} : tensor<4xf32>
  %c = top.unary(%x) {kind = "neg"} : tensor<4xf32>
  top.return(%c)
}
"""


def test_a_dead_chain_goes_from_its_end_to_its_weights(check):
    checked = check(EliminateDeadCode(), DEAD_CHAIN)
    assert checked.lines == [
        '%c = top.unary(%x) {kind = "neg"} : tensor<4xf32>',
        "top.return(%c)",
    ]
    assert checked.fired == ["erase-unused b", "erase-unused a", "erase-unused w"]


def test_fuel_stops_it_midway(check):
    checked = check(EliminateDeadCode(), DEAD_CHAIN, options=RewriteOptions(fuel=Fuel(1)))
    assert checked.fired == ["erase-unused b"]


def test_what_is_returned_is_used(check):
    text = DEAD_CHAIN.replace("top.return(%c)", "top.return(%b, %c)")
    assert not check(EliminateDeadCode(), text).result.changed


def test_a_dead_branch_goes_with_everything_in_it(check):
    checked = check(
        EliminateDeadCode(),
        """
        func.func @main(%c: tensor<i1>, %x: tensor<4xf32>) {
          %y = top.if(%c) {
            %a = top.unary(%x) {kind = "relu"} : tensor<4xf32>
            top.return(%a)
          } {
            top.return(%x)
          } : tensor<4xf32>
          top.return(%x)
        }
        """,
    )
    assert checked.lines == ["top.return(%x)"]
    assert {identity for identity, _ in checked.result.events[0].delta.removed} == {"y", "a"}

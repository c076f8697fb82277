"""Copies of operations equal what xDSL's clone makes, and share nothing that can change."""

from explorer.ir.inspection.printing import dump, parse
from explorer.ir.rewriting.copying import copy_operation
from explorer.ir.structure import operations

NESTED = """
func.func @main(%c : tensor<i1>, %x : tensor<4xf32>) -> tensor<4xf32> attributes {device = "cpu"} {
  %z = top.unary(%x) {kind = "neg"} : tensor<4xf32> loc("node")
  %y = top.if(%c) {
    %a = top.unary(%z) {kind = "abs"} : tensor<4xf32>
    top.return(%a)
  } {
    top.return(%z)
  } : tensor<4xf32>
  top.return(%y)
}
"""


def test_a_copy_has_the_same_text_identities_and_locations_included():
    module = parse(NESTED)
    text = dump(module)
    copy = copy_operation(module)
    copy.verify()
    assert dump(copy) == text == dump(module.clone())
    originals = {id(op) for op in module.walk()}
    assert all(id(op) not in originals for op in copy.walk())


def test_a_copy_does_not_follow_its_original():
    module = parse(NESTED)
    copy, text = copy_operation(module), dump(module)
    for op in operations(module):
        op.attributes.clear()
        op.properties.clear()
    assert dump(copy) == text


def test_what_stands_outside_is_used_by_the_copy_too():
    module = parse(NESTED)
    z, y, _ = module.body.block.first_op.body.block.ops
    copy = copy_operation(y)
    inside = copy.regions[0].block.first_op
    assert inside.operands[0] is z.results[0]
    assert len(list(z.results[0].uses)) == 4  # of the original and of the copy, in two regions each

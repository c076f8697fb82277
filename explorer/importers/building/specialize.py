"""Operands that decide nothing but a shape, where an input's contents were assumed for it.

    %y = top.slice(%x, starts_value = %s, stops_value = %e) : tensor<2x3xf32>     %s is an input
 => %w = top.weight() {weight = "y.operand1"}
    %y = top.slice(%x, starts_value = %w, ...) : tensor<2x3xf32>

The result's shape was found with these contents, so the program is right for them only, and the
function says so (`specialized_inputs`). Operands whose contents are numbers of the result itself,
like those of a range, stay what they are.
"""

from __future__ import annotations

from xdsl.ir import Block

from explorer.importers.building.build import Build
from explorer.ir.operation import identity_of, set_identity
from explorer.ir.rewriting import Names
from explorer.ir.top.data import WeightOp, weight_type
from explorer.ir.top.movement.pad import PadOp
from explorer.ir.top.movement.reshape import ExpandOp, ReshapeOp
from explorer.ir.top.movement.slices import SliceOp
from explorer.ir.types import is_static

SHAPED_BY_OPERANDS = (ReshapeOp, ExpandOp, SliceOp, PadOp)
"""All operands but the first say which shape the result has, or where its elements come from."""


def specialize(block: Block, build: Build, names: Names) -> None:
    """Puts assumed contents in the place of such operands, in a block and all inside it."""
    for op in list(block.walk()):
        if not isinstance(op, SHAPED_BY_OPERANDS) or not is_static(op.results[0]):
            continue
        for index, operand in enumerate(op.operands[1:], 1):
            contents = build.knowledge.needed(operand)
            if contents is None or build.knowledge.array(operand) is not None:
                continue
            name = build.weights.add(f"{identity_of(op)}.operand{index}", contents)
            weight = WeightOp.make([], [weight_type(contents)], weight=name)
            weight.location = op.location
            set_identity(weight, names.fresh("weight"))
            assert op.parent is not None
            op.parent.insert_op_before(weight, op)
            op.operands[index] = weight.output

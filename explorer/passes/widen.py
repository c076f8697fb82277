"""Products of narrow floats are computed in single precision.

    %y = top.matmul(%a, %b) : tensor<8x8xf16>
 => %1 = top.cast(%a) {to = f32}; %2 = top.cast(%b) {to = f32}
    %3 = top.matmul(%1, %2) : tensor<8x8xf32>
    %y = top.cast(%3) {to = f16}

That is what the operation means anyway (`explorer.ir.top.arithmetic`); but now each element is
widened once, and not in every product that it takes part in.
"""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from explorer.ir.rewriting import RecordedRewriter, Rule
from explorer.ir.top.casting import CastOp
from explorer.ir.top.linear import ConvOp, MatMulOp
from explorer.ir.types import arithmetic_type, element_type_of, widened
from explorer.passes.matching import constant, weight_name


class WidenProducts(Rule):
    """matmul(a : f16, b : f16)   =>   cast(matmul(cast(a) : f32, cast(b) : f32)) : f16

    Applies to convolutions and matrix products of elements that are only stored narrow (f16,
    bf16); constants are widened at once. Pays because the tiled kernels for f32 serve for them.
    """

    matches = (ConvOp, MatMulOp)

    def rewrite(self, op: ConvOp | MatMulOp, rewriter: RecordedRewriter) -> None:
        own = element_type_of(op.output)
        if arithmetic_type(own) == own:
            return

        def wide(operand: SSAValue) -> SSAValue:
            kind = arithmetic_type(element_type_of(operand))
            if kind == element_type_of(operand):
                return operand
            array = constant(operand, rewriter.weights)
            if array is not None:
                assert isinstance(operand.owner, Operation)
                name = weight_name(op, "wide")
                return rewriter.add_weight(op, name, widened(array), like=operand.owner)
            cast = CastOp.make([operand], to=kind)
            rewriter.insert_before(op, cast)
            return cast.output

        names = [name for name, _ in op.get_irdl_definition().operands]
        present = {name: getattr(op, name) for name in names}
        product = op.altered(**{n: wide(v) for n, v in present.items() if v is not None})
        rewriter.insert_before(op, product)
        rewriter.replace(op, CastOp.make([product.output], to=own))

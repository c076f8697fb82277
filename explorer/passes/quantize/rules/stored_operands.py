"""Numbers that are stored in fewer bytes are widened where they are multiplied.

   %w = top.cast(%b) {to = f32} : tensor<1x4x16x8xf32>          %b : tensor<1x4x16x8xf16>
   %y = top.matmul(%a, %w) : tensor<1x4x1x8xf32>
=> %y = top.matmul(%a, %b) : tensor<1x4x1x8xf32>
"""

from __future__ import annotations

from xdsl.dialects.builtin import f32

from explorer.ir.constants import is_constant
from explorer.ir.rewriting import Declined, RecordedRewriter, Rule
from explorer.ir.top.casting import CastOp
from explorer.ir.top.linear.matmul import WIDENED, MatMulOp
from explorer.ir.types import element_type_of, shape_of
from explorer.passes.analysis.matching import maker

FEW_ROWS = 16
"""For more of them the conversions cost more than the bytes save."""


class WidenOperand(Rule):
    """matmul(a, cast(b) : f32)   =>   matmul(a, b)

    Applies to products of few rows with a computed right side of float16 or bytes, such as the
    rows of a cache. Pays because such a product waits for what it reads: half or a quarter of the
    bytes. Exact: the same numbers are multiplied.
    """

    matches = (MatMulOp,)

    def rewrite(self, op: MatMulOp, rewriter: RecordedRewriter) -> None:
        cast = maker(op.right, CastOp)
        if cast is None or cast.to != f32 or is_constant(cast.input):
            return
        if element_type_of(cast.input) not in WIDENED or element_type_of(op.left) != f32:
            return
        check_rows(op)
        rewriter.set_operand(op, 1, cast.input)


def check_rows(op: MatMulOp) -> None:
    """Declined for a product of too many rows to widen its right side where it is multiplied."""
    rows = shape_of(op.left)[-2]
    if not isinstance(rows, int) or rows > FEW_ROWS:
        raise Declined(f"{rows} rows use what is widened once, {FEW_ROWS} at most read it so")

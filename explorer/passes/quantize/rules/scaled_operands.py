"""Scales of rows that are stored as bytes move out of the operand of a product.

   %w = top.binary(%wide, %s) {kind = "mul"}       %wide = cast(bytes), %s : tensor<1x4x1x16xf32>
   %y = top.matmul(%a, %w) : tensor<1x4x1x16xf32>
=> %p = top.matmul(%a, %wide)
   %y = top.binary(%p, %s) {kind = "mul"}

So the product reads bytes (`widen-operand`), and there is one multiplication for each row instead
of one for each number: rows of keys after their product, rows of values before theirs.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from explorer.ir.constants import is_constant
from explorer.ir.rewriting import RecordedRewriter, Rule
from explorer.ir.top.casting import CastOp
from explorer.ir.top.elementwise import BinaryOp
from explorer.ir.top.linear.matmul import WIDENED, MatMulOp
from explorer.ir.top.movement.reshape import ReshapeOp
from explorer.ir.types import element_type_of, is_static, shape_of, static_shape
from explorer.passes.analysis.matching import has_fused_parts, maker
from explorer.passes.quantize.rules.stored_operands import check_rows


class ScaleProduct(Rule):
    """matmul(a, cast(b) * s)   =>   matmul(a, cast(b)) * s      (s: one row)

    Applies to products of few rows with columns that are stored as bytes with a scale each, such as
    the keys of a cache. Pays because the product reads bytes instead of floats that were made of
    them. Sums are scaled instead of their terms: floats differ by rounding, and a byte of 0 with an
    infinite scale is not NaN any more.
    """

    matches = (MatMulOp,)

    def rewrite(self, op: MatMulOp, rewriter: RecordedRewriter) -> None:
        for wide, scale in _scaled(op):
            if static_shape(scale)[-2] != 1 or has_fused_parts(op):
                continue
            check_rows(op)
            product = op.altered(right=wide)
            rewriter.insert_before(op, product)
            rewriter.replace(op, BinaryOp.make([product.output, scale], kind="mul"))
            return


class ScaleLeft(Rule):
    """matmul(a, cast(b) * s)   =>   matmul(a * transpose(s), cast(b))      (s: one column)

    Applies to products of few rows with rows that are stored as bytes with a scale each, such as
    the values of a cache. Pays as `scale-product` does. The other factor of each term is scaled,
    with the same differences.
    """

    matches = (MatMulOp,)

    def rewrite(self, op: MatMulOp, rewriter: RecordedRewriter) -> None:
        for wide, scale in _scaled(op):
            *batch, rows, columns = static_shape(scale)
            if columns != 1:
                continue
            check_rows(op)
            turned = ReshapeOp.make([scale, None], shape=[*batch, 1, rows])
            rewriter.insert_before(op, turned)
            left = BinaryOp.make([op.left, turned.output], kind="mul")
            rewriter.insert_before(op, left)
            rewriter.replace(op, op.altered(left=left.output, right=wide))
            return


def _scaled(op: MatMulOp) -> Iterator[tuple[SSAValue, SSAValue]]:
    """What the right side is the product of: bytes as f32, and their scales."""
    scaled = maker(op.right, BinaryOp)
    if scaled is None or scaled.get("kind") != "mul" or element_type_of(op.left) != f32:
        return
    for wide, scale in (scaled.operands, reversed(scaled.operands)):
        cast = maker(wide, CastOp)
        if (
            cast is not None
            and element_type_of(cast.input) in WIDENED
            and not is_constant(cast.input)
            and shape_of(wide) == shape_of(op.right)
            and len(shape_of(scale)) == len(shape_of(wide)) >= 2
            and is_static(scale)
        ):
            yield wide, scale

"""Factors behind a sum, or behind a product of two computed matrices, on their way to weights.

   %1 = top.matmul(%q, %k) : tensor<8x64x64xf32>
   %2 = top.binary(%1, %eighth) {kind = "mul"} : tensor<8x64x64xf32>
=> %1 = top.binary(%q, %eighth) {kind = "mul"} : tensor<8x64x16xf32>
   %2 = top.matmul(%1, %k) : tensor<8x64x64xf32>
"""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.rewriting import Declined, RecordedRewriter, Rule
from explorer.ir.top.elementwise import BinaryOp
from explorer.ir.top.linear.matmul import MatMulOp
from explorer.ir.top.movement.reshape import ReshapeOp
from explorer.ir.top.movement.transpose import TransposeOp
from explorer.ir.types import size_bytes
from explorer.passes.analysis.matching import (
    constant,
    has_fused_parts,
    is_constant,
    is_float,
    is_kind,
    is_used_once,
    maker,
    scalar,
    weight_name,
)
from explorer.passes.simplify.linear.operands import replace_with_parameters, takes_factor


class ScaleBeforeOffset(Rule):
    """(conv(x, w) + b) * f   =>   conv(x, w) * f + b * f

    Applies to constants when nothing else reads the steps between and the convolution or matmul
    can take in the factor. Pays because the factor costs nothing in the weights.
    """

    matches = (BinaryOp,)

    def rewrite(self, op: BinaryOp, rewriter: RecordedRewriter) -> None:
        add = maker(op.left, BinaryOp)
        if op.kind.data != "mul" or add is None or not is_kind(add, "add"):
            return
        factor = constant(op.right, rewriter.weights)
        offset = constant(add.right, rewriter.weights)
        if factor is None or offset is None or not takes_factor(add.left.owner):
            return
        if not is_used_once(add):
            raise Declined(f"{identity_of(add)} is needed elsewhere too")
        if not is_float(op.left) or op.output.type != add.left.type:
            raise Declined(f"{identity_of(op)} makes the result larger than {identity_of(add)}")
        shift = (offset.astype(np.float64) * factor).astype(offset.dtype)
        product = BinaryOp.make([add.left, op.right], kind="mul")
        rewriter.insert_before(op, product)
        weight = rewriter.add_weight(op, weight_name(op, "shift"), shift, like=add)
        new = add.altered(left=product.output, right=weight)
        replace_with_parameters(op, new, [add], rewriter)


class ScaleOperand(Rule):
    """matmul(q, k) * 0.125   =>   matmul(q * 0.125, k)

    Applies to one number behind a product of computed matrices, when q comes, by reshapes and
    transposes only, from a convolution or matmul that can take the number in. Pays because it
    costs nothing in those weights: the scores of attention are scaled for free.
    """

    matches = (BinaryOp,)

    def rewrite(self, op: BinaryOp, rewriter: RecordedRewriter) -> None:
        product = maker(op.left, MatMulOp)
        if op.kind.data != "mul" or product is None or scalar(op.right, rewriter.weights) is None:
            return
        if is_constant(product.right) or is_constant(product.left):
            return
        if not is_used_once(product) or op.output.type != product.output.type:
            raise Declined(f"{identity_of(product)} is needed elsewhere too, or grows")
        if has_fused_parts(product):
            raise Declined(f"something is fused into {identity_of(product)} already")
        operands = sorted(("left", "right"), key=lambda name: size_bytes(getattr(product, name)))
        for name in operands:
            value = getattr(product, name)
            if _reaches_weights(value):
                scaled = BinaryOp.make([value, op.right], kind="mul")
                rewriter.insert_before(op, scaled, like=op)
                new = product.altered(**{name: scaled.output})
                rewriter.replace(op, new, absorbs=[product])
                return
        raise Declined(f"no operand of {identity_of(product)} comes straight from weights")


def _reaches_weights(value: SSAValue) -> bool:
    """Do reshapes and transposes, and one addition of a constant, lead up to foldable weights?"""
    op = value.owner
    while isinstance(op, ReshapeOp | TransposeOp) and is_used_once(op):
        op = op.input.owner
    if isinstance(op, BinaryOp) and is_kind(op, "add") and is_constant(op.right):
        if not is_used_once(op):
            return False
        op = op.left.owner
    while isinstance(op, ReshapeOp) and is_used_once(op):
        op = op.input.owner
    return isinstance(op, TopOperation) and takes_factor(op)

"""Matmuls in the form that kernels are best at: rows times one constant matrix.

   %1 = top.matmul(%w, %column) : tensor<50x1xf32>              %w : tensor<50x5xf32>
=> %1 = top.reshape(%column) {shape = [1, 5]} : tensor<1x5xf32>
   %2 = top.matmul(%1, %w_transposed) : tensor<1x50xf32>
   %3 = top.reshape(%2) {shape = [50, 1]} : tensor<50x1xf32>
"""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from explorer.ir.operation import identity_of
from explorer.ir.origins import origin_of, set_origins
from explorer.ir.rewriting import Declined, RecordedRewriter, Rule
from explorer.ir.top.linear.matmul import MatMulOp
from explorer.ir.top.movement.reshape import ReshapeOp
from explorer.ir.top.movement.transpose import TransposeOp
from explorer.ir.types import QuantizedType, element_type_of, is_static, shape_of, static_shape
from explorer.passes.analysis.matching import (
    constant,
    has_fused_parts,
    is_used_once,
    maker,
    weight_name,
)


class SqueezeWeights(Rule):
    """matmul(x, w : 1x64x32)   =>   matmul(x, w : 64x32)

    Applies to constant weights whose batch dimensions have one element, when x has as many axes.
    Pays because all rows of a batch times one matrix are one product, which can take a bias.
    Exact.
    """

    matches = (MatMulOp,)

    def rewrite(self, op: MatMulOp, rewriter: RecordedRewriter) -> None:
        array = constant(op.right, rewriter.weights)
        if array is None or array.ndim < 3 or any(size != 1 for size in array.shape[:-2]):
            return
        if len(shape_of(op.left)) < array.ndim:
            raise Declined(f"the weights of {identity_of(op)} give the result more axes")
        name, kind = weight_name(op, "weight"), element_type_of(op.right)
        if isinstance(kind, QuantizedType) and not kind.is_per_tensor:
            kind = kind.with_axis(kind.axis_number - (array.ndim - 2))
            if kind.is_per_tensor:
                raise Declined(f"the weights of {identity_of(op)} have a scale for each batch")
        value = rewriter.add_weight(
            op, name, array.reshape(array.shape[-2:]), like=op, element_type=kind
        )
        rewriter.replace(op, op.altered(right=value))


class RowTimesMatrix(Rule):
    """matmul(w : 50x5, column : 5x1)   =>   reshape(matmul(reshape(column) : 1x5, w^T))

    Applies to constant weights on the left of one column, before anything is fused. Pays because
    the reshapes are views, the product's result lies along the vectors of the machine, and a bias
    can become part of it. Exact, but for the order of the sums.
    """

    matches = (MatMulOp,)

    def rewrite(self, op: MatMulOp, rewriter: RecordedRewriter) -> None:
        array = constant(op.left, rewriter.weights)
        if array is None or array.ndim != 2 or constant(op.right, rewriter.weights) is not None:
            return
        if not is_static(op.right) or static_shape(op.right)[1:] != (1,):
            return
        if has_fused_parts(op):
            raise Declined(f"something is fused into {identity_of(op)} already")
        rows, inner = array.shape
        row = _reshape(op.right, (1, inner), op, rewriter)
        turned = np.ascontiguousarray(array.T)
        weight = rewriter.add_weight(op, weight_name(op, "weight"), turned, like=op)
        new = MatMulOp.make([row, weight, None, None])
        origin = origin_of(op.output)
        set_origins(new, [None if origin is None else origin.then("reshape", (1, rows))])
        rewriter.insert_before(op, new, like=op)
        rewriter.replace(op, ReshapeOp.make([new.output, None], shape=[rows, 1]))


def _reshape(
    value: SSAValue, shape: tuple[int, ...], op: MatMulOp, rewriter: RecordedRewriter
) -> SSAValue:
    reshape = ReshapeOp.make([value, None], shape=list(shape))
    origin = origin_of(value)
    set_origins(reshape, [None if origin is None else origin.then("reshape", shape)])
    rewriter.insert_before(op, reshape)
    return reshape.output


class SwapTransposedFactors(Rule):
    """matmul(transpose(a), transpose(b))   =>   transpose(matmul(b, a))

    Applies when both transposes swap the last two axes only, nothing else reads them, and nothing
    is fused yet. Pays because one transpose is made instead of two. Exact, but for the order of
    the sums.
    """

    matches = (MatMulOp,)

    def rewrite(self, op: MatMulOp, rewriter: RecordedRewriter) -> None:
        left, right = maker(op.left, TransposeOp), maker(op.right, TransposeOp)
        if left is None or right is None:
            return
        for transpose in (left, right):
            rank = len(shape_of(transpose.input))
            if transpose.get("permutation") != (*range(rank - 2), rank - 1, rank - 2):
                raise Declined(f"{identity_of(transpose)} does not swap the last two axes")
            if not is_used_once(transpose):
                raise Declined(f"{identity_of(transpose)} is needed elsewhere too")
        if has_fused_parts(op):
            raise Declined(f"something is fused into {identity_of(op)} already")
        new = MatMulOp.make([right.input, left.input, None, None])
        rank = len(shape_of(new.output))
        permutation = (*range(rank - 2), rank - 1, rank - 2)
        origin = origin_of(op.output)
        set_origins(new, [None if origin is None else origin.then("permute", permutation)])
        rewriter.insert_before(op, new, like=op)
        back = TransposeOp.make([new.output], permutation=list(permutation))
        rewriter.replace(op, back, absorbs=[left, right])


MATMUL_RULES: tuple[type[Rule], ...] = (SqueezeWeights, RowTimesMatrix, SwapTransposedFactors)

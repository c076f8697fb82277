"""Factors and offsets before a convolution or matmul go into its weights.

   %1 = top.binary(%x, %f) {kind = "mul"} : tensor<1x8x6x6xf32>          %f : tensor<8x1x1xf32>
   %2 = top.conv(%1, %w) {...} : tensor<1x4x6x6xf32>
=> %2 = top.conv(%x, %w2) {...} : tensor<1x4x6x6xf32>

   w * (f x + b)   =   (w f) x + w b          f, b: one number per input channel
"""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from explorer.ir.operation import identity_of
from explorer.ir.rewriting import Declined, RecordedRewriter, Rule
from explorer.ir.top.elementwise import BinaryOp, CastOp, UnaryOp
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.top.linear.matmul import MatMulOp
from explorer.ir.top.movement.reshape import ReshapeOp
from explorer.ir.top.movement.transpose import TransposeOp
from explorer.ir.top.pooling import PoolOp
from explorer.ir.types import is_static, static_shape
from explorer.passes.analysis.matching import constant, is_used_once, maker, per_channel
from explorer.passes.simplify.linear.operands import (
    channel_axis_of,
    input_of,
    per_input,
    replace_with_parameters,
    require_constant_parameters,
    takes_factor,
    with_weights,
)


class FoldScaleAhead(Rule):
    """conv(x * f, w)   =>   conv(x, w * f)

    Applies when f is constant with one number per input channel, the weights are constant, and
    nothing else reads the product, unless what makes x can take f in (`fold-scale`). Pays because
    a pass over the tensor is saved. Numbers are rounded once, from double precision.
    """

    matches = (ConvOp, MatMulOp)

    def rewrite(self, op: ConvOp | MatMulOp, rewriter: RecordedRewriter) -> None:
        found = _constant_operation(op, "mul", rewriter)
        if found is None:
            return
        product, factor = found
        weight = require_constant_parameters(op, rewriter)
        scaled = weight.astype(np.float64) * per_input(weight, factor, op)
        new = with_weights(op, scaled, None, op, rewriter, **_reading(op, product))
        replace_with_parameters(op, new, [product], rewriter)


class FoldOffsetAhead(Rule):
    """conv(x + b, w)   =>   conv(x, w, bias = w b)

    Applies without padding, under the conditions of `fold-scale-ahead`: in the padding there is
    no b. Pays because a pass over the tensor is saved.
    """

    matches = (ConvOp, MatMulOp)

    def rewrite(self, op: ConvOp | MatMulOp, rewriter: RecordedRewriter) -> None:
        found = _constant_operation(op, "add", rewriter)
        if found is None:
            return
        total, offset = found
        if isinstance(op, ConvOp) and any(op.get("pads")):
            raise Declined(f"{identity_of(op)} pads with zeros, which got no offset")
        weight = require_constant_parameters(op, rewriter)
        products = weight.astype(np.float64) * per_input(weight, offset, op)
        axes = 0 if isinstance(op, MatMulOp) else tuple(range(1, weight.ndim))
        bias = products.sum(axis=axes)
        present = None if op.bias is None else constant(op.bias, rewriter.weights)
        if present is not None:
            bias = bias + present
        new = with_weights(op, None, bias, op, rewriter, **_reading(op, total))
        replace_with_parameters(op, new, [total], rewriter)


def _constant_operation(
    op: ConvOp | MatMulOp, kind: str, rewriter: RecordedRewriter
) -> tuple[BinaryOp, np.ndarray] | None:
    """What feeds the operation if it adds (multiplies) a constant, with one number per channel."""
    inner = maker(input_of(op), BinaryOp)
    if inner is None or inner.kind.data != kind:
        return None
    array = constant(inner.right, rewriter.weights)
    if array is None:
        return None
    if not is_static(inner.output) or inner.left.type != inner.output.type:
        raise Declined(f"{identity_of(inner)} changes the shape of what it reads")
    if takes_factor(inner.left.owner):
        return None  # it goes into the weights, or the bias, of what comes before
    if not is_used_once(inner):
        raise Declined(f"{identity_of(inner)} is needed elsewhere too")
    if is_quantized(inner.left):
        raise Declined(f"{identity_of(inner)} scales whole numbers: sums of them stay exact")
    shape, axis = static_shape(inner.output), channel_axis_of(op)
    numbers = per_channel(array.astype(np.float64), len(shape), axis, shape[axis])
    if numbers is None:
        raise Declined(f"the constant of {identity_of(inner)} is not one number per channel")
    return inner, numbers


def is_quantized(value: SSAValue) -> bool:
    """Was the value rounded to whole numbers, and at most moved, clipped and cast since?"""
    for _ in range(_LONGEST_QUANTIZATION):
        op = value.owner
        if isinstance(op, UnaryOp) and op.kind.data in ("round", "floor", "ceil"):
            return True
        if isinstance(op, UnaryOp) and op.kind.data not in ("clip", "relu", "neg"):
            return False
        if not isinstance(op, UnaryOp | CastOp | BinaryOp | ReshapeOp | TransposeOp | PoolOp):
            return False
        if isinstance(op, BinaryOp) and op.kind.data not in ("add", "sub", "max", "min"):
            return False
        value = op.operands[0]
    return False


_LONGEST_QUANTIZATION = 12


def _reading(op: ConvOp | MatMulOp, inner: BinaryOp) -> dict:
    return {"input" if isinstance(op, ConvOp) else "left": inner.left}


AHEAD_RULES: tuple[type[Rule], ...] = (FoldScaleAhead, FoldOffsetAhead)

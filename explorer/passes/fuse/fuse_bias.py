"""Bias: the addition of a constant per channel becomes the start value of the accumulation.

   %1 = top.conv(%x, %w) {...} : tensor<1x8x6x6xf32>
   %2 = top.binary(%1, %b) {kind = "add"} : tensor<1x8x6x6xf32>            %b : tensor<8x1x1xf32>
=> %2 = top.conv(%x, %w, bias = %b2) {...} : tensor<1x8x6x6xf32>           %b2 : tensor<8xf32>
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from explorer.ir.operation import identity_of
from explorer.ir.rewriting import Declined, RecordedRewriter, Rule
from explorer.ir.rewriting.passes import RulePass
from explorer.ir.top.elementwise import BinaryOp
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.top.linear.matmul import MatMulOp
from explorer.ir.types import format_shape, is_static, static_shape
from explorer.passes.analysis.matching import (
    both_orders,
    channel_axis,
    constant,
    per_channel,
    require_single_use,
    weight_name,
)


class FuseAddedConstant(Rule):
    """conv(x, w) + b   =>   conv(x, w, bias = b)      (a subtraction likewise)

    Applies when b is constant with one number per channel (per column of a matmul), nothing else
    reads the convolution and no activation is fused into it. A bias that is there already is
    added up. Pays because the bias is added while the sum is in registers: a pass over the result
    is saved.
    """

    matches = (BinaryOp,)

    def rewrite(self, op: BinaryOp, rewriter: RecordedRewriter) -> None:
        if op.kind.data not in ("add", "sub"):
            return
        pairs = both_orders(op) if op.kind.data == "add" else [(op.left, op.right)]
        for value, other in pairs:
            linear, array = value.owner, constant(other, rewriter.weights)
            if isinstance(linear, ConvOp | MatMulOp) and array is not None:
                bias = _bias(linear, -array if op.kind.data == "sub" else array, op, rewriter)
                if bias is array:
                    value = other
                else:
                    name = weight_name(linear, "bias")
                    value = rewriter.add_weight(op, name, bias, like=linear)
                rewriter.replace(op, linear.altered(bias=value), absorbs=[linear])
                return


def _bias(
    linear: ConvOp | MatMulOp, array: np.ndarray, op: BinaryOp, rewriter: RecordedRewriter
) -> np.ndarray:
    """The bias with the constant added, one number per channel; `array` itself where it is that."""
    name = identity_of(linear)
    require_single_use(linear)
    if linear.get("activation"):
        raise Declined(f"{name} ends with an activation, and the constant comes after it")
    if op.output.type != linear.output.type or not is_static(op.output):
        raise Declined(f"the sum has another shape than {name}")
    shape, axis = static_shape(op.output), channel_axis(linear)
    bias = per_channel(array, len(shape), axis, shape[axis])
    if bias is None:
        raise Declined(
            f"a constant of shape {format_shape(array.shape)} is not one number per channel "
            f"of {name}"
        )
    if linear.bias is None:
        return array if array.shape == bias.shape else bias
    present = constant(linear.bias, rewriter.weights)
    if present is None:
        raise Declined(f"{name} has a bias that is computed")
    return (present.astype(np.float64) + bias).astype(bias.dtype)


@dataclass(frozen=True)
class FuseBias(RulePass):
    """Constants per channel that are added to a convolution or matmul become its bias."""

    name = "fuse-bias"
    rules = (FuseAddedConstant,)

"""Rounding to the nearest number on a device that only shifts: half a step in the bias.

    %s = top.conv(%x, %w, bias = %b)                      (s + b) >> 5
    %q = top.requantize(%s) {by = ..., shift, down}
 => %s = top.conv(%x, %w, bias = %b + 16)                 (s + b + 16) >> 5
    %q = top.requantize(%s) {by = ..., shift, down}

A shift to the right rounds down, so that every result is half a step too small on average, and what
reads it adds these errors up. TVM's quantization, which VTA's programs come from, adds the same
number before it shifts (`round_for_shift` of its `QConfig`).
"""

from __future__ import annotations

import numpy as np

from explorer.ir.constants import constant
from explorer.ir.requantization import Requantization, RequantizationAttr, fixed_point, ratio_of
from explorer.ir.rewriting import RecordedRewriter
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.top.linear.matmul import MatMulOp
from explorer.ir.top.quantization.quantized import RequantizeOp
from explorer.ir.types import QuantizedType, element_type_of, static_shape
from explorer.passes.analysis.matching import weight_name
from explorer.passes.quantize.rules.products import I32, integer_limits, largest_sum


def rounds_down(how: Requantization) -> bool:
    """Whether it shifts and drops what is shifted out."""
    return how.scheme == "shift" and how.rounding == "down"


def add_half_step(op: RequantizeOp, by: RequantizationAttr, rewriter: RecordedRewriter) -> None:
    """The bias of the product that makes the sums gains half of what one step of the result is.

    Nothing is done where something else reads the sums, the bias is computed, or they would not
    fit into 32 bits any more.

    Raises:
        ValueError: where the scheme cannot hold the ratio of scales; nothing is changed then.
    """
    linear = op.input.owner
    if not isinstance(linear, ConvOp | MatMulOp) or not op.input.has_one_use():
        return
    sums, left, right = (element_type_of(v) for v in (op.input, *list(linear.operands)[:2]))
    if not all(isinstance(kind, QuantizedType) for kind in (sums, left, right)):
        return
    assert isinstance(sums, QuantizedType)
    assert isinstance(left, QuantizedType) and isinstance(right, QuantizedType)
    factors = fixed_point(ratio_of(sums, by), by.how)
    halves = np.where(factors.shifts > 0, 1 << np.maximum(factors.shifts - 1, 0), 0)
    channels = static_shape(op.input)[linear.channel_axes()[1]]
    own = np.zeros(channels, np.int64)
    if linear.bias is not None:
        array = constant(linear.bias, rewriter.weights)
        if array is None:
            return
        own = array.astype(np.int64)
    bias = own + halves
    limit = integer_limits(I32)[1]
    if largest_sum(linear, linear.operands[1], left, right, bias, rewriter) > limit:
        return
    stored = rewriter.add_weight(
        linear, weight_name(linear, "bias"), bias.astype(np.int32), like=linear
    )
    rewriter.replace(linear, linear.altered(bias=stored))

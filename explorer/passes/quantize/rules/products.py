"""Products of dequantized tensors are products of integers.

    %x = top.dequantize(%qx) {to = f32}        %w = top.dequantize(%qw) {to = f32}
    %y = top.conv(%x, %w, bias = %b) {...}
 => %s = top.conv(%qx, %qw, bias = %bi) {...}  sums in i32, scale of x times scale of w
    %y = top.dequantize(%s) {to = f32}

Where a quantization follows, the pair around it becomes a requantization (`pairs.py`).
"""

from __future__ import annotations

from math import prod

import numpy as np
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute, SSAValue

from explorer.ir.operation import identity_of
from explorer.ir.requantization import integer_limits
from explorer.ir.rewriting import Declined, RecordedRewriter, Rule
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.top.linear.matmul import MatMulOp
from explorer.ir.top.quantization.integer_products import sums_type
from explorer.ir.top.quantization.quantized import DequantizeOp
from explorer.ir.types import QuantizedType, element_type_of, is_static, static_shape
from explorer.passes.analysis.matching import constant, maker, weight_name

I32 = IntegerType(32)


class MultiplyIntegers(Rule):
    """conv(dequantize(x), dequantize(w), bias)   =>   dequantize(conv(x, w, round(bias / scale)))

    Applies to convolutions and matmuls whose operands have one scale each (the second one also one
    per filter or column), if the bias is constant and no sum can exceed 32 bits. Pays because
    integers of 8 bits take a quarter of the memory, and sums of their products are exact.
    """

    matches = (ConvOp, MatMulOp)

    def rewrite(self, op: ConvOp | MatMulOp, rewriter: RecordedRewriter) -> None:
        first, second = (maker(operand, DequantizeOp) for operand in list(op.operands)[:2])
        if first is None or second is None:
            return
        name = identity_of(op)
        if op.residual is not None or op.get("activation"):
            raise Declined(f"a residual or an activation is part of {name} already")
        left, right = first.parameters, second.parameters
        if max(left.storage.width.data, right.storage.width.data) > 16:
            raise Declined(f"{name} multiplies integers of more than 16 bits")
        if first.to != element_type_of(op.output) or not is_static(second.input):
            raise Declined(f"{name} is no product in the floats that were dequantized")
        try:
            sums = sums_type(left, right, *op.channel_axes())
        except ValueError as error:
            raise Declined(f"{name}: {error}") from error
        bias = _integer_bias(op, sums, rewriter)
        _require_room(op, second.input, left, right, bias, rewriter)
        names = ("input", "weight") if isinstance(op, ConvOp) else ("left", "right")
        operands: dict[str, SSAValue] = dict(zip(names, (first.input, second.input), strict=True))
        if bias is not None:
            operands["bias"] = rewriter.add_weight(op, weight_name(op, "bias"), bias, like=op)
        product = op.altered(**operands)
        rewriter.insert_before(op, product, stem=name, like=op)
        third = None if op.bias is None else maker(op.bias, DequantizeOp)
        absorbed = [first, second] if third is None else [first, second, third]
        back = DequantizeOp.make([product.output], to=first.to)
        rewriter.replace(op, back, absorbs=list(dict.fromkeys(absorbed)))


def _integer_bias(
    op: ConvOp | MatMulOp, sums: QuantizedType, rewriter: RecordedRewriter
) -> np.ndarray | None:
    """The bias in units of the sums: exact where it was quantized so, else rounded once."""
    if op.bias is None:
        return None
    array = constant(op.bias, rewriter.weights)
    dequantized = maker(op.bias, DequantizeOp)
    if dequantized is not None:
        stored, kind = constant(dequantized.input, rewriter.weights), dequantized.parameters
        if stored is not None:
            scales = kind.scale_array.astype(np.float64)
            array = (stored.astype(np.int64) - kind.zero_point_array) * scales
    if array is None:
        raise Declined(f"the bias of {identity_of(op)} is computed")
    units = np.rint(array.astype(np.float64) / sums.scale_array.astype(np.float64))
    low, high = integer_limits(I32)
    if not np.all((units >= low) & (units <= high)):
        raise Declined(f"the bias of {identity_of(op)} does not fit into 32 bits")
    return units.astype(np.int32)


def _require_room(
    op: ConvOp | MatMulOp,
    second: SSAValue,
    left: QuantizedType,
    right: QuantizedType,
    bias: np.ndarray | None,
    rewriter: RecordedRewriter,
) -> None:
    """Declined where a sum could exceed 32 bits, for whatever input."""
    highest = largest_sum(op, second, left, right, bias, rewriter)
    if highest > integer_limits(I32)[1]:
        raise Declined(f"sums of {identity_of(op)} may reach {highest:,}: more than 32 bits hold")


def largest_sum(
    op: ConvOp | MatMulOp,
    second: SSAValue,
    left: QuantizedType,
    right: QuantizedType,
    bias: np.ndarray | None,
    rewriter: RecordedRewriter,
) -> int:
    """The largest magnitude that a sum can have, for whatever input."""
    weights = constant(second, rewriter.weights)
    shape = static_shape(second)
    summed = tuple(range(1, len(shape))) if isinstance(op, ConvOp) else (len(shape) - 2,)
    if weights is None:
        total = np.asarray(prod(shape[axis] for axis in summed) * largest(right))
    else:
        zeros = right.along(right.zero_point_array, weights.ndim)
        total = np.abs(weights.astype(np.int64) - zeros).sum(axis=summed)
    highest = int(np.max(total, initial=0)) * largest(left)
    return highest + (0 if bias is None else int(np.abs(bias.astype(np.int64)).max(initial=0)))


def largest(kind: Attribute) -> int:
    """The largest magnitude of a stored number minus its zero point."""
    assert isinstance(kind, QuantizedType)
    low, high = integer_limits(kind.storage)
    zeros = kind.zero_point_array
    return int(max(zeros.max() - low, high - zeros.min()))

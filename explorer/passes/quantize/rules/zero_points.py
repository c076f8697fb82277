"""Zero points leave the inner loop of integer products: filters are centered, the bias changed.

    sum = bias + sum of (x - zx) * (w - zw)
        = (bias - (zx - o) * sum of v) + sum of (x - o) * v        v = w - zw, computed here

   %s = top.conv(%x, %w, bias = %b) {...}                       x: ui8 with zero point 114
=> %s = top.conv(%x, %v, bias = %b2) {subtracted = 0, ...}      v: i8 with zero point 0

With o = 0 for unsigned and -128 for signed numbers, x - o is an unsigned byte: what dot-product
instructions take. Reference: Jacob et al., "Quantization and Training of Neural Networks for
Efficient Integer-Arithmetic-Only Inference", 2018, section 2.3.
"""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import IntegerType, Signedness

from explorer.ir.operation import identity_of
from explorer.ir.requantization import integer_limits
from explorer.ir.rewriting import Declined, RecordedRewriter, Rule
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.top.linear.matmul import MatMulOp
from explorer.ir.top.quantization.integer_products import unsigned_offset
from explorer.ir.types import QuantizedType, element_type_of, shape_of
from explorer.passes.analysis.matching import constant, weight_name

I8, I32 = IntegerType(8), IntegerType(32)
BYTE = 8


class CenterFilters(Rule):
    """conv(x, w: ui8, zero point z)   =>   conv(x, w - z: i8, zero point 0)

    Applies to constant filters (columns) of bytes. Where w - z is more than a signed byte holds,
    what has no sign becomes w - 128 with the zero point z - 128. Pays because instructions multiply
    signed bytes, and because a zero point would have to be subtracted. Exact.
    """

    matches = (ConvOp, MatMulOp)

    def rewrite(self, op: ConvOp | MatMulOp, rewriter: RecordedRewriter) -> None:
        second = list(op.operands)[1]
        kind = element_type_of(second)
        if op.sums is None or not isinstance(kind, QuantizedType):
            return
        array = constant(second, rewriter.weights)
        if array is None or kind.storage.width.data != BYTE or not _needs_centering(kind):
            return
        zeros = kind.zero_point_array
        stored = array.astype(np.int64)
        centered = stored - kind.along(zeros, array.ndim)
        low, high = integer_limits(I8)
        if centered.size and (centered.min() < low or centered.max() > high):
            if kind.storage == I8:
                return
            centered, zeros = stored - 128, zeros - 128
        else:
            zeros = np.zeros_like(zeros)
        scales = kind.scale_array.tolist()
        new = QuantizedType.get(I8, scales, zeros.tolist(), kind.axis_number)
        name = weight_name(op, "centered")
        value = rewriter.add_weight(op, name, centered.astype(np.int8), element_type=new)
        role = "weight" if isinstance(op, ConvOp) else "right"
        rewriter.replace(op, op.altered(**{role: value}))


class FoldZeroPoint(Rule):
    """conv(x: zero point z, w, bias)   =>   conv(x, w, bias - z * sum of w) {subtracted}

    Applies to bytes x and constant filters w, if no partial sum can exceed 32 bits; where sums are
    scaled, so that their bias is one of floats, they begin as (left_zero - o) * right_sums. Pays
    because the inner loop multiplies x as it is stored, as dot products take it. Exact.
    """

    matches = (ConvOp, MatMulOp)

    def rewrite(self, op: ConvOp | MatMulOp, rewriter: RecordedRewriter) -> None:
        first, second, *_ = op.operands
        kind, filters = element_type_of(first), element_type_of(second)
        given = op.run_time
        is_scaled = given.is_scaled and given.present in (
            (given.scale,),
            (given.channel_scales,),
            (given.scale, given.channel_scales),
        )
        if op.sums is None or op.get("subtracted") is not None or (given.present and not is_scaled):
            return
        array = constant(second, rewriter.weights)
        if array is None:
            return
        assert isinstance(kind, QuantizedType) and isinstance(filters, QuantizedType)
        if kind.storage.width.data != BYTE or filters.storage.width.data != BYTE:
            return
        is_conv = isinstance(op, ConvOp)
        zero, offset = int(kind.zero_point_array[0]), unsigned_offset(kind)
        if zero == offset or (not is_conv and array.ndim != 2):
            return
        axes = tuple(range(1, array.ndim)) if is_conv else (0,)
        wide = array.astype(np.int64)
        zeros = filters.along(filters.zero_point_array, array.ndim)
        sums = (wide - zeros).sum(axis=axes)
        bias = 0 if is_scaled else self._present_bias(op, rewriter, len(sums))
        folded = bias - (zero - offset) * sums
        parts = (np.abs(wide) + np.abs(zeros)).sum(axis=axes) * 255
        reach = int((parts + np.abs(folded)).max(initial=0))
        if reach > integer_limits(I32)[1]:
            raise Declined(f"partial sums of {identity_of(op)} may reach {reach:,}")
        if is_scaled:
            rewriter.replace(op, self._with_sums(op, zero, offset, sums, rewriter))
            return
        name = weight_name(op, "offset_bias")
        value = rewriter.add_weight(op, name, folded.astype(np.int32), like=op)
        rewriter.replace(op, op.altered(bias=value, subtracted=offset))

    def _with_sums(
        self,
        op: ConvOp | MatMulOp,
        zero: int,
        offset: int,
        sums: np.ndarray,
        rewriter: RecordedRewriter,
    ) -> ConvOp | MatMulOp:
        name = weight_name(op, "left_zero")
        left_zero = rewriter.add_weight(op, name, np.asarray(zero, np.int32), like=op)
        name = weight_name(op, "column_sums")
        right_sums = rewriter.add_weight(op, name, sums.astype(np.int32), like=op)
        return op.altered(left_zero=left_zero, right_sums=right_sums, subtracted=offset)

    def _present_bias(
        self, op: ConvOp | MatMulOp, rewriter: RecordedRewriter, channels: int
    ) -> np.ndarray:
        if op.bias is None:
            return np.zeros(channels, np.int64)
        array = constant(op.bias, rewriter.weights)
        if array is None or shape_of(op.bias) != (channels,):
            raise Declined(f"the bias of {identity_of(op)} is no constant for each channel")
        return array.astype(np.int64)


def _needs_centering(kind: QuantizedType) -> bool:
    is_unsigned = kind.storage.signedness.data == Signedness.UNSIGNED
    return is_unsigned or bool(np.any(kind.zero_point_array))

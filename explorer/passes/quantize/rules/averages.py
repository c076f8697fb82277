"""Averages of dequantized tensors are sums of integers.

    %x = top.dequantize(%qx) {to = f32}                          %qx : ui8, scale 0.1, zero 3
    %y = top.reduce(%x) {kind = "mean", axes = [2, 3], ...}      over 64 elements
 => %i = top.cast(top.bitcast(%qx)) : i32
    %s = top.reduce(%i) {kind = "sum", axes = [2, 3], ...}
    %t = top.bitcast(%s)                                         i32, scale 0.1 / 64, zero 3 * 64
    %y = top.dequantize(%t) {to = f32}

The quantization that follows makes a requantization of the last one (`pairs.py`).
"""

from __future__ import annotations

from math import prod

import numpy as np
from xdsl.dialects.builtin import IntegerType

from explorer.ir.operation import identity_of
from explorer.ir.requantization import integer_limits
from explorer.ir.rewriting import Declined, RecordedRewriter, Rule
from explorer.ir.top.casting import BitcastOp
from explorer.ir.top.elementwise import CastOp
from explorer.ir.top.quantization.quantized import DequantizeOp, QuantizeOp
from explorer.ir.top.reductions.reduction import ReduceOp
from explorer.ir.types import QuantizedType, is_static, static_shape
from explorer.passes.analysis.matching import maker

I32 = IntegerType(32)


class SumIntegers(Rule):
    """quantize(mean(dequantize(x)))   =>   quantize(dequantize(sum(x)))

    Applies to means and sums of numbers with one scale, where no sum can exceed 32 bits. Pays
    because sums of integers are exact: a float that is rounded after each of many elements can end
    on the other side of the half between two integers.
    """

    matches = (ReduceOp,)

    def rewrite(self, op: ReduceOp, rewriter: RecordedRewriter) -> None:
        inner = maker(op.input, DequantizeOp)
        if inner is None or op.kind.data not in ("mean", "sum"):
            return
        if not any(isinstance(use.operation, QuantizeOp) for use in op.output.uses):
            return
        kind, name = inner.parameters, identity_of(op)
        if not kind.is_per_tensor or kind.storage.width.data > 16:
            raise Declined(f"{name} adds numbers of several scales, or of more than 16 bits")
        if not is_static(inner.input):
            raise Declined(f"how many numbers {name} adds is not known yet")
        shape = static_shape(inner.input)
        count = prod(shape[axis] for axis in op.get("axes"))
        most = count * max(abs(limit) for limit in integer_limits(kind.storage))
        if not 0 < most <= integer_limits(I32)[1]:
            raise Declined(f"sums of {name} may reach {most:,}: 1 to what 32 bits hold expected")
        bits = BitcastOp.make([inner.input], to=kind.storage)
        wide = CastOp.make([bits.output], to=I32)
        sums = ReduceOp.make(
            [wide.output], kind="sum", axes=op.get("axes"), keepdims=op.get("keepdims")
        )
        typed = BitcastOp.make([sums.output], to=_type_of_sums(kind, count, op.kind.data))
        for new in (bits, wide, sums, typed):
            rewriter.insert_before(op, new, stem=name, like=op)
        back = DequantizeOp.make([typed.output], to=inner.to)
        rewriter.replace(op, back, absorbs=[inner])


def _type_of_sums(kind: QuantizedType, count: int, reduction: str) -> QuantizedType:
    """sum - count * zero point, times the scale: divided by the count for a mean."""
    (scale,), (zero,) = kind.scale_array, kind.zero_point_array
    scale = scale / np.float32(count) if reduction == "mean" else scale
    return QuantizedType.get(I32, [float(scale)], [int(zero) * count])

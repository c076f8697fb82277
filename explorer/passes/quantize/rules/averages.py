"""Averages of dequantized tensors are sums of integers.

    %x = top.dequantize(%qx) {to = f32}                          %qx : ui8, scale 0.1, zero 3
    %y = top.reduce(%x) {kind = "mean", axes = [2, 3], ...}      over 64 elements
 => %i = top.cast(top.bitcast(%qx)) : i32
    %s = top.reduce(%i) {kind = "sum", axes = [2, 3], ...}
    %t = top.bitcast(%s)                                         i32, scale 0.1 / 64, zero 3 * 64
    %y = top.dequantize(%t) {to = f32}

The quantization that follows makes a requantization of the last one (`pairs.py`). Where a call
says how many elements there are (`keep-sizes`), the factor of that requantization is an element of
a table.
"""

from __future__ import annotations

from math import prod

import numpy as np
from xdsl.dialects.builtin import Float32Type, IntegerType
from xdsl.ir import BlockArgument, SSAValue

from explorer.ir.evaluation import entry_function, input_names
from explorer.ir.open_sizes import sizes_of_function
from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.requantization import integer_limits
from explorer.ir.rewriting import Declined, RecordedRewriter, Rule
from explorer.ir.sizes.symbols import parse
from explorer.ir.top.casting import BitcastOp
from explorer.ir.top.elementwise import BinaryOp, CastOp, UnaryOp
from explorer.ir.top.indexing import GatherOp
from explorer.ir.top.quantization.quantized import DequantizeOp, QuantizeOp
from explorer.ir.top.reductions.reduction import ReduceOp
from explorer.ir.types import QuantizedType, is_static, static_shape
from explorer.passes.analysis.matching import maker, weight_name

F32, I32 = Float32Type(), IntegerType(32)
CLAMPS = ("relu", "clip")
MAX_FACTORS = 2**20
"""Sizes of a call that have a factor each."""


class SumIntegers(Rule):
    """quantize(mean(dequantize(x)))   =>   quantize(dequantize(sum(x)))

    Applies to means and sums of numbers with one scale, where no sum can exceed 32 bits; a relu or
    a clip may come before the quantization. Pays because sums of integers are exact: a float that
    is rounded after each of many elements can end on the other side of the half between two
    integers.
    """

    matches = (ReduceOp,)

    def rewrite(self, op: ReduceOp, rewriter: RecordedRewriter) -> None:
        inner = maker(op.input, DequantizeOp)
        if inner is None or op.kind.data not in ("mean", "sum"):
            return
        if not _is_quantized(op.output):
            return
        kind, count = inner.parameters, _count(op, inner)
        typed = _add_sums(op, inner, _type_of_sums(kind, count, op.kind.data), rewriter)
        back = DequantizeOp.make([typed], to=inner.to)
        rewriter.replace(op, back, absorbs=[inner])


class AverageIntegersOfCall(Rule):
    """quantize(sum(dequantize(x)) / n)   =>   quantize(dequantize(sum(x)) * factors[n])

    Applies to means over the elements of a call, where `keep-sizes` puts the stored zero in place
    of all others. Each factor is that of the requantization for a program of this size, so that the
    results are the same. Pays because sums of integers are exact.
    """

    matches = (BinaryOp,)

    def rewrite(self, op: BinaryOp, rewriter: RecordedRewriter) -> None:
        sums, cast = maker(op.left, ReduceOp), maker(op.right, CastOp)
        inner = None if sums is None else maker(sums.input, DequantizeOp)
        if op.kind.data != "div" or sums is None or cast is None or inner is None:
            return
        users = [use.operation for use in op.output.uses]
        quantized = [u for u in users if isinstance(u, QuantizeOp) and u.to.is_per_tensor]
        largest = _largest(cast.input, rewriter)
        if sums.kind.data != "sum" or inner.to != F32 or not quantized or largest is None:
            return
        kind, count, name = inner.parameters, _count(sums, inner), identity_of(op)
        if largest != count:
            raise Declined(f"{name} divides sums of {count:,} numbers by at most {largest:,}")
        if count > MAX_FACTORS:
            raise Declined(f"{name} has {count:,} factors: at most {MAX_FACTORS:,} expected")
        zero = int(kind.zero_point_array[0]) * count
        typed = _add_sums(sums, inner, QuantizedType.get(I32, [1.0], [zero]), rewriter)
        whole = DequantizeOp.make([typed], to=F32)
        rewriter.insert_before(op, whole, stem=name, like=op)
        scales = kind.scale_array / np.arange(count + 1, dtype=np.float32).clip(1)

        def scaled(anchor: TopOperation, factors: np.ndarray) -> BinaryOp:
            table = rewriter.add_weight(anchor, weight_name(op, "factors"), factors, like=op)
            factor = GatherOp.make([table, cast.input], axis=0)
            rewriter.insert_before(anchor, factor, stem=name, like=op)
            return BinaryOp.make([whole.output, factor.output], kind="mul")

        for user in quantized:
            product = scaled(user, scales / user.to.scale_array[0])
            plain = QuantizedType.get(user.to.storage, [1.0], user.to.zero_point_array.tolist())
            stored = QuantizeOp.make([product.output], to=plain)
            for new in (product, stored):
                rewriter.insert_before(user, new, stem=name, like=op)
            is_last = user is quantized[-1] and len(quantized) == len(users)
            absorbs = [op, sums, inner] if is_last else []
            rewriter.replace(user, BitcastOp.make([stored.output], to=user.to), absorbs=absorbs)
        if len(quantized) < len(users):
            rewriter.replace(op, scaled(op, scales), absorbs=[sums, inner])


def _is_quantized(value: SSAValue) -> bool:
    """Whether a value is stored in integers, as it is or clamped."""
    users = [use.operation for use in value.uses]
    clamped = [u.output for u in users if isinstance(u, UnaryOp) and u.kind.data in CLAMPS]
    users += [use.operation for output in clamped for use in output.uses]
    return any(isinstance(user, QuantizeOp) for user in users)


def _count(op: ReduceOp, inner: DequantizeOp) -> int:
    """How many integers are added up; Declined where 32 bits may not hold their sum."""
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
    return count


def _add_sums(
    op: ReduceOp, inner: DequantizeOp, kind: QuantizedType, rewriter: RecordedRewriter
) -> SSAValue:
    """Sums of the stored numbers in place of `op`, as numbers of a type."""
    bits = BitcastOp.make([inner.input], to=inner.parameters.storage)
    wide = CastOp.make([bits.output], to=I32)
    sums = ReduceOp.make(
        [wide.output], kind="sum", axes=op.get("axes"), keepdims=op.get("keepdims")
    )
    typed = BitcastOp.make([sums.output], to=kind)
    for new in (bits, wide, sums, typed):
        rewriter.insert_before(op, new, stem=identity_of(op), like=op)
    return typed.output


def _type_of_sums(kind: QuantizedType, count: int, reduction: str) -> QuantizedType:
    """sum - count * zero point, times the scale: divided by the count for a mean."""
    (scale,), (zero,) = kind.scale_array, kind.zero_point_array
    scale = scale / np.float32(count) if reduction == "mean" else scale
    return QuantizedType.get(I32, [float(scale)], [int(zero) * count])


def _largest(size: SSAValue, rewriter: RecordedRewriter) -> int | None:
    """The largest number of a size of a call, of which the smallest is 1 or more; else None."""
    function = entry_function(rewriter.module)
    sizes = sizes_of_function(function)
    if (
        sizes is None
        or not isinstance(size, BlockArgument)
        or size.owner is not function.body.block
    ):
        return None
    name = input_names(function)[size.index]
    text = dict(sizes.numbers).get(name)
    if text is None or (parse(text).lowest() or 0) < 1:
        return None
    # An expression that has a lowest number grows with its names.
    return parse(text).value({dimension: highest for dimension, _, highest in sizes.ranges})

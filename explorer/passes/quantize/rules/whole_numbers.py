"""Whole numbers that floats hold for a moment only stay the integers that they were.

    %s = top.conv(%qx, %qw) {...}                            sums in i32, scale 1
    %y = top.dequantize(%s) {to = f32}
    %i = top.quantize(%y) {to = i32, scale 1}                %s itself: `requantize-pairs`
    %t = top.bitcast(%i)                                     i32, scale 514 / 65536
    %q = top.requantize(%t) {by = #top.requantization<!top.quantized<ui8, 1.0:0>, ...>}
 => %s = top.conv(%qx, %v) {...}                             %v : weights of scale 514 / 65536
    %q = top.requantize(%s) {by = ...}

Files for microcontrollers hold integers in floats, and say a factor and a shift between two layers:
both are the scale of what is requantized.
"""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import Float32Type, IntegerType
from xdsl.ir import SSAValue

from explorer.ir.operation import identity_of
from explorer.ir.requantization import BY_SHIFT, is_short, ratio_of
from explorer.ir.rewriting import Declined, RecordedRewriter, Rule
from explorer.ir.top.casting import BitcastOp
from explorer.ir.top.elementwise import BinaryOp
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.top.linear.matmul import MatMulOp
from explorer.ir.top.quantization.fixed_point import FixedPointOp
from explorer.ir.top.quantization.integer_products import sums_type
from explorer.ir.top.quantization.quantized import DequantizeOp, QuantizeOp, RequantizeOp
from explorer.ir.types import QuantizedType, element_type_of, shape_of, tensor_type
from explorer.passes.analysis.matching import maker, require_single_use
from explorer.passes.quantize.rules.without_floats import require_legal

F32 = Float32Type()
WHOLE = QuantizedType.get(IntegerType(32), [1.0], [0])


class RequantizeBytes(Rule):
    """requantize(bitcast(quantize(dequantize(x)) : i32))   =>   requantize(bitcast(x))

    Applies to narrow numbers of scale 1 that become whole numbers of 32 bits, and these numbers of
    another scale. Pays because they are requantized as they lie, and no float is stored. Exact.
    """

    matches = (RequantizeOp,)

    def rewrite(self, op: RequantizeOp, rewriter: RecordedRewriter) -> None:
        found = _seen_otherwise(op)
        inner = None if found is None else maker(found[1].input, DequantizeOp)
        if found is None or inner is None or not _is_whole(inner):
            return
        bits, whole = found
        scaled = _rescaled(inner.input, op, rewriter)
        new = RequantizeOp.make([scaled], by=op.by)
        rewriter.replace(op, new, absorbs=[bits, whole, inner])


class AddWholeNumbers(Rule):
    """requantize(bitcast(quantize(dequantize(a) + dequantize(b)) : i32))   =>   fixed_point(a, b)

    Applies to sums and differences of narrow numbers of scale 1 whose factor is a whole number of
    at most 15 bits over a power of two, by a multiplier and a shift that round once. Pays because
    no float is stored, and integer devices add so. Exact: what is lifted is shifted back without a
    rest.
    """

    matches = (RequantizeOp,)

    def rewrite(self, op: RequantizeOp, rewriter: RecordedRewriter) -> None:
        found = _seen_otherwise(op)
        added = None if found is None else maker(found[1].input, BinaryOp)
        if found is None or added is None or added.kind.data not in ("add", "sub"):
            return
        bits, whole = found
        sides = [maker(operand, DequantizeOp) for operand in added.operands]
        inner = [side for side in sides if side is not None and _is_whole(side)]
        if len(inner) < len(sides):
            raise Declined(f"an operand of {identity_of(added)} is not made of whole numbers")
        if op.by.how != BY_SHIFT or not op.parameters.is_per_tensor or not is_short(_ratios(op)):
            raise Declined(f"{identity_of(op)} scales by more than a short factor and a shift")
        kind = added.kind.data
        types = [
            tensor_type(_kind(side.input, op.parameters), shape_of(side.input)) for side in inner
        ]
        require_legal(FixedPointOp, op, types, {"kind": kind, "by": op.by})
        operands = [_rescaled(side.input, op, rewriter) for side in inner]
        new = FixedPointOp.make(operands, kind=kind, by=op.by)
        rewriter.replace(op, new, absorbs=[bits, whole, added, *dict.fromkeys(inner)])


class ScaleWeights(Rule):
    """bitcast(conv(x, w) : i32, scale 1) to scale s   =>   conv(x, bitcast(w) to scale s)

    Applies to sums of integers that nothing else reads, with a scale for the whole tensor or one
    per channel. Pays because the requantization behind can be fused into the product. Exact.
    """

    matches = (BitcastOp,)

    def rewrite(self, op: BitcastOp, rewriter: RecordedRewriter) -> None:
        linear = op.input.owner
        if not isinstance(linear, ConvOp | MatMulOp) or linear.requantizes is not None:
            return
        sums, to = linear.sums, op.to
        if sums is None or not isinstance(to, QuantizedType) or to.storage != sums.storage:
            return
        require_single_use(linear, "its sums are needed with their own scale, too")
        weight, result = linear.channel_axes()
        if to.axis_number not in (-1, result) or to.zero_point_array.any():
            raise Declined(f"scales of {identity_of(op)} run along another axis than channels")
        own = element_type_of(linear.operands[1])
        assert isinstance(own, QuantizedType)
        ratio = to.double_scales / sums.double_scales
        scales = np.atleast_1d(own.double_scales * ratio)
        zeros = np.broadcast_to(own.zero_point_array, scales.shape).tolist()
        axis = -1 if len(scales) == 1 else weight
        kind = QuantizedType.get(own.storage, scales.tolist(), zeros, axis)
        left = element_type_of(linear.operands[0])
        assert isinstance(left, QuantizedType)
        if sums_type(left, kind, weight, result) != to:
            raise Declined(f"weights of {identity_of(linear)} cannot have these scales exactly")
        typed = BitcastOp.make([linear.operands[1]], to=kind)
        rewriter.insert_before(linear, typed, stem=identity_of(linear), like=linear)
        role = "weight" if isinstance(linear, ConvOp) else "right"
        rewriter.replace(op, linear.altered(**{role: typed.output}), absorbs=[linear])


def _seen_otherwise(op: RequantizeOp) -> tuple[BitcastOp, QuantizeOp] | None:
    """The view and the whole numbers of 32 bits that it is a view of, if it requantizes such."""
    bits = maker(op.input, BitcastOp)
    whole = None if bits is None else maker(bits.input, QuantizeOp)
    if bits is None or whole is None or whole.to != WHOLE:
        return None
    return bits, whole


def _is_whole(op: DequantizeOp) -> bool:
    """Whether what it makes of narrow numbers are whole ones."""
    kind = op.parameters
    is_one = kind.is_per_tensor and float(kind.double_scales[0]) == 1.0
    return is_one and kind.storage.width.data <= 16 and op.to == F32


def _ratios(op: RequantizeOp) -> np.ndarray:
    return ratio_of(op.parameters, op.by)


def _kind(stored: SSAValue, scaled: QuantizedType) -> QuantizedType:
    """The type of stored numbers of scale 1 with other scales."""
    own = element_type_of(stored)
    assert isinstance(own, QuantizedType)
    scales = scaled.double_scales.tolist()
    zeros = [int(own.zero_point_array[0])] * len(scales)
    kind = QuantizedType.get(own.storage, scales, zeros, scaled.axis_number)
    if not np.array_equal(kind.double_scales, scaled.double_scales):
        raise Declined(f"{own.storage} cannot have the scales of {scaled} exactly")
    return kind


def _rescaled(stored: SSAValue, op: RequantizeOp, rewriter: RecordedRewriter) -> SSAValue:
    """Stored numbers seen with the scales that are requantized."""
    new = BitcastOp.make([stored], to=_kind(stored, op.parameters))
    rewriter.insert_before(op, new, stem=identity_of(op), like=op)
    return new.output

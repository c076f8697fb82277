"""What lies between a dequantization and a quantization becomes whole numbers altogether.

    %a = top.dequantize(%qa) {to = f32}        %b = top.dequantize(%qb) {to = f32}
    %s = top.binary(%a, %b) {kind = "add"}
    %q = top.quantize(%s) {to = !top.quantized<ui8, 0.1:128>}
 => %q = top.fixed_point(%qa, %qb) {kind = "add", by = #top.requantization<...>}

For targets without floats; others compute these in f32 inside a kernel (`fusion.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np
from xdsl.dialects.builtin import Float32Type, IntegerType, TensorType
from xdsl.ir import Attribute, Block, SSAValue

from explorer.ir.constants import constant
from explorer.ir.interfaces import Moving
from explorer.ir.operation import PropertyValue, TopOperation, identity_of
from explorer.ir.requantization import (
    AS_ONNXRUNTIME,
    Requantization,
    RequantizationAttr,
    integer_limits,
)
from explorer.ir.rewriting import Declined, RecordedRewriter, Rule
from explorer.ir.top.elementwise import BinaryOp, UnaryOp
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.top.pooling import PoolOp
from explorer.ir.top.quantization.fixed_point import KINDS, FixedPointOp
from explorer.ir.top.quantization.integer_average import IntegerAverageOp
from explorer.ir.top.quantization.integer_log_softmax import IntegerLogSoftmaxOp
from explorer.ir.top.quantization.integer_normalizations import (
    IntegerLayerNormOp,
    IntegerSoftmaxOp,
    layer_norm_factors,
)
from explorer.ir.top.quantization.integer_products import sums_type
from explorer.ir.top.quantization.quantized import DequantizeOp, QuantizeOp, RequantizeOp
from explorer.ir.top.reductions.normalization import LayerNormOp, SoftmaxOp
from explorer.ir.top.support.quantized_scalars import stored_array
from explorer.ir.types import (
    QuantizedType,
    element_type_of,
    is_static,
    static_shape,
    tensor_type,
)
from explorer.passes.analysis.matching import maker, weight_name
from explorer.passes.quantize.rules.functions import clamp_limits

F32 = Float32Type()
I8, I16, I32, I64 = (IntegerType(bits) for bits in (8, 16, 32, 64))
Property = PropertyValue | Attribute | None
SMALLEST_SCALE = 2.0**-60
"""Of constants that are all zero."""


class ComputeInFixedPoint(Rule):
    """quantize(dequantize(a) + dequantize(b))   =>   fixed_point(a, b) {kind = "add"}

    Applies to sums, differences, products, maxima, minima and PReLUs of numbers with one scale,
    where 32 bits hold what is added; a constant operand (slopes for each channel) gets 16 bits, a
    relu or clip behind becomes limits.
    Pays because the device may have no floats. Within one step of the rounded real result.
    """

    matches = (QuantizeOp,)

    def __init__(self, how: Requantization = AS_ONNXRUNTIME):
        self._how = how

    def rewrite(self, op: QuantizeOp, rewriter: RecordedRewriter) -> None:
        clamp = maker(op.input, UnaryOp)
        is_clamped = clamp is not None and clamp.clamps and clamp.result_type is None
        made = maker(clamp.input if is_clamped and clamp is not None else op.input, BinaryOp)
        if made is None or made.kind.data not in KINDS or made.result_type is not None:
            return
        if not any(isinstance(operand.owner, DequantizeOp) for operand in made.operands):
            return
        if not op.to.is_per_tensor:
            raise Declined(f"{identity_of(op)} has a scale for each slice")
        limits = integer_limits(op.to.storage)
        if is_clamped and clamp is not None:
            limits = clamp_limits(clamp, op.to)
        by = RequantizationAttr.get(op.to, self._how, limits)
        kind = made.kind.data
        types = [self._stored_type(o, made, rewriter) for o in made.operands]
        require_legal(FixedPointOp, made, types, {"kind": kind, "by": by})
        operands = [
            self._stored(o, own, made, rewriter)
            for o, own in zip(made.operands, types, strict=True)
        ]
        new = FixedPointOp.make(operands, kind=kind, by=by)
        read = [o.owner for o in made.operands if isinstance(o.owner, DequantizeOp)]
        behind: list[TopOperation] = [clamp] if is_clamped and clamp is not None else []
        rewriter.replace(op, new, absorbs=[*behind, made, *dict.fromkeys(read)])

    def _stored_type(self, value: SSAValue, op: BinaryOp, rewriter: RecordedRewriter) -> Attribute:
        """Type of the integers that an operand stands for, or that a constant becomes."""
        inner = maker(value, DequantizeOp)
        if inner is not None:
            return inner.input.type
        array = constant(value, rewriter.weights)
        if array is None or element_type_of(value) != F32:
            raise Declined(f"an operand of {identity_of(op)} is no quantized number")
        largest = float(np.abs(array.astype(np.float64)).max(initial=0.0))
        kind = QuantizedType.get(I16, [max(largest / 32767, SMALLEST_SCALE)], [0])
        return tensor_type(kind, array.shape)

    def _stored(
        self, value: SSAValue, type_: Attribute, op: BinaryOp, rewriter: RecordedRewriter
    ) -> SSAValue:
        inner = maker(value, DequantizeOp)
        if inner is not None:
            return inner.input
        array = constant(value, rewriter.weights)
        kind = type_.element_type if isinstance(type_, TensorType) else None
        assert array is not None and isinstance(kind, QuantizedType)
        name = weight_name(op, "words")
        return rewriter.add_weight(op, name, stored_array(array, kind), like=op, element_type=kind)


class SoftmaxOfIntegers(Rule):
    """quantize(softmax(dequantize(x)))   =>   integer_softmax(x)

    Applies to numbers with one scale, and to the logarithm likewise. Pays because the device may
    have no floats. Within one step of the rounded real result.
    """

    matches = (QuantizeOp,)

    def rewrite(self, op: QuantizeOp, rewriter: RecordedRewriter) -> None:
        softmax = maker(op.input, SoftmaxOp)
        inner = None if softmax is None else maker(softmax.input, DequantizeOp)
        if softmax is None or inner is None:
            return
        made = IntegerLogSoftmaxOp if softmax.get("logarithm") else IntegerSoftmaxOp
        try:
            new = made.make([inner.input], axis=softmax.get("axis"), to=op.to)
        except ValueError as error:
            raise Declined(f"{identity_of(softmax)}: {error}") from error
        rewriter.replace(op, new, absorbs=[softmax, inner])


class NormalizeIntegers(Rule):
    """quantize(layer_norm(dequantize(x), scale, shift))   =>   integer_layer_norm(x, ...)

    Applies to layer and RMS normalization of numbers with one scale, with constant scale and shift.
    Pays because the device may have no floats. Within two steps of the rounded real result.
    """

    matches = (QuantizeOp,)

    def rewrite(self, op: QuantizeOp, rewriter: RecordedRewriter) -> None:
        norm = maker(op.input, LayerNormOp)
        inner = None if norm is None else maker(norm.input, DequantizeOp)
        if norm is None or inner is None:
            return
        if not is_static(norm.input) or not op.to.is_per_tensor:
            raise Declined(f"the size of {identity_of(norm)} is not known, or its scale is not one")
        factors: list[np.ndarray] = []
        for operand, default in ((norm.scale, 1.0), (norm.shift, 0.0)):
            array = np.array([default])
            if operand is not None:
                array = constant(operand, rewriter.weights)
            if array is None:
                raise Declined(f"the scale or shift of {identity_of(norm)} is computed")
            factors.append(array)
        count = prod(static_shape(norm.input)[norm.get("axis") :])
        try:
            multipliers, offsets, bits = layer_norm_factors(factors[0], factors[1], count, op.to)
        except ValueError as error:
            raise Declined(f"{identity_of(norm)}: {error}") from error
        properties: dict[str, Property] = {
            "axis": norm.get("axis"),
            "epsilon": norm.get("epsilon"),
            "fraction_bits": bits,
            "centered": norm.get("centered"),
            "to": op.to,
        }
        types = [tensor_type(I32, multipliers.shape), tensor_type(I64, offsets.shape)]
        require_legal(IntegerLayerNormOp, norm, [inner.input.type, *types], properties)
        weights = [
            rewriter.add_weight(op, weight_name(norm, role), array, like=op)
            for role, array in (("multipliers", multipliers), ("offsets", offsets))
        ]
        new = IntegerLayerNormOp.make([inner.input, *weights], None, **properties)
        rewriter.replace(op, new, absorbs=[norm, inner])


class AverageIntegers(Rule):
    """quantize(average_pool(dequantize(x)))   =>   requantize(conv(x, ones))

    Applies to averages of numbers with one scale. Where windows divide by their size, the ones
    stand for 1 / size; where padding does not count, it is an integer_average, with a factor for
    each number of elements inside. Pays because the sums are whole numbers, and requantized once.
    """

    matches = (QuantizeOp,)

    def __init__(self, how: Requantization = AS_ONNXRUNTIME):
        self._how = how

    def rewrite(self, op: QuantizeOp, rewriter: RecordedRewriter) -> None:
        pool = maker(op.input, PoolOp)
        inner = None if pool is None else maker(pool.input, DequantizeOp)
        if pool is None or inner is None or pool.get("kind") != "average":
            return
        name, kind = identity_of(pool), inner.parameters
        if not is_static(pool.input) or not kind.is_per_tensor or kind.storage.width.data > 16:
            raise Declined(f"{name} is of unknown size, of several scales or of more than 16 bits")
        size = prod(pool.get("window"))
        most = size * max(abs(limit) for limit in integer_limits(kind.storage))
        if 2 * most > integer_limits(IntegerType(32))[1]:
            raise Declined(f"sums of {name} may reach {2 * most:,}: more than 32 bits hold")
        by = RequantizationAttr.get(op.to, self._how)
        if pool.counts_padding or not any(pool.get("pads")):
            new = self._of_sums(op, pool, inner, by, rewriter)
        else:
            new = self._of_elements_inside(pool, inner, by)
        rewriter.replace(op, new, absorbs=[pool, inner])

    def _of_sums(
        self,
        op: QuantizeOp,
        pool: PoolOp,
        inner: DequantizeOp,
        by: RequantizationAttr,
        rewriter: RecordedRewriter,
    ) -> RequantizeOp:
        name, channels = identity_of(pool), static_shape(pool.input)[1]
        ones = QuantizedType.get(I8, [1 / prod(pool.get("window"))], [0])
        sums_kind = sums_type(inner.parameters, ones, 0, 1)
        require_legal(RequantizeOp, pool, [tensor_type(sums_kind, (1, channels))], {"by": by})
        array = np.ones((channels, 1, *pool.get("window")), np.int8)
        weight = rewriter.add_weight(
            op, weight_name(pool, "ones"), array, like=op, element_type=ones
        )
        sums = ConvOp.make(
            [inner.input, weight],
            strides=pool.get("strides"),
            pads=pool.get("pads"),
            dilations=pool.get("dilations"),
            group=channels,
        )
        rewriter.insert_before(op, sums, stem=name, like=op)
        return RequantizeOp.make([sums.output], by=by)

    def _of_elements_inside(
        self, pool: PoolOp, inner: DequantizeOp, by: RequantizationAttr
    ) -> IntegerAverageOp:
        windows = ("window", "strides", "pads", "dilations")
        properties: dict[str, Property] = {name: pool.get(name) for name in windows}
        properties["by"] = by
        require_legal(IntegerAverageOp, pool, [inner.input.type], properties)
        new = IntegerAverageOp.make([inner.input], None, **properties)
        counts = new.counts(static_shape(pool.input)[2:])
        if by.how.scheme == "shift" and np.any(counts & (counts - 1)):
            new.erase()
            listed = ", ".join(str(count) for count in np.unique(counts))
            raise Declined(
                f"{identity_of(pool)} divides by {listed}, and a requantization that only shifts "
                "by powers of two"
            )
        return new


class StoreMovedConstants(Rule):
    """quantize(gather(constant, indices))   =>   gather(integers of the constant, indices)

    Applies to moves of constants only, such as a table of embeddings. Pays because the table takes
    a quarter of the memory, and nothing is left to be quantized. Exact.
    """

    matches = (QuantizeOp,)

    def rewrite(self, op: QuantizeOp, rewriter: RecordedRewriter) -> None:
        move = op.input.owner
        if not isinstance(move, Moving) or not op.to.is_per_tensor:
            return
        moved = dict.fromkeys(move.moved_operands())
        arrays = {value: constant(value, rewriter.weights) for value in moved}
        if not moved or any(array is None for array in arrays.values()):
            return
        try:
            changes = move.on_stored(op.to)
        except ValueError as error:
            raise Declined(f"{identity_of(move)}: {error}") from error
        if changes is None:
            return
        name = weight_name(move, "integers")
        stored = {
            value: rewriter.add_weight(
                op, name, stored_array(array, op.to), like=op, element_type=op.to
            )
            for value, array in arrays.items()
            if array is not None
        }
        new = move.with_operands([stored.get(o, o) for o in move.operands], **changes)
        rewriter.replace(op, new, absorbs=[move])


def require_legal(
    made: type[TopOperation],
    op: TopOperation,
    types: Sequence[Attribute],
    properties: Mapping[str, Property],
) -> None:
    """Declined where an operation on operands of these types would not be one: nothing is made."""
    block = Block(arg_types=types)
    try:
        made.make(list(block.args), None, **properties).erase()
    except ValueError as error:
        raise Declined(f"{identity_of(op)}: {error}") from error

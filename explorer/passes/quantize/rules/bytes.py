"""Products of bytes whose zero points are known at run time only: dynamic quantization.

    %a = top.cast(%qa) {to = i32}            %qa : ui8
    %x = top.binary(%a, %za) {kind = "sub"}  %za : i32, computed from the same numbers as %qa
    %s = top.matmul(%x, %w) : i32            %w : constant, or made of bytes as %x is
 => %b = top.matmul(%qa, %qw, left_zero = %za, right_sums = %t) : !top.quantized<i32, 1.0:0>
    %s = top.bitcast(%b) : i32               %t : sums of the columns of %w

    %f = top.cast(%s) {to = f32}
    %y = top.binary(%f, %scale) {kind = "mul"}
 => %y = top.matmul(%qa, %qw, left_zero = %za, right_sums = %t, scale = %scale) : f32

sum of (a - za) * (w - zw) = sum of a * w - zw * sum of a - za * sum of (w - zw), modulo 2^32, which
is what sums of i32 are anyway. Reference: Jacob et al., "Quantization and Training of Neural
Networks for Efficient Integer-Arithmetic-Only Inference", 2018, section 2.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
from xdsl.dialects.builtin import Float32Type, IntegerType, Signedness
from xdsl.ir import SSAValue

from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.rewriting import Declined, RecordedRewriter, Rule
from explorer.ir.top.casting import BitcastOp
from explorer.ir.top.elementwise import BinaryOp, CastOp, SelectOp
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.top.linear.matmul import MatMulOp
from explorer.ir.top.movement.pad import PadOp
from explorer.ir.top.movement.reshape import ReshapeOp
from explorer.ir.top.quantization.integer_products import unsigned_offset
from explorer.ir.top.reductions.reduction import ReduceOp
from explorer.ir.types import (
    QuantizedType,
    element_type_of,
    is_static,
    shape_of,
    static_shape,
)
from explorer.passes.analysis.matching import (
    both_orders,
    channel_axis,
    constant,
    is_kind,
    maker,
    per_channel,
    require_single_use,
    weight_name,
)
from explorer.passes.quantize.rules.zero_points import I8, I32

F32 = Float32Type()
UI8 = IntegerType(8, Signedness.UNSIGNED)
SIGN = 128
"""What makes a signed byte of an unsigned one, modulo 256."""


@dataclass(frozen=True)
class _Bytes:
    """stored - zero, as i32; `zero` is None for 0."""

    stored: SSAValue
    zero: SSAValue | None
    steps: tuple[TopOperation, ...]
    """What makes the difference, the last first."""


class MultiplyBytes(Rule):
    """matmul(i32(a) - za, i32(w) - zw)   =>   matmul(a, w, left_zero = za, right_sums = ...) : i32

    Applies to convolutions and matmuls of bytes from which single zero points are subtracted (of
    the second operand also one per column), and to constants that differ from some number by a
    signed byte. Pays because bytes take a quarter of the memory, and because instructions multiply
    four of them at once. Exact.
    """

    matches = (ConvOp, MatMulOp)

    def rewrite(self, op: ConvOp | MatMulOp, rewriter: RecordedRewriter) -> None:
        first, second, *_ = op.operands
        if element_type_of(first) != I32 or op.sums is not None:
            return
        left, name = _bytes(first), identity_of(op)
        if left is None:
            return
        if op.bias is not None or op.residual is not None or op.get("activation"):
            raise Declined(f"something is fused into {name} already")
        if left.zero is not None and prod_of(left.zero) != 1:
            raise Declined(f"each row of what {name} multiplies has a zero point of its own")
        if not is_static(first) or not is_static(second):
            raise Declined(f"the sizes of {name} are not known yet")
        right = _constant_filters(op, second, rewriter) or _computed_filters(op, second, rewriter)
        stored, kind, is_padded = left.stored, _unscaled(left.stored), _is_padded(op)
        offset = unsigned_offset(kind)
        changes: dict[str, SSAValue | int | list[int]] = {}
        if left.zero is not None or offset:
            zero = _zero_of(left, op, rewriter)
            if is_padded:
                stored = _padded(op, stored, zero, rewriter)
                changes["pads"] = [0] * len(op.get("pads"))
            changes |= {"left_zero": zero, "subtracted": offset, "right_sums": right.sums()}
        if right.zero is not None:
            changes["right_zero"] = right.zero
        typed = _typed(op, stored, kind, rewriter)
        operands = ("input", "weight") if isinstance(op, ConvOp) else ("left", "right")
        product = op.altered(**dict(zip(operands, (typed, right.stored), strict=True)), **changes)
        rewriter.insert_before(op, product, stem=name, like=op)
        rewriter.replace(op, BitcastOp.make([product.output], to=I32), absorbs=left.steps)


class ScaleSums(Rule):
    """f32(bitcast(matmul(a, w) of bytes)) * s   =>   matmul(a, w, scale = s)

    Applies to sums of bytes that nothing else reads, and factors of one number, or one per channel,
    of which a constant part may be multiplied by a number that is known at run time only. Pays
    because sums become real numbers in registers, and bias, residual and activation follow there.
    """

    matches = (BinaryOp,)

    def rewrite(self, op: BinaryOp, rewriter: RecordedRewriter) -> None:
        if op.kind.data != "mul" or element_type_of(op.output) != F32:
            return
        for value, factor in both_orders(op):
            cast = maker(value, CastOp)
            bits = None if cast is None else maker(cast.input, BitcastOp)
            product = None if bits is None else bits.input.owner
            if not isinstance(product, ConvOp | MatMulOp) or product.sums is None:
                continue
            assert cast is not None and bits is not None
            if product.requantizes is not None or product.run_time.is_scaled:
                continue
            name = identity_of(product)
            for step in (product, bits, cast):
                require_single_use(step, f"the sums of {name} are needed elsewhere, too")
            if shape_of(op.output) != shape_of(value) or not is_static(value):
                raise Declined(f"{name} grows when it is scaled")
            if product.bias is not None:
                raise Declined(f"{name} begins as a bias of integers")
            parts = _factor_parts(factor, product, op, rewriter)
            rewriter.replace(op, product.altered(**parts), absorbs=[cast, bits, product])
            return


# -- operands --------------------------------------------------------------------------------------


def _bytes(value: SSAValue) -> _Bytes | None:
    """What `value` is if it is stored bytes minus a zero point; None for all else."""
    difference, zero = value.owner, None
    steps: tuple[TopOperation, ...] = ()
    if isinstance(difference, BinaryOp) and is_kind(difference, "sub"):
        value, zero = difference.left, difference.right
        steps = (difference,)
        if shape_of(difference.output) != shape_of(value):
            return None
    cast = maker(value, CastOp)
    if cast is None or element_type_of(cast.input) not in (UI8, I8):
        return None
    return _Bytes(cast.input, zero, (*steps, cast))


@dataclass(frozen=True)
class _Filters:
    """The second operand as signed bytes, and what its zero points are at run time."""

    op: ConvOp | MatMulOp
    stored: SSAValue
    zero: SSAValue | None
    wide: SSAValue | np.ndarray
    """stored - zero, as i32."""
    rewriter: RecordedRewriter

    def sums(self) -> SSAValue:
        """(channels,) in i32; a row for each matrix of a batch."""
        if isinstance(self.wide, np.ndarray):
            axes = _summed_axes(self.op, self.wide.ndim)
            keep = isinstance(self.op, MatMulOp) and self.wide.ndim > 2
            sums = self.wide.sum(axis=axes, keepdims=keep)
            name = weight_name(self.op, "column_sums")
            return self.rewriter.add_weight(self.op, name, sums.astype(np.int32), like=self.op)
        rank = len(shape_of(self.wide))
        keepdims = isinstance(self.op, MatMulOp) and rank > 2
        axes = _summed_axes(self.op, rank)
        reduced = ReduceOp.make([self.wide], kind="sum", axes=list(axes), keepdims=keepdims)
        return _inserted(self.op, self.rewriter, reduced)


def _constant_filters(
    op: ConvOp | MatMulOp, value: SSAValue, rewriter: RecordedRewriter
) -> _Filters | None:
    """Constants as signed bytes with a zero point per channel; None for what is computed."""
    array = constant(value, rewriter.weights)
    if array is None:
        return None
    wide = array.astype(np.int64)
    axis = op.channel_axes()[0]
    others = tuple(a for a in range(wide.ndim) if a != axis)
    low, high = (f(axis=others, initial=0) for f in (wide.min, wide.max))
    if low.min(initial=0) >= -SIGN and high.max(initial=0) < SIGN:
        zeros = np.zeros(1, np.int64)
    elif high.max() - low.min() < 2 * SIGN:
        zeros = np.array([-SIGN - low.min()])
    else:
        zeros = -SIGN - low
    if np.max(high - low, initial=0) >= 2 * SIGN:
        raise Declined(f"the constant that {identity_of(op)} multiplies takes more than bytes")
    if zeros.any() and isinstance(op, ConvOp) and op.get("group") != 1:
        raise Declined(f"the filters of {identity_of(op)}, in groups, take more than signed bytes")
    stored = wide + (zeros if zeros.size == 1 else np.expand_dims(zeros, others))
    scales = [1.0] * zeros.size
    kind = QuantizedType.get(I8, scales, zeros.tolist(), axis if zeros.size > 1 else -1)
    name = weight_name(op, "bytes")
    weight = rewriter.add_weight(op, name, stored.astype(np.int8), element_type=kind)
    return _Filters(op, weight, None, wide, rewriter)


def _computed_filters(
    op: ConvOp | MatMulOp, value: SSAValue, rewriter: RecordedRewriter
) -> _Filters:
    """Bytes that are known at run time only; what has no sign gets one, and 128 less."""
    found, name = _bytes(value), identity_of(op)
    if found is None:
        raise Declined(f"the second operand of {name} is neither constant nor made of bytes")
    channels = shape_of(value)[op.channel_axes()[0]]
    zero = found.zero
    if zero is not None and prod_of(zero) != 1 and shape_of(zero) != (channels,):
        raise Declined(f"zero points of the second operand of {name} run along no channels")
    if isinstance(op, ConvOp) and (zero is not None or element_type_of(found.stored) == UI8):
        raise Declined(f"the filters of {name} are computed, and no signed bytes without a zero")
    stored, moved = found.stored, zero
    if element_type_of(stored) == UI8:
        sign = rewriter.add_weight(op, weight_name(op, "sign"), np.asarray(SIGN, np.uint8))
        flipped = _inserted(op, rewriter, BinaryOp.make([stored, sign], kind="bit_xor"))
        stored = _inserted(op, rewriter, BitcastOp.make([flipped], to=I8))
        less = rewriter.add_weight(op, weight_name(op, "less"), np.asarray(SIGN, np.int32))
        if zero is None:
            moved = rewriter.add_weight(op, weight_name(op, "zero"), np.asarray(-SIGN, np.int32))
        else:
            moved = _inserted(op, rewriter, BinaryOp.make([zero, less], kind="sub"))
    if moved is not None and prod_of(moved) == 1:
        moved = _reshaped(op, moved, (), rewriter)
    kind = QuantizedType.get(I8, [1.0], [0])
    typed = _inserted(op, rewriter, BitcastOp.make([stored], to=kind))
    return _Filters(op, typed, moved, value, rewriter)


def _summed_axes(op: ConvOp | MatMulOp, rank: int) -> tuple[int, ...]:
    return tuple(range(1, rank)) if isinstance(op, ConvOp) else (rank - 2,)


def _unscaled(value: SSAValue) -> QuantizedType:
    storage = element_type_of(value)
    assert isinstance(storage, IntegerType)
    return QuantizedType.get(storage, [1.0], [0])


def _typed(
    op: TopOperation, stored: SSAValue, kind: QuantizedType, rewriter: RecordedRewriter
) -> SSAValue:
    """The same bytes as quantized numbers; the value that another product has made of them."""
    for use in stored.uses:
        made = use.operation
        is_same = isinstance(made, BitcastOp) and element_type_of(made.results[0]) == kind
        if is_same and made.is_before_in_block(op):
            return made.results[0]
    return _inserted(op, rewriter, BitcastOp.make([stored], to=kind))


def _zero_of(left: _Bytes, op: TopOperation, rewriter: RecordedRewriter) -> SSAValue:
    """The zero point of the first operand, a single number."""
    if left.zero is None:
        name = weight_name(op, "left_zero")
        return rewriter.add_weight(op, name, np.zeros((), np.int32), like=op)
    cast = maker(left.zero, CastOp)
    is_byte = cast is not None and element_type_of(cast.input) in (UI8, I8)
    return _reshaped(op, cast.input if cast is not None and is_byte else left.zero, (), rewriter)


def _is_padded(op: ConvOp | MatMulOp) -> bool:
    return isinstance(op, ConvOp) and any(op.get("pads"))


def _padded(
    op: ConvOp | MatMulOp, stored: SSAValue, zero: SSAValue, rewriter: RecordedRewriter
) -> SSAValue:
    """The bytes with the zero point around them: what padding stands for is the number 0."""
    pads, shape = op.get("pads"), static_shape(stored)
    rank = len(shape) - 2
    low, high = [0, 0, *pads[:rank]], [0, 0, *pads[rank:]]
    wide = PadOp.make([stored, None], low=low, high=high, interior=[0] * len(shape), value=0.0)
    inside = np.pad(np.ones((1, 1, *shape[2:]), bool), list(zip(low, high, strict=True)))
    mask = rewriter.add_weight(op, weight_name(op, "inside"), inside, like=op)
    byte = CastOp.make([zero], to=element_type_of(stored))
    around = _inserted(op, rewriter, byte)
    padded = _inserted(op, rewriter, wide)
    return _inserted(op, rewriter, SelectOp.make([mask, padded, around]))


def _factor_parts(
    factor: SSAValue, product: ConvOp | MatMulOp, op: TopOperation, rewriter: RecordedRewriter
) -> dict[str, SSAValue]:
    """`scale` and `channel_scales` of a product that a factor belongs to."""
    both = maker(factor, BinaryOp)
    if both is not None and is_kind(both, "mul"):
        for known, other in both_orders(both):
            array = constant(known, rewriter.weights)
            if array is not None and prod_of(other) == 1:
                scales = _channel_scales(array, product, op, rewriter)
                return {"scale": _reshaped(op, other, (), rewriter), "channel_scales": scales}
    array = constant(factor, rewriter.weights)
    if array is not None:
        return {"channel_scales": _channel_scales(array, product, op, rewriter)}
    if prod_of(factor) == 1:
        return {"scale": _reshaped(op, factor, (), rewriter)}
    shape, axis = static_shape(product.output), channel_axis(product)
    channels, behind = shape[axis], len(shape) - axis
    own = shape_of(factor)
    is_last = len(own) >= behind and own[len(own) - behind] == channels
    if isinstance(product, ConvOp) or prod_of(factor) != channels or not is_last:
        raise Declined(f"the factors of {identity_of(product)} are not those of its channels")
    return {"scale": _reshaped(op, factor, (channels,), rewriter)}


def _channel_scales(
    array: np.ndarray, product: ConvOp | MatMulOp, op: TopOperation, rewriter: RecordedRewriter
) -> SSAValue:
    shape, axis = static_shape(product.output), channel_axis(product)
    scales = per_channel(array, len(shape), axis, shape[axis])
    if scales is None:
        raise Declined(f"the factors of {identity_of(product)} are not those of its channels")
    name = weight_name(product, "scales")
    return rewriter.add_weight(op, name, scales.astype(np.float32), like=op)


def _reshaped(
    op: TopOperation, value: SSAValue, shape: tuple[int, ...], rewriter: RecordedRewriter
) -> SSAValue:
    if shape_of(value) == shape:
        return value
    array = constant(value, rewriter.weights)
    if array is not None:
        name = weight_name(op, "reshaped")
        return rewriter.add_weight(op, name, array.reshape(shape), like=op)
    return _inserted(op, rewriter, ReshapeOp.make([value, None], shape=list(shape)))


def _inserted(anchor: TopOperation, rewriter: RecordedRewriter, new: TopOperation) -> SSAValue:
    return rewriter.insert_before(anchor, new, stem=identity_of(anchor), like=anchor).results[0]


def prod_of(value: SSAValue) -> int:
    """How many elements a value has; 0 where that is not known."""
    return prod(static_shape(value)) if is_static(value) else 0

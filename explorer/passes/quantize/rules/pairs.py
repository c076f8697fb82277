"""What a dequantization and a quantization become that meet: nothing, or a requantization.

    %x = top.dequantize(%s) {to = f32}                     %s : i32, scale 0.002
    %r = top.unary(%x) {kind = "relu"}
    %q = top.quantize(%r) {to = !top.quantized<ui8, 0.1:0>}
 => %q = top.requantize(%s) {by = #top.requantization<!top.quantized<ui8, 0.1:0>, float, ...>}

Both round to the nearest integer, but in another order of multiplication: they may differ by one
step where the exact result lies half-way between two integers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from explorer.ir.operation import identity_of
from explorer.ir.requantization import (
    AS_ONNXRUNTIME,
    BY_SHIFT,
    Requantization,
    RequantizationAttr,
    integer_limits,
    is_short,
    ratio_of,
)
from explorer.ir.rewriting import Declined, RecordedRewriter, Rule
from explorer.ir.top.casting import BitcastOp
from explorer.ir.top.elementwise import BinaryOp, UnaryOp
from explorer.ir.top.quantization.quantized import DequantizeOp, QuantizeOp, RequantizeOp
from explorer.ir.top.support.quantized_scalars import stored_array
from explorer.ir.types import element_type_of
from explorer.passes.analysis.matching import maker
from explorer.passes.quantize.rules.half_steps import add_half_step, rounds_down


class RequantizePairs(Rule):
    """quantize(dequantize(x))   =>   x, or requantize(x)

    Applies where x has one zero point and the result one scale: x itself if both types are equal.
    Pays because no float is stored in between.
    """

    matches = (QuantizeOp,)

    def rewrite(self, op: QuantizeOp, rewriter: RecordedRewriter) -> None:
        inner = maker(op.input, DequantizeOp)
        if inner is None:
            return
        if inner.parameters == op.to:
            rewriter.replace(op, inner.input, absorbs=[inner])
            return
        _requantize(op, [inner], None, rewriter)


class ClampIntegers(Rule):
    """quantize(relu(dequantize(x)))   =>   requantize(x) {limits = [stored 0, highest]}

    Applies to relu and clip: quantization keeps the order of numbers, so that bounds can be
    quantized instead of what they bound. Pays because no float is stored in between.
    """

    matches = (QuantizeOp,)

    def rewrite(self, op: QuantizeOp, rewriter: RecordedRewriter) -> None:
        activation = maker(op.input, UnaryOp)
        if activation is None or activation.kind.data not in ("relu", "clip"):
            return
        inner = maker(activation.input, DequantizeOp)
        if inner is None or activation.result_type is not None or not op.to.is_per_tensor:
            return
        bounds = (0.0, np.inf) if activation.kind.data == "relu" else activation.parameters
        low, high = stored_array(np.array(bounds, np.float32), op.to).tolist()
        _requantize(op, [activation, inner], (int(low), int(high)), rewriter)


class SaturateInstead(Rule):
    """quantize(relu(a + b))   =>   quantize(a + b)

    Applies to relu and clip of what elementwise operations compute, where the bounds are the ends
    of what the quantized type holds. Pays because what is quantized saturates there anyway. Exact.
    """

    matches = (QuantizeOp,)

    def rewrite(self, op: QuantizeOp, rewriter: RecordedRewriter) -> None:
        clamp = maker(op.input, UnaryOp)
        if clamp is None or clamp.kind.data not in ("relu", "clip") or not op.to.is_per_tensor:
            return
        # Sums and moves of integers come here as dequantized ones: `clamp-integers` has them.
        if not isinstance(clamp.input.owner, UnaryOp | BinaryOp) or clamp.result_type is not None:
            return
        bounds = (0.0, np.inf) if clamp.kind.data == "relu" else clamp.parameters
        ends = stored_array(np.array(bounds, np.float32), op.to)
        lowest, highest = integer_limits(op.to.storage)
        if (int(ends[0]), int(ends[1])) != (lowest, highest):
            name = identity_of(clamp)
            raise Declined(f"{name} clamps within what {identity_of(op)} holds: it is needed")
        rewriter.replace(op, op.altered(input=clamp.input), absorbs=[clamp])


class MergeRequantizations(Rule):
    """requantize(requantize(x) : t) : t {limits}   =>   requantize(x) : t {limits of both}

    Applies where both make the same type and nothing else reads the first. Pays because the second
    only clamps what the first could have clamped. Exact.
    """

    matches = (RequantizeOp,)

    def rewrite(self, op: RequantizeOp, rewriter: RecordedRewriter) -> None:
        inner = maker(op.input, RequantizeOp)
        if inner is None or inner.by.to != op.by.to or not inner.output.has_one_use():
            return
        by = inner.by.with_(limits=op.by.limits)
        rewriter.replace(op, RequantizeOp.make([inner.input], by=by), absorbs=[inner])


class MergeBits(Rule):
    """bitcast(bitcast(x) : ui8) : t   =>   x, or bitcast(x) : t

    Applies always: x itself where it has the type t. Pays because stored integers are seldom what
    an operation wanted to see; quantized numbers that were kept as such can be followed. Exact.
    """

    matches = (BitcastOp,)

    def rewrite(self, op: BitcastOp, rewriter: RecordedRewriter) -> None:
        inner = maker(op.input, BitcastOp)
        if inner is None:
            return
        same = element_type_of(inner.input) == element_type_of(op.output)
        new = inner.input if same else BitcastOp.make([inner.input], to=op.to)
        rewriter.replace(op, new, absorbs=[inner])


class ChooseScheme(Rule):
    """requantize(x) {float, nearest_even}   =>   requantize(x) {the target's scheme}

    Applies where the target has another scheme and its multiplier can hold the ratio of scales. A
    scheme of integers, which the model's file states, is only changed for another one of integers;
    and not where it says factors of at most 15 bits and shifts, rounded once: these are exact.
    Where the scheme is a shift that rounds down, half a step is added to the bias of the product
    whose sums they are: what is shifted is rounded to the nearest number then.
    Pays because the device may have no floats, or be faster with shifts.
    """

    matches = (RequantizeOp,)

    def __init__(self, how: Requantization = AS_ONNXRUNTIME):
        self._how = how

    def rewrite(self, op: RequantizeOp, rewriter: RecordedRewriter) -> None:
        by = op.by.with_(self._how)
        if by == op.by or (by.how.scheme == "float" and op.by.how.scheme != "float"):
            return
        if op.by.how == BY_SHIFT and is_short(ratio_of(op.parameters, op.by)):
            raise Declined(f"{identity_of(op)} states whole factors and shifts, which are exact")
        try:
            if rounds_down(by.how) and not rounds_down(op.by.how):
                add_half_step(op, by, rewriter)
            new = RequantizeOp.make([op.input], by=by)
        except ValueError as error:
            raise Declined(f"{identity_of(op)}: {error}") from error
        rewriter.replace(op, new)


def _requantize(
    op: QuantizeOp,
    behind: Sequence[UnaryOp | DequantizeOp],
    limits: tuple[int, int] | None,
    rewriter: RecordedRewriter,
) -> None:
    """`behind`: what the quantization reads, from it back to the dequantization."""
    by = RequantizationAttr.get(op.to, AS_ONNXRUNTIME, limits)
    try:
        new = RequantizeOp.make([behind[-1].input], by=by)
    except ValueError as error:
        raise Declined(f"{identity_of(op)}: {error}") from error
    rewriter.replace(op, new, absorbs=behind)

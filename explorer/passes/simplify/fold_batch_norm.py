"""Batch normalization into the weights of what feeds it.

    %1 = top.conv(%x, %w) {...} : tensor<1x8x6x6xf32>
    %2 = top.batch_norm(%1, %scale, %shift, %mean, %variance) {epsilon = 1e-05} : ...
 => %2 = top.conv(%x, %w2, bias = %b2) {...} : tensor<1x8x6x6xf32>

With fixed statistics it is a factor and an offset per channel, f = scale / sqrt(variance + e):

    f * (w * x + b - mean) + shift   =   (f * w) * x + (f * (b - mean) + shift)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.rewriting import Declined, RecordedRewriter, Rule
from explorer.ir.top.data import WeightOp
from explorer.ir.top.elementwise import BinaryOp
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.top.linear.matmul import MatMulOp
from explorer.ir.top.reductions.normalization import BatchNormOp
from explorer.ir.types import element_type_of, is_static, shape_of, static_shape
from explorer.passes.analysis.matching import (
    both_orders,
    channel_axis,
    constant,
    dtype_of,
    is_constant,
    per_channel,
    uses,
    weight_name,
)
from explorer.passes.fixpoint import FixpointPass
from explorer.passes.simplify.arithmetic.division import rounded_below
from explorer.passes.simplify.linear.operands import replace_with_parameters
from explorer.passes.simplify.linear.scale_ahead import AHEAD_RULES
from explorer.passes.simplify.linear.scale_behind import ScaleBeforeOffset


class FoldIntoWeights(Rule):
    """batch_norm(conv(x, w, b))   =>   conv(x, f * w, f * (b - mean) + shift)

    Applies when the convolution (or product of two matrices) has constant weights, nothing else
    reads it and nothing is fused behind its bias. Pays because the normalization costs nothing
    any more. f = scale / sqrt(variance + epsilon).
    """

    matches = (BatchNormOp,)

    def rewrite(self, op: BatchNormOp, rewriter: RecordedRewriter) -> None:
        linear = op.input.owner
        reason = why_not_foldable(op)
        if reason:
            raise Declined(reason)
        assert isinstance(linear, ConvOp | MatMulOp)
        factor, offset = factor_and_offset(op, rewriter)
        new = scaled(linear, factor, offset, op, rewriter)
        replace_with_parameters(op, new, [linear], rewriter)


class FoldScale(Rule):
    """conv(x, w, b) * f   =>   conv(x, f * w, f * b)      (a division likewise)

    Applies when f is a constant with one number per channel, under the conditions of
    `fold-into-weights`, unless the weights are whole numbers or the result is rounded to some (a
    quantized model). Pays because a pass over the result is saved.
    """

    matches = (BinaryOp,)

    def rewrite(self, op: BinaryOp, rewriter: RecordedRewriter) -> None:
        if op.kind.data not in ("mul", "div"):
            return
        pairs = both_orders(op) if op.kind.data == "mul" else [(op.left, op.right)]
        for value, other in pairs:
            linear, array = value.owner, constant(other, rewriter.weights)
            if not isinstance(linear, ConvOp | MatMulOp) or array is None:
                continue
            reason = why_not_scalable(linear)
            if reason:
                raise Declined(reason)
            if not is_static(op.output):
                raise Declined(f"the shape of {identity_of(op)} is not known yet")
            shape, axis = static_shape(linear.output), channel_axis(linear)
            _require_inexact_weights(linear, rewriter)
            rounding = rounded_below(op.output, furthest=1)
            if rounding is not None:
                raise Declined(
                    f"{identity_of(rounding)} makes whole numbers of it: a tie could fall to the "
                    "other side"
                )
            factor = per_channel(array.astype(np.float64), len(shape), axis, shape[axis])
            if factor is None or op.output.type != linear.output.type:
                raise Declined(f"{identity_of(op)}'s factor is not one number per channel")
            if op.kind.data == "div":
                if not factor.all():
                    raise Declined(f"{identity_of(op)} divides by zero")
                factor = 1 / factor
            new = scaled(linear, factor, None, op, rewriter)
            replace_with_parameters(op, new, [linear], rewriter)
            return


class SplitBatchNorm(Rule):
    """batch_norm(x)   =>   x * f + (shift - f * mean)

    Applies with constant statistics where no convolution can take them in, unless x has fewer than
    32 bits: the product would be rounded before the mean is subtracted. Pays because two operations
    with constants take part in other rewrites. f = scale / sqrt(variance + epsilon).
    """

    matches = (BatchNormOp,)

    def rewrite(self, op: BatchNormOp, rewriter: RecordedRewriter) -> None:
        # What `fold-into-weights` could take but was told not to stays what it is.
        if why_not_foldable(op):
            split_batch_norm(op, rewriter)


def split_batch_norm(op: BatchNormOp, rewriter: RecordedRewriter) -> None:
    """Replaces it by a multiplication and an addition.

    Declined where statistics are computed, or the product would be rounded before the sum.
    """
    if dtype_of(op.input).itemsize < 4:
        raise Declined(f"the product would be rounded to {element_type_of(op.input)}")
    factor, offset = factor_and_offset(op, rewriter)
    column = (-1,) + (1,) * (len(shape_of(op.input)) - 2)
    dtype = dtype_of(op.input)

    def weight(role: str, numbers: np.ndarray):
        array = numbers.astype(dtype).reshape(column)
        return rewriter.add_weight(op, weight_name(op, role), array)

    scale, shift = weight("factor", factor), weight("offset", offset)
    product = BinaryOp.make([op.input, scale], kind="mul")
    rewriter.insert_before(op, product)
    new = BinaryOp.make([product.output, shift], kind="add")
    replace_with_parameters(op, new, [], rewriter)


def factor_and_offset(op: BatchNormOp, rewriter: RecordedRewriter) -> tuple[np.ndarray, np.ndarray]:
    """One factor and one offset per channel, in double precision."""
    parameters = [constant(o, rewriter.weights) for o in op.operands[1:]]
    arrays = [p.astype(np.float64) for p in parameters if p is not None]
    if len(arrays) != len(parameters):
        raise Declined(f"the statistics of {identity_of(op)} are computed, not constant")
    scale, shift, mean, variance = arrays
    factor = scale / np.sqrt(variance + op.get("epsilon"))
    return factor, shift - factor * mean


def _require_inexact_weights(linear: ConvOp | MatMulOp, rewriter: RecordedRewriter) -> None:
    """Declined where weights are whole numbers: quantized values, whose sums are exact."""
    weight = constant(
        linear.weight if isinstance(linear, ConvOp) else linear.right, rewriter.weights
    )
    if weight is not None and np.array_equal(weight, np.rint(weight)):
        raise Declined(f"the weights of {identity_of(linear)} are whole numbers: sums stay exact")


def why_not_foldable(op: BatchNormOp) -> str:
    """Empty if what feeds a batch normalization can take it in, else the reason against it."""
    linear = op.input.owner
    reason = why_not_scalable(linear)
    if not reason and isinstance(linear, MatMulOp) and len(shape_of(op.output)) != 2:
        return f"{identity_of(linear)}'s columns are not what {identity_of(op)} normalizes"
    return reason


def why_not_scalable(linear: object) -> str:
    """Empty if a factor per channel can go into the weights, else the reason against it."""
    if not isinstance(linear, ConvOp | MatMulOp):
        name = identity_of(linear) if isinstance(linear, TopOperation) else "an input"
        return f"{name} is no convolution or matmul"
    name = identity_of(linear)
    weight = linear.weight if isinstance(linear, ConvOp) else linear.right
    if linear.sums is not None:
        return f"{name} multiplies integers: its sums stay exact"
    if not is_constant(weight):
        return f"the weights of {name} are computed"
    if linear.bias is not None and not is_constant(linear.bias):
        return f"the bias of {name} is computed"
    if linear.residual is not None or linear.get("activation"):
        return f"something is fused into {name} already"
    if uses(linear) > 1:
        return f"{name} is used {uses(linear)} times"
    return ""


def scaled(
    linear: ConvOp | MatMulOp,
    factor: np.ndarray,
    offset: np.ndarray | None,
    anchor: TopOperation,
    rewriter: RecordedRewriter,
) -> TopOperation:
    """The operation with weights times factor and bias times factor plus offset.

    New weights stand before `anchor`; numbers are rounded once, from double precision.
    """
    is_conv = isinstance(linear, ConvOp)
    old = linear.weight if is_conv else linear.right
    owner = old.owner
    assert isinstance(owner, WeightOp)
    weights, name = rewriter.weights, owner.weight.data
    form = weights.form(name)
    shaped = factor.reshape(-1, *[1] * (len(form.shape) - 1)) if is_conv else factor
    changes = {
        "weight" if is_conv else "right": rewriter.add_weight_later(
            anchor,
            weight_name(linear, "weight"),
            form,
            lambda: multiplied(weights[name], shaped),
            recipe=("multiplied", name, shaped.shape, shaped.tobytes()),
            like=linear,
        )
    }
    bias = None if linear.bias is None else constant(linear.bias, rewriter.weights)
    if bias is not None or offset is not None:
        total = (0.0 if bias is None else bias.astype(np.float64) * factor) + (
            0.0 if offset is None else offset
        )
        changes["bias"] = rewriter.add_weight(
            anchor, weight_name(linear, "bias"), np.asarray(total).astype(form.dtype), like=linear
        )
    return linear.altered(**changes)


def multiplied(array: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """The product, rounded once from double precision."""
    # Piece by piece: no copy of all weights in double precision.
    product = np.empty_like(array, order="C")
    np.multiply(array, factor, out=product, dtype=np.float64, casting="same_kind")
    return product


@dataclass(frozen=True)
class FoldBatchNorm(FixpointPass):
    """Batch normalizations and factors per channel go into the weights around them."""

    name = "fold-batch-norm"
    rules = (
        FoldIntoWeights,
        FoldScale,
        SplitBatchNorm,
        ScaleBeforeOffset,
        *AHEAD_RULES,
    )

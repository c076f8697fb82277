"""Reductions: over nothing, one after the other, over reshaped axes.

   %1 = top.reshape(%x) {shape = [1, 16, 64]} : tensor<1x16x64xf32>    %x : tensor<1x16x8x8xf32>
   %2 = top.reduce(%1) {kind = "mean", axes = [2], keepdims = false} : tensor<1x16xf32>
=> %1 = top.reduce(%x) {kind = "mean", axes = [2, 3], keepdims = true} : tensor<1x16x1x1xf32>
   %2 = top.reshape(%1) {shape = [1, 16]} : tensor<1x16xf32>
"""

from __future__ import annotations

from math import prod

import numpy as np

from explorer.ir.operation import identity_of
from explorer.ir.rewriting import Declined, RecordedRewriter, Rule
from explorer.ir.top.elementwise import BinaryOp, UnaryOp
from explorer.ir.top.movement.reshape import ReshapeOp
from explorer.ir.top.reductions.reduction import ReduceOp
from explorer.ir.types import is_static, shape_of, static_shape
from explorer.passes.analysis.axes import axis_groups
from explorer.passes.analysis.matching import (
    dtype_of,
    is_about,
    is_float,
    is_kind,
    is_used_once,
    maker,
    splat,
    weight_name,
)

ASSOCIATIVE = ("sum", "prod", "max", "min", "mean")
WITHOUT_EFFECT = ("sum", "mean", "prod", "max", "min")


class ReduceNothing(Rule):
    """reduce(x : 4x1x8) {kind = "mean", axes = [1]}   =>   reshape(x)

    Applies when every reduced axis has one element. Pays because a reshape is a view. Exact.
    """

    matches = (ReduceOp,)

    def rewrite(self, op: ReduceOp, rewriter: RecordedRewriter) -> None:
        if op.kind.data not in WITHOUT_EFFECT or not is_static(op.input):
            return
        sizes = static_shape(op.input)
        if any(sizes[axis] != 1 for axis in op.get("axes")):
            return
        if op.output.type == op.input.type:
            rewriter.replace(op, op.input)
            return
        shape = list(static_shape(op.output))
        rewriter.replace(op, ReshapeOp.make([op.input, None], shape=shape))


class MergeReductions(Rule):
    """sum(sum(x) {axes = [3]}) {axes = [2]}   =>   sum(x) {axes = [2, 3]}      (and the like)

    Applies to two of the same kind that both keep their axes or both drop them, when nothing else
    reads the first. Pays because the tensor is walked once. Sums of floats may round in another
    order.
    """

    matches = (ReduceOp,)

    def rewrite(self, op: ReduceOp, rewriter: RecordedRewriter) -> None:
        inner = maker(op.input, ReduceOp)
        if inner is None or inner.kind != op.kind or op.kind.data not in ASSOCIATIVE:
            return
        if op.kind.data == "mean" and not is_float(op.input):
            raise Declined("a mean of whole numbers truncates: two of them are not one")
        if not is_used_once(inner):
            raise Declined(f"{identity_of(inner)} is needed elsewhere too")
        first, second = inner.get("axes"), op.get("axes")
        if inner.get("keepdims") != op.get("keepdims"):
            raise Declined(f"only one of {identity_of(inner)} and {identity_of(op)} drops its axes")
        if not op.get("keepdims"):
            left = [a for a in range(len(shape_of(inner.input))) if a not in first]
            second = [left[axis] for axis in second]
        axes = sorted({*first, *second})
        rewriter.replace(op, inner.altered(axes=axes), absorbs=[inner])


class ReduceBeforeReshape(Rule):
    """mean(reshape(x : 1x16x8x8) : 1x16x64) {axes = [2]}   =>   reshape(mean(x) {axes = [2, 3]})

    Applies when the reduced axes are made of whole axes of x. Pays because a global average is
    found as what it is, and because the reshape moves towards the outputs. Exact.
    """

    matches = (ReduceOp,)

    def rewrite(self, op: ReduceOp, rewriter: RecordedRewriter) -> None:
        reshape = maker(op.input, ReshapeOp)
        if reshape is None or not is_static(reshape.input) or not is_static(reshape.output):
            return
        source, target = static_shape(reshape.input), static_shape(reshape.output)
        groups = axis_groups(source, target)
        axes: list[int] = []
        for group in groups or []:
            reduced = [a in op.get("axes") for a in group.target if target[a] != 1]
            if any(reduced):
                if not all(reduced):
                    raise Declined(f"{identity_of(op)} reduces a part of an axis")
                axes.extend(group.source)
        if groups is None or not axes:
            return
        new = ReduceOp.make([reshape.input], kind=op.kind.data, axes=sorted(axes), keepdims=True)
        shape = list(static_shape(op.output))
        rewriter.insert_before(op, new)
        rewriter.replace(op, ReshapeOp.make([new.output, None], shape=shape), absorbs=[reshape])


class KeepReducedAxes(Rule):
    """reshape(sum(x : 8x16) {axes = [1]} : 8) {shape = [8, 1]}   =>   sum(x) {keepdims = true}

    Applies when the reshape only puts the reduced axes back and nothing else reads the reduction.
    Pays because means and maxima that keep their axes are what normalizations are known by. Exact.
    """

    matches = (ReshapeOp,)

    def rewrite(self, op: ReshapeOp, rewriter: RecordedRewriter) -> None:
        inner = maker(op.input, ReduceOp)
        if inner is None or inner.get("keepdims") or not is_used_once(inner):
            return
        new = inner.altered(keepdims=True)
        if new.output.type == op.output.type and is_static(op.output):
            rewriter.replace(op, new, absorbs=[inner])
        else:
            new.erase()


class SumSquares(Rule):
    """sum(x * x)   =>   sum_square(x);   mean(x * x)   =>   sum_square(x) * (1 / count)

    Applies when nothing else reads the product; a mean to floats only. Pays because the products
    are not stored. A mean may be rounded once more.
    """

    matches = (ReduceOp,)

    def rewrite(self, op: ReduceOp, rewriter: RecordedRewriter) -> None:
        square = maker(op.input, BinaryOp)
        if op.kind.data not in ("sum", "mean") or square is None or not is_kind(square, "mul"):
            return
        if square.left is not square.right:
            return
        if not is_used_once(square):
            raise Declined(f"{identity_of(square)} is needed elsewhere too")
        new = op.altered(input=square.left, kind="sum_square")
        if op.kind.data == "sum":
            rewriter.replace(op, new, absorbs=[square])
            return
        if not is_float(op.input) or not is_static(op.input):
            new.erase()
            raise Declined(f"the count of what {identity_of(op)} averages is not known, or whole")
        inverse = np.array(1 / reduced_count(op), dtype_of(op.input))
        weight = rewriter.add_weight(op, weight_name(op, "inverse_count"), inverse)
        rewriter.insert_before(op, new, like=square)
        product = BinaryOp.make([new.output, weight], kind="mul")
        rewriter.replace(op, product, absorbs=[square])


def reduced_count(op: ReduceOp) -> int:
    """How many elements become one; at least 1."""
    sizes = static_shape(op.input)
    return max(prod(sizes[axis] for axis in op.get("axes")), 1)


class SumMagnitudes(Rule):
    """sum(abs(x))   =>   l1(x)

    Applies when nothing else reads the magnitudes. Pays because they are not stored. Exact.
    """

    matches = (ReduceOp,)

    def rewrite(self, op: ReduceOp, rewriter: RecordedRewriter) -> None:
        magnitude = maker(op.input, UnaryOp)
        if op.kind.data != "sum" or magnitude is None or not is_kind(magnitude, "abs"):
            return
        if not is_used_once(magnitude):
            raise Declined(f"{identity_of(magnitude)} is needed elsewhere too")
        new = op.altered(input=magnitude.input, kind="l1")
        rewriter.replace(op, new, absorbs=[magnitude])


class RootOfSquares(Rule):
    """sqrt(sum_square(x))   =>   l2(x)

    Applies to floats when nothing else reads the sum. Pays because a pass over the sums is saved.
    Exact.
    """

    matches = (UnaryOp,)

    def rewrite(self, op: UnaryOp, rewriter: RecordedRewriter) -> None:
        squares = maker(op.input, ReduceOp)
        if op.kind.data != "sqrt" or squares is None or squares.kind.data != "sum_square":
            return
        if not is_used_once(squares):
            raise Declined(f"{identity_of(squares)} is needed elsewhere too")
        rewriter.replace(op, squares.altered(kind="l2"), absorbs=[squares])


class AverageInstead(Rule):
    """sum(x) {axes = [2]} * (1 / 64)   =>   mean(x) {axes = [2]}

    Applies when the factor is one over the number of elements that are added up. Pays because a
    pass over the sums is saved, and because means take part in other rules. Rounded once more or
    less.
    """

    matches = (BinaryOp,)

    def rewrite(self, op: BinaryOp, rewriter: RecordedRewriter) -> None:
        total = maker(op.left, ReduceOp)
        if total is None or op.kind.data not in ("mul", "div") or not is_float(op.left):
            return
        factor = splat(op.right, rewriter.weights)
        if factor is None or total.kind.data != "sum" or not is_static(total.input):
            return
        count = reduced_count(total)
        if not is_about(factor, count if op.kind.data == "div" else 1 / count):
            return
        if op.output.type != total.output.type:
            return
        if not is_used_once(total):
            raise Declined(f"{identity_of(total)} is needed elsewhere too")
        rewriter.replace(op, total.altered(kind="mean"), absorbs=[total])


REDUCTION_RULES: tuple[type[Rule], ...] = (
    ReduceNothing,
    MergeReductions,
    ReduceBeforeReshape,
    KeepReducedAxes,
    SumSquares,
    SumMagnitudes,
    RootOfSquares,
    AverageInstead,
)

"""Gathers at constant positions are slices where the positions are evenly spaced.

   %1 = top.gather(%x, %ids) {axis = 1} : tensor<1x2x8xf32>              %ids = [4, 6]
=> %1 = top.slice(%x) {starts = [0, 4, 0], stops = [1, 7, 8], steps = [1, 2, 1]}
"""

from __future__ import annotations

import numpy as np

from explorer.ir.operation import identity_of
from explorer.ir.rewriting import Declined, RecordedRewriter, Rule
from explorer.ir.top.indexing import GatherOp
from explorer.ir.top.movement.reshape import ReshapeOp
from explorer.ir.types import is_static, static_shape
from explorer.passes.analysis.matching import constant, maker, weight_name
from explorer.passes.simplify.movement.slices import make_slice


class SliceInstead(Rule):
    """gather(x, constant [4, 6]) {axis = 1}   =>   slice(x) {4:8:2}

    Applies to positions with an even distance, other than 0, in an axis of known size. Where the
    indices have another rank than one, a reshape follows. Pays because a slice is copied in whole
    rows, and because slices merge with one another and with concats. Exact.
    """

    matches = (GatherOp,)

    def rewrite(self, op: GatherOp, rewriter: RecordedRewriter) -> None:
        indices = constant(op.indices, rewriter.weights)
        if indices is None or not indices.size:
            return
        if not is_static(op.input):
            raise Declined(f"the shape of what {identity_of(op)} reads is not known yet")
        axis, sizes = op.get("axis"), static_shape(op.input)
        taken = evenly_spaced(indices.reshape(-1), sizes[axis])
        if taken is None:
            raise Declined(f"the positions of {identity_of(op)} are not evenly spaced")
        ranges = [taken if a == axis else range(size) for a, size in enumerate(sizes)]
        new = make_slice(op.input, ranges)
        if new.output.type == op.output.type:
            rewriter.replace(op, new)
            return
        rewriter.insert_before(op, new)
        shape = list(static_shape(op.output))
        rewriter.replace(op, ReshapeOp.make([new.output, None], shape=shape))


def evenly_spaced(positions: np.ndarray, size: int) -> range | None:
    """The positions as a range inside an axis of that size; None if they are none.

    Negative positions count from the end.
    """
    inside = np.where(positions < 0, positions + size, positions).astype(np.int64)
    if inside.min() < 0 or inside.max() >= size:
        return None
    if len(inside) == 1:
        return range(int(inside[0]), int(inside[0]) + 1)
    steps = np.diff(inside)
    step = int(steps[0])
    if step == 0 or np.any(steps != step):
        return None
    return range(int(inside[0]), int(inside[-1]) + (1 if step > 0 else -1), step)


class MergeGathers(Rule):
    """gather(gather(x, constant a), constant b)   =>   gather(x, constant a[b])

    Applies to two gathers along the same axis, the first with a vector of positions. Pays because
    one copy is made instead of two. Exact.
    """

    matches = (GatherOp,)

    def rewrite(self, op: GatherOp, rewriter: RecordedRewriter) -> None:
        inner = maker(op.input, GatherOp)
        if inner is None or inner.get("axis") != op.get("axis"):
            return
        first = constant(inner.indices, rewriter.weights)
        second = constant(op.indices, rewriter.weights)
        if first is None or second is None or first.ndim != 1:
            return
        merged = rewriter.add_weight(op, weight_name(op, "indices"), first[second])
        new = op.altered(input=inner.input, indices=merged)
        rewriter.replace(op, new, absorbs=[inner])


GATHER_RULES: tuple[type[Rule], ...] = (SliceInstead, MergeGathers)

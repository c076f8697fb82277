"""Copies of every second pixel that are joined again: one transpose between two views.

   %a = top.slice(%x) {..., steps = [1, 1, 2, 2]} : tensor<1x3x4x4xf32>   %x : tensor<1x3x8x8xf32>
   %b, %c, %d likewise, from row 1, column 1 and both
   %y = top.concat(%a, %b, %c, %d) {axis = 1} : tensor<1x12x4x4xf32>
=> %1 = top.reshape(%x) {shape = [1, 3, 4, 2, 4, 2]} : tensor<1x3x4x2x4x2xf32>
   %2 = top.transpose(%1) {permutation = [0, 5, 3, 1, 2, 4]} : tensor<1x2x2x3x4x4xf32>
   %y = top.reshape(%2) {shape = [1, 12, 4, 4]} : tensor<1x12x4x4xf32>

That is the focus of YOLOv5 and YOLOX, and the patch merging of Swin: a space-to-depth.
"""

from __future__ import annotations

from itertools import product
from math import prod

from xdsl.ir import SSAValue

from explorer.ir.operation import identity_of
from explorer.ir.origins import origin_of, set_origins
from explorer.ir.rewriting import Declined, RecordedRewriter, Rule
from explorer.ir.top.movement.concat import ConcatOp
from explorer.ir.top.movement.reshape import ReshapeOp
from explorer.ir.top.movement.slices import SliceOp
from explorer.ir.top.movement.transpose import TransposeOp
from explorer.ir.types import static_shape
from explorer.passes.analysis.matching import is_used_once, maker
from explorer.passes.simplify.movement.slices import static_ranges


class JoinStridedSlices(Rule):
    """concat(x[::2, ::2], x[1::2, ::2], x[::2, 1::2], x[1::2, 1::2])   =>   space_to_depth(x)

    Applies to all slices of a step along one axis or more, in any regular order, that are joined
    along another axis and read by nothing else; the result is a transpose between two reshapes.
    Pays because each element is copied once instead of twice, by one kernel instead of five. Exact.
    """

    matches = (ConcatOp,)

    def rewrite(self, op: ConcatOp, rewriter: RecordedRewriter) -> None:
        slices = [maker(value, SliceOp) for value in op.inputs]
        parts = [s for s in slices if s is not None]
        if len(parts) != len(slices) or len(parts) < 2:
            return
        x, axis = parts[0].input, op.get("axis")
        ranges = [static_ranges(part) for part in parts]
        if any(part.input is not x for part in parts) or any(r is None for r in ranges):
            return
        taken = [r for r in ranges if r is not None]
        sizes = static_shape(x)
        steps = {a: taken[0][a].step for a in range(len(sizes)) if taken[0][a].step > 1}
        if not steps or prod(steps.values()) != len(parts):
            return
        order = _order(taken, steps, axis, sizes)
        if order is None:
            raise Declined(
                f"the slices that {identity_of(op)} joins are not all those of their steps, in a "
                "regular order"
            )
        shared = [part for part in parts if not is_used_once(part)]
        if shared:
            raise Declined(f"{identity_of(shared[0])} is needed elsewhere too")
        self._replace(op, x, steps, order, parts, rewriter)

    @staticmethod
    def _replace(
        op: ConcatOp,
        x: SSAValue,
        steps: dict[int, int],
        order: list[int],
        parts: list[SliceOp],
        rewriter: RecordedRewriter,
    ) -> None:
        shape: list[int] = []
        whole: list[int] = []
        """Where each axis of x went, its step aside."""
        inner: dict[int, int] = {}
        for a, size in enumerate(static_shape(x)):
            whole.append(len(shape))
            shape.append(size // steps.get(a, 1))
            if a in steps:
                inner[a] = len(shape)
                shape.append(steps[a])
        axis = op.get("axis")
        permutation = [*whole[:axis], *[inner[a] for a in order], *whole[axis:]]
        split = ReshapeOp.make([x, None], shape=shape)
        origin = origin_of(x)
        set_origins(split, [None if origin is None else origin.then("reshape", shape)])
        rewriter.insert_before(op, split)
        moved = TransposeOp.make([split.output], permutation=permutation)
        origin, own = origin_of(op.output), static_shape(moved.output)
        set_origins(moved, [None if origin is None else origin.then("reshape", own)])
        rewriter.insert_before(op, moved)
        merged = ReshapeOp.make([moved.output, None], shape=list(static_shape(op.output)))
        rewriter.replace(op, merged, absorbs=parts)


def _order(
    taken: list[list[range]], steps: dict[int, int], axis: int, sizes: tuple[int, ...]
) -> list[int] | None:
    """The axes from the one whose start changes most slowly to the fastest; None for no order."""
    if axis in steps or any(sizes[a] % step for a, step in steps.items()):
        return None
    starts = []
    for ranges in taken:
        for a, own in enumerate(ranges):
            begin = own.start if a in steps else 0
            if own != range(begin, sizes[a], steps.get(a, 1)) or begin >= steps.get(a, 1):
                return None
        starts.append({a: ranges[a].start for a in steps})
    changes = [a for a in steps if starts[1][a] != starts[0][a]]
    if len(changes) != 1:
        return None
    rest = [a for a in steps if a != changes[0]]
    for slower in (rest, rest[::-1]):
        order = [*slower, changes[0]]
        places = product(*[range(steps[a]) for a in order])
        if starts == [dict(zip(order, place, strict=True)) for place in places]:
            return order
    return None


SHUFFLE_RULES: tuple[type[Rule], ...] = (JoinStridedSlices,)

"""Slices: of slices, of what was joined, of what was padded.

   %1 = top.concat(%a, %b) {axis = 1} : tensor<1x8xf32>            %a, %b : tensor<1x4xf32>
   %2 = top.slice(%1) {starts = [0, 4], stops = [1, 6], steps = [1, 1]} : tensor<1x2xf32>
=> %2 = top.slice(%b) {starts = [0, 0], stops = [1, 2], steps = [1, 1]} : tensor<1x2xf32>
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from xdsl.ir import SSAValue

from explorer.ir.operation import identity_of
from explorer.ir.rewriting import Declined, RecordedRewriter, Rule
from explorer.ir.top.movement.concat import ConcatOp
from explorer.ir.top.movement.pad import PadOp
from explorer.ir.top.movement.reshape import ExpandOp
from explorer.ir.top.movement.slices import SliceOp, slice_properties
from explorer.ir.types import is_static, static_shape
from explorer.passes.analysis.matching import maker


def make_slice(value: SSAValue, ranges: Sequence[range]) -> SliceOp:
    """The slice that takes these positions of each axis; one and the same text for the same."""
    return SliceOp.make([value, None, None, None], None, **slice_properties(ranges))


def static_ranges(op: SliceOp) -> list[range] | None:
    """The positions that a slice takes; None where they are not known yet."""
    if not op.is_static_slice or not is_static(op.input):
        return None
    return op.ranges(static_shape(op.input))


class MergeSlices(Rule):
    """slice(slice(x) {2:10:2}) {1:3}   =>   slice(x) {4:8:2}

    Applies to two slices in a row with fixed bounds. Pays because one copy is made instead of
    two. Exact.
    """

    matches = (SliceOp,)

    def rewrite(self, op: SliceOp, rewriter: RecordedRewriter) -> None:
        inner = maker(op.input, SliceOp)
        if inner is None:
            return
        first, second = static_ranges(inner), static_ranges(op)
        if first is None or second is None:
            raise Declined(f"the bounds of {identity_of(inner)} are not known yet")
        taken = [
            a[b.start : b.stop : b.step] if b.step > 0 else _picked(a, b)
            for a, b in zip(first, second, strict=True)
        ]
        rewriter.replace(op, make_slice(inner.input, taken), absorbs=[inner])


def _picked(inner: range, outer: range) -> range:
    """inner[outer] for a range that runs backwards, whose stop may be -1."""
    if not outer:
        return range(0, 0)
    step = inner.step * outer.step
    last = inner[outer[-1]]
    return range(inner[outer[0]], last + (1 if step > 0 else -1), step)


class SliceOneInput(Rule):
    """slice(concat(a : 4, b : 4)) {5:7}   =>   slice(b) {1:3}

    Applies when inputs of the concat, at either end, are not taken from; what remains is joined
    again if it is more than one. Pays because less is copied, and often nothing joined. Exact.
    """

    matches = (SliceOp,)

    def rewrite(self, op: SliceOp, rewriter: RecordedRewriter) -> None:
        concat = maker(op.input, ConcatOp)
        if concat is None:
            return
        ranges = static_ranges(op)
        if ranges is None or not all(is_static(value) for value in concat.inputs):
            raise Declined(f"the bounds of {identity_of(op)} are not known yet")
        axis = concat.get("axis")
        taken = ranges[axis]
        if not taken:
            return
        ends = list(accumulate(static_shape(value)[axis] for value in concat.inputs))
        begins = [0, *ends[:-1]]
        low, high = min(taken[0], taken[-1]), max(taken[0], taken[-1])
        needed = [i for i, end in enumerate(ends) if end > low and begins[i] <= high]
        first, last = needed[0], needed[-1]
        if last - first + 1 == len(ends):
            return
        kept = list(concat.inputs)[first : last + 1]
        moved = range(taken.start - begins[first], taken.stop - begins[first], taken.step)
        value = kept[0]
        if len(kept) > 1:
            joined = concat.altered(inputs=kept)
            rewriter.insert_before(op, joined, like=concat)
            value = joined.output
        new = make_slice(value, [moved if a == axis else r for a, r in enumerate(ranges)])
        rewriter.replace(op, new, absorbs=[concat])


class SliceBeforePad(Rule):
    """slice(pad(x : 8) {low = 2, high = 2}) {2:9}   =>   slice(x) {0:7}

    Applies when nothing that the pad added is taken. Pays because the padded tensor is not made.
    Exact.
    """

    matches = (SliceOp,)

    def rewrite(self, op: SliceOp, rewriter: RecordedRewriter) -> None:
        pad = maker(op.input, PadOp)
        if pad is None or pad.amounts is not None or any(pad.get("interior", ())):
            return
        ranges = static_ranges(op)
        if ranges is None or not is_static(pad.input):
            raise Declined(f"the bounds of {identity_of(op)} are not known yet")
        moved = [
            range(taken.start - low, taken.stop - low, taken.step)
            for taken, low in zip(ranges, pad.get("low"), strict=True)
        ]
        for taken, size in zip(moved, static_shape(pad.input), strict=True):
            if taken and not (min(taken[0], taken[-1]) >= 0 and max(taken[0], taken[-1]) < size):
                raise Declined(f"{identity_of(op)} takes some of what {identity_of(pad)} adds")
        rewriter.replace(op, make_slice(pad.input, moved), absorbs=[pad])


class SliceBeforeExpand(Rule):
    """slice(expand(x : 1x8) {shape = [4, 8]}) {0:2, 0:4}   =>   expand(slice(x) {0:1, 0:4})

    Applies to slices with fixed bounds of repeated elements. Pays because less is copied; the
    expand may vanish altogether. Exact.
    """

    matches = (SliceOp,)

    def rewrite(self, op: SliceOp, rewriter: RecordedRewriter) -> None:
        expand = maker(op.input, ExpandOp)
        if expand is None or expand.target is not None:
            return
        ranges = static_ranges(op)
        if ranges is None or not is_static(expand.input):
            raise Declined(f"the bounds of {identity_of(op)} are not known yet")
        own = static_shape(expand.input)
        missing = len(ranges) - len(own)
        sizes = static_shape(expand.output)[missing:]
        taken = [
            r if before == after else range(min(1, len(r)))
            for r, before, after in zip(ranges[missing:], own, sizes, strict=True)
        ]
        sliced = make_slice(expand.input, taken)
        if sliced.output.type == expand.input.type:
            value: SSAValue = expand.input
            sliced.erase()
        else:
            rewriter.insert_before(op, sliced)
            value = sliced.output
        new = ExpandOp.make([value, None], shape=list(static_shape(op.output)))
        rewriter.replace(op, new, absorbs=[expand])


SLICE_RULES: tuple[type[Rule], ...] = (
    MergeSlices,
    SliceOneInput,
    SliceBeforePad,
    SliceBeforeExpand,
)

"""Parts: which elements of another value a value consists of, read through slices and reshapes.

%h = top.slice(%x) {starts = [0, 4], stops = [2, 8], ...} : tensor<2x4xf32>
SlicePart.of(%h) = SlicePart(%x, (range(0, 2), range(4, 8)))
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import SSAValue

from explorer.ir.top.movement.reshape import ReshapeOp
from explorer.ir.top.movement.slices import SliceOp
from explorer.ir.types import is_static, static_shape
from explorer.passes.analysis.matching import maker
from explorer.passes.simplify.movement.slices import static_ranges


@dataclass(frozen=True)
class SlicePart:
    """Positions of a value that are taken from another one, axis by axis."""

    base: SSAValue
    taken: tuple[range, ...]

    @staticmethod
    def of(value: SSAValue) -> SlicePart:
        """A slice of something, else all of the value itself."""
        op = maker(value, SliceOp)
        ranges = None if op is None else static_ranges(op)
        if op is None or ranges is None:
            return SlicePart(value, tuple(range(size) for size in static_shape(value)))
        return SlicePart(op.input, tuple(ranges))

    def along_last(self, taken: range) -> SlicePart:
        return SlicePart(self.base, (*self.taken[:-1], taken))


def paired(value: SSAValue) -> SlicePart:
    """What a value takes from another one, also by a reshape that makes an axis of pairs.

    reshape(x : 8x64 to 8x32x2)[..., 1] are the odd elements, reshape(x to 8x2x32)[:, 1] the
    second half.
    """
    outer = maker(value, ReshapeOp)
    cut = None if outer is None else maker(outer.input, SliceOp)
    inner = None if cut is None else maker(cut.input, ReshapeOp)
    ranges = None if cut is None else static_ranges(cut)
    if inner is None or ranges is None or not is_static(inner.input):
        return SlicePart.of(value)
    wide, split, own = (static_shape(v) for v in (inner.input, inner.output, value))
    for axis in (len(split) - 1, len(split) - 2):
        half = wide[-1] // 2
        parts = (half, 2) if axis == len(split) - 1 else (2, half)
        if axis < 1 or split != (*wide[:-1], *parts) or own != (*wide[:-1], half):
            continue
        whole = [r == range(n) for r, n in zip(ranges, split, strict=True)]
        if whole.count(False) > 1 or len(ranges[axis]) != 1:
            continue
        which, source = ranges[axis][0], SlicePart.of(inner.input)
        last = source.taken[-1]
        return source.along_last(
            last[which::2] if parts[1] == 2 else last[which * half : (which + 1) * half]
        )
    return SlicePart.of(value)


def united(first: SlicePart, second: SlicePart, interleaved: bool) -> SlicePart | None:
    """The part whose pairs are the elements of both; None where they are no pairs."""
    a, b = first.taken[-1], second.taken[-1]
    if first.base is not second.base or first.taken[:-1] != second.taken[:-1]:
        return None
    if len(a) != len(b) or not a:
        return None
    if interleaved:
        step = b[0] - a[0]
        fits = len(a) == 1 or a.step == b.step == 2 * step
        return first.along_last(range(a[0], b[-1] + step, step)) if fits and step > 0 else None
    is_next = a.step == b.step == 1 or len(a) == 1
    return first.along_last(range(a[0], b[-1] + 1)) if is_next and b[0] == a[-1] + 1 else None

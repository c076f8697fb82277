"""Which elements of dimensions are needed, seen as those of another shape of the same elements.

(batch, 4, 8), batch below b     as     (batch * 4, 8)       rows below 4 * b
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import SSAValue

from explorer.ir.layout import rounded_channels
from explorer.ir.sizes.symbols import Expression
from explorer.ir.types import layout_of, static_shape
from explorer.kernels.loops.extents import Need, Needs

Joined = Mapping[Expression, tuple[tuple[int, Expression], ...]]
"""Needs of dimensions of joined sizes: the largest size of each, and its size in a call. What has
such a need is needed below all of them only."""


def regrouped(
    needs: Needs, before: Sequence[int], after: Sequence[int], joined: Joined | None = None
) -> Needs:
    """Needs of dimensions as those of another shape of the same elements.

    Dimensions that are joined are needed up to the last element of the first one that is more
    than 1; one that is taken apart is needed in its first part, and in all of the others.
    """
    found: list[Need] = [None] * len(after)
    left, right = list(range(len(before))), list(range(len(after)))
    while left and right:
        ours, theirs = [left.pop(0)], [right.pop(0)]
        a, b = before[ours[0]], after[theirs[0]]
        while a != b:
            if a < b and left:
                ours.append(left.pop(0))
                a *= before[ours[-1]]
            elif right:
                theirs.append(right.pop(0))
                b *= after[theirs[-1]]
            else:
                return tuple([None] * len(after))
        _regroup(needs, before, after, ours, theirs, found, joined or {})
    return tuple(found)


def _regroup(
    needs: Needs,
    before: Sequence[int],
    after: Sequence[int],
    ours: Sequence[int],
    theirs: Sequence[int],
    found: list[Need],
    joined: Joined,
) -> None:
    ours = [axis for axis in ours if before[axis] != 1]
    theirs = [axis for axis in theirs if after[axis] != 1]
    if not ours or not theirs or needs[ours[0]] is None:
        return
    need = needs[ours[0]]
    assert need is not None
    factors = joined.get(need, ()) if len(ours) == 1 else ()
    if factors and [size for size, _ in factors] == [after[axis] for axis in theirs]:
        for axis, (_, own) in zip(theirs, factors, strict=True):
            found[axis] = own
        return
    inner = prod(before[axis] for axis in ours[1:])
    rest = prod(after[axis] for axis in theirs[1:])
    elements = need * inner
    found[theirs[0]] = (elements + (rest - 1)).divided(rest)


def shape_of_buffer(argument: SSAValue) -> tuple[int, ...]:
    assert isinstance(argument.type, MemRefType)
    return argument.type.get_shape()


def in_buffer(value: SSAValue, needs: Needs | None, shape: tuple[int, ...]) -> Needs:
    """Needs of a tensor's dimensions as those of the kernel's buffer."""
    own, shifts = static_shape(value), _shifts(value)
    if needs is None:
        return (None,) * len(shape)
    if len(shape) == len(own):
        return _shifted(needs, shifts)
    return (None,) * len(shape) if any(shifts) else regrouped(needs, _rounded(value), shape)


def in_tensor(value: SSAValue, needs: Needs, shape: tuple[int, ...]) -> Needs:
    """Needs of a kernel's buffer as those of the tensor's dimensions."""
    own, shifts = static_shape(value), _shifts(value)
    if len(shape) == len(own):
        return _shifted(needs, [-shift for shift in shifts])
    return (None,) * len(own) if any(shifts) else regrouped(needs, shape, _rounded(value))


def _rounded(value: SSAValue) -> tuple[int, ...]:
    """The shape, with channels as they are stored."""
    shape, layout = static_shape(value), layout_of(value)
    if not layout.block:
        return shape
    return (shape[0], rounded_channels(shape[1], layout), *shape[2:])


def _shifts(value: SSAValue) -> list[int]:
    """Where the first element of each dimension is in the buffer of a kernel."""
    top, left = layout_of(value).halo[:2]
    shifts = [0] * len(static_shape(value))
    if top or left:
        shifts[2], shifts[3] = top, left
    return shifts


def _shifted(needs: Needs, shifts: Sequence[int]) -> Needs:
    return tuple(
        None if need is None else need + shift for need, shift in zip(needs, shifts, strict=True)
    )

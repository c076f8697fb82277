"""Reading images between their pixels: what GridSample, RoiAlign and DeformConv have in common.

    position 1.25 on an axis   taps 1 and 2, weights 0.75 and 0.25

The taps of all axes together are the pixels that a point is made of: 4 in bilinear, 16 in bicubic
interpolation of images. One gather reads them all, one product with the weights adds them up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from explorer.importers.building.build import Build, Unsupported
from explorer.importers.building.expr import Expr, where
from explorer.importers.building.images.interpolation import whole
from explorer.ir.top.indexing import GatherNdOp

MODES = ("nearest", "linear", "cubic")
BORDERS = ("zeros", "border", "reflection")

_KEYS = -0.75
"""The parameter of Keys' cubic (1981)."""


@dataclass(frozen=True)
class Taps:
    """The pixels of one axis that each point needs: places and weights, both (N, points, taps)."""

    places: Expr
    weights: Expr
    size: int
    """Pixels of the axis."""
    count: int
    """Taps of a point."""
    inside: Expr | None = None
    """Which taps lie in the image, (N, points, taps); None: all. An outer one weighs 0, and what
    stands in its place is not read: infinity times 0 would be NaN."""


def taps_of(
    positions: Expr, size: int, mode: str, border: str, align_corners: bool, build: Build
) -> Taps:
    """positions: (N, points) in pixels of an axis with `size` of them, floating point.

    border: what lies outside. Zeros; the outermost pixel; or the image mirrored, at the centers of
    the outermost pixels if `align_corners`, else at their outer edges. A position that is NaN is
    the lower end, as in PyTorch.
    """
    if mode not in MODES or border not in BORDERS:
        raise Unsupported(f"interpolation {mode!r} with {border!r} outside")
    low, high = (0.0, size - 1.0) if align_corners else (-0.5, size - 0.5)
    positions = _without_nan(positions, low)
    if mode != "cubic" and border == "border":
        positions = positions.clip(0.0, size - 1.0)
    elif mode != "cubic" and border == "reflection":
        positions = _mirrored(positions, low, high)
    base = positions.unary("round" if mode == "nearest" else "floor")
    share = (positions - base).unsqueeze([2])
    if mode == "nearest":
        sizes = [*positions.all_sizes(), 1]
        weights = positions.constant(1).broadcast_to(sizes)
        first, count = 0, 1
    elif mode == "linear":
        rest = 1 - share
        weights = build.concat([rest, share], 2)
        first, count = 0, 2
    else:
        weights = _cubic_weights(share, build)
        first, count = -1, 4
    offsets = np.arange(first, first + count).astype(positions.dtype)
    places = base.unsqueeze([2]) + build.weight(offsets)
    is_inside = None
    if border == "zeros":
        is_inside = _is_inside(places, 0.0, size - 1.0)
        weights = where(is_inside, weights, 0)
    elif mode == "cubic" and border == "reflection":
        places = _mirrored(places, low, high).round()
    # An infinite position has no mirror image, and a place of every tap is read.
    inside = _without_nan(places.clip(0.0, size - 1.0), 0.0)
    return Taps(inside.astype(np.int64), weights, size, count, is_inside)


def masked(taps: Taps, positions: Expr, low: float, high: float) -> Taps:
    """Points outside of [low, high] on this axis weigh nothing."""
    mask = _is_inside(positions, low, high).unsqueeze([2])
    inside = (
        mask.broadcast_to(taps.weights.all_sizes()) if taps.inside is None else (taps.inside & mask)
    )
    return replace(taps, weights=where(mask, taps.weights, 0), inside=inside)


def sampled(x: Expr, taps: Sequence[Taps], build: Build) -> Expr:
    """x: (N, C, spatial...), taps of every spatial axis  ->  (N, C, points).

    Whole numbers are rounded once, within the range of their type.
    """
    values, weights = tap_values(x, taps, build)
    is_whole = not x.is_float
    if is_whole:
        values, weights = (v.astype(np.float64) for v in (values, weights))
    mixed = weights.unsqueeze([2]) @ values
    result = mixed.squeeze([2]).transpose([0, 2, 1])
    return whole(result, x.dtype, True) if is_whole else result


def tap_values(x: Expr, taps: Sequence[Taps], build: Build) -> tuple[Expr, Expr]:
    """What stands at all taps, (N, points, taps, C), 0 outside of the image, and their weights,
    (N, points, taps)."""
    places, weights, count = taps[0].places, taps[0].weights, taps[0].count
    inside = taps[0].inside
    for axis in taps[1:]:
        inside = _both_inside(inside, count, axis)
        outer, inner = places.unsqueeze([3]), axis.places.unsqueeze([2])
        places = outer * axis.size + inner
        weights = weights.unsqueeze([3]) * axis.weights.unsqueeze([2])
        count *= axis.count
        sizes = [places.dim(0), places.dim(1), count]
        places, weights = places.reshape(sizes), weights.reshape(sizes)
    pixels = prod(axis.size for axis in taps)
    flat = x.reshape([x.dim(0), x.dim(1), pixels])
    by_pixel = flat.transpose([0, 2, 1])
    values = build.value(GatherNdOp, [by_pixel, places.unsqueeze([3])], batch_dims=1)
    return values if inside is None else where(inside.unsqueeze([3]), values, 0), weights


def _both_inside(outer: Expr | None, count: int, axis: Taps) -> Expr | None:
    """Which pairs of `count` taps and those of a further axis lie in the image."""
    inner = axis.inside
    if outer is None and inner is None:
        return None
    sizes = [axis.places.dim(0), axis.places.dim(1)]
    if outer is None:
        assert inner is not None
        both = inner.unsqueeze([2]).broadcast_to([*sizes, count, axis.count])
    elif inner is None:
        both = outer.unsqueeze([3]).broadcast_to([*sizes, count, axis.count])
    else:
        both = outer.unsqueeze([3]) & inner.unsqueeze([2])
    return both.reshape([*sizes, count * axis.count])


def _without_nan(x: Expr, number: float) -> Expr:
    return where(x.is_nan(), number, x)


def _is_inside(positions: Expr, low: float, high: float) -> Expr:
    return (positions >= low) & (positions <= high)


def _mirrored(positions: Expr, low: float, high: float) -> Expr:
    """Positions outside of [low, high] reflected at its ends, as often as it takes.

    With t = |x - low| modulo twice the length: low + length - |t - length|.
    """
    length = high - low
    if not length:
        return positions.clip(low, high)
    return high - abs(_plus(abs(_plus(positions, -low)) % (2 * length), -length))


def _plus(x: Expr, number: float) -> Expr:
    return x + number if number else x


def _cubic_weights(share: Expr, build: Build) -> Expr:
    """Weights (N, points, 4) of the pixels before, at and behind a point: powers by a matrix.

    Keys, "Cubic convolution interpolation for digital image processing", 1981.
    """
    a = _KEYS
    square = share * share
    powers = [square * share, square, share]
    matrix = np.array(
        [
            [a, a + 2, -a - 2, -a],
            [-2 * a, -a - 3, 2 * a + 3, a],
            [a, 0, -a, 0],
        ],
        share.dtype,
    )
    middle = np.array([0, 1, 0, 0], share.dtype)
    return build.concat(powers, 2) @ build.weight(matrix) + build.weight(middle)

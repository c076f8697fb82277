"""Images in another size: nearest by gathers, linear and cubic by interpolation, axis by axis.

    resized(x, [ResizedAxis(2, 2, 4, 2.0)], Manner(mode="linear", ...), build)
        2 -> 4 rows: two taps for each of 4 rows

Coordinates are computed in single precision, as onnxruntime and PyTorch do, so that ties fall to
the same side. Whole numbers are interpolated in floats along all axes and rounded once, within the
range of their type; PyTorch rounds bytes after each axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from explorer.importers.building.build import Build, Unsupported
from explorer.importers.building.expr import Expr, where
from explorer.importers.building.images.interpolation import interpolate, whole
from explorer.ir.top.support.taps import Taps

_FLOAT = np.float32
CROPPING = "tf_crop_and_resize"
MAX_FRACTION_BITS = 22
MAX_FLOAT_BITS = 15
"""Of fractions whose sums with bytes, weights below 0 included, f32 has."""


@dataclass(frozen=True)
class ResizedAxis:
    """One resized axis: `scale` is what was asked for, not always target / size."""

    axis: int
    size: int
    target: int
    scale: float
    region: tuple[float, float] = (0.0, 1.0)
    """Where a crop begins and ends, 0 and 1 being the ends of the axis."""


@dataclass(frozen=True, kw_only=True)
class Manner:
    """How elements between those of the operand are found."""

    mode: str
    coordinates: str
    nearest: str
    antialias: bool = False
    cubic_coefficient: float = -0.75
    exclude_outside: bool = False
    extrapolation: float = 0.0
    is_fixed_point: bool = False
    """Whether bytes are multiplied by weights of 16 bits, and rounded after each axis."""
    kind: type[np.floating] = _FLOAT
    """Of the numbers that places are computed with."""


def resized(x: Expr, axes: Sequence[ResizedAxis], manner: Manner, build: Build) -> Expr:
    """x with some axes in other sizes."""
    if not axes or x.is_float or manner.mode == "nearest":
        return _by_axes(x, axes, manner, build)
    if manner.is_fixed_point:
        return _of_bytes(x, axes, manner, build)
    y = _by_axes(x.astype(np.float64), axes, manner, build)
    return whole(y, x.dtype, manner.mode == "cubic" or manner.antialias)


def _by_axes(x: Expr, axes: Sequence[ResizedAxis], manner: Manner, build: Build) -> Expr:
    for axis in sorted(axes, key=_turn):
        places = _coordinates(axis, manner.coordinates, manner.kind)
        if manner.mode == "nearest":
            x = x.take(_nearest(places, axis, manner.nearest), axis.axis)
        elif manner.mode in ("linear", "bilinear", "cubic"):
            x = interpolate(x, axis.axis, _taps(places, axis, manner), build)
        else:
            raise Unsupported(f"mode {manner.mode!r}")
        if manner.coordinates == CROPPING:
            outside = (places < 0) | (places > axis.size - 1)
            if outside.any():
                shape = [-1 if a == axis.axis else 1 for a in range(x.rank)]
                mask = build.weight(outside.reshape(shape))
                x = where(mask, manner.extrapolation, x)
    return x


def _turn(axis: ResizedAxis) -> tuple[float, int]:
    """What grows least comes first. Of axes that grow alike the last one, whose elements are read
    one by one, while there are few; of those that shrink alike it comes behind the others."""
    growth = axis.target / axis.size
    return growth, -axis.axis if growth > 1 else axis.axis


def _coordinates(axis: ResizedAxis, mode: str, kind: type[np.floating]) -> np.ndarray:
    """Where each element of the result lies in the operand, in elements; numbers of a kind."""
    target = np.arange(axis.target, dtype=kind)
    half, scale = kind(0.5), kind(axis.scale)
    if mode == "half_pixel" or (mode == "pytorch_half_pixel" and axis.target > 1):
        return (target + half) / scale - half
    if mode == "pytorch_half_pixel":
        return np.zeros(1, kind)
    if mode == "asymmetric":
        return target / scale
    if mode == "align_corners":
        if axis.target == 1:
            return np.zeros(1, kind)
        return target * kind(axis.size - 1) / kind(axis.target - 1)
    if mode == "half_pixel_symmetric":
        adjusted = kind(axis.target) / (scale * kind(axis.size))
        return kind(axis.size) / 2 * (1 - adjusted) + (target + half) / scale - half
    if mode == "tf_half_pixel_for_nn":
        return (target + half) / scale
    if mode == CROPPING:
        begin, end = (kind(number) for number in axis.region)
        last = kind(axis.size - 1)
        if axis.target == 1:
            return np.array([half * (begin + end) * last], kind)
        return begin * last + target * (end - begin) * last / kind(axis.target - 1)
    raise Unsupported(f"coordinate_transformation_mode {mode!r}")


def _nearest(places: np.ndarray, axis: ResizedAxis, mode: str) -> np.ndarray:
    """Positions of the nearest elements. `simple` is what opsets before 11 have."""
    if mode == "simple":
        mode = "ceil" if axis.scale < 1 else "floor"
    if mode == "floor":
        chosen = np.floor(places)
    elif mode == "ceil":
        chosen = np.ceil(places)
    elif mode == "round_prefer_floor":
        chosen = np.ceil(places - _FLOAT(0.5))
    elif mode == "round_prefer_ceil":
        chosen = np.floor(places + _FLOAT(0.5))
    else:
        raise Unsupported(f"nearest_mode {mode!r}")
    return np.clip(chosen, 0, axis.size - 1).astype(np.int64)


# -- taps ----------------------------------------------------------------------------------------


def _taps(places: np.ndarray, axis: ResizedAxis, manner: Manner) -> Taps:
    """The elements that are near enough, and their weights.

    With `antialias` a smaller result reaches as much further as it is smaller. What lies outside is
    the border, or nothing with `exclude_outside`.
    """
    shrink = min(axis.scale, 1.0) if manner.antialias else 1.0
    if manner.mode == "cubic":
        return _weighted(places, axis, 2, shrink, manner)
    if not manner.antialias:
        places = np.clip(places, 0, axis.size - 1)  # the same, but exact at the borders
    return _weighted(places, axis, 1, shrink, manner)


def _weighted(
    places: np.ndarray, axis: ResizedAxis, reach: int, shrink: float, manner: Manner
) -> Taps:
    """reach: distance (before shrinking) at which an element weighs nothing any more."""
    base = np.floor(places).astype(np.int64)
    width = int(np.ceil(reach / shrink))
    positions = base[:, np.newaxis] + np.arange(1 - width, width + 1)
    distance = np.abs(places[:, np.newaxis] - positions).astype(np.float64) * shrink
    if reach == 1:
        weights = np.clip(1 - distance, 0, 1)
    else:
        weights = _cubic(distance, manner.cubic_coefficient)
    if manner.exclude_outside:
        weights = np.where((positions >= 0) & (positions < axis.size), weights, 0.0)
    if manner.exclude_outside or shrink != 1.0:
        weights /= weights.sum(1, keepdims=True)
    return Taps(np.clip(positions, 0, axis.size - 1), weights)


def _cubic(distance: np.ndarray, a: float) -> np.ndarray:
    """Keys, "Cubic convolution interpolation for digital image processing", 1981."""
    near = (a + 2) * distance**3 - (a + 3) * distance**2 + 1
    far = a * distance**3 - 5 * a * distance**2 + 8 * a * distance - 4 * a
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0.0))


# -- whole numbers ---------------------------------------------------------------------------------


def _of_bytes(x: Expr, axes: Sequence[ResizedAxis], manner: Manner, build: Build) -> Expr:
    """The last axis first; halves are rounded up. Sums are exact: in f32 where weights and bytes
    have 24 bits together, else in f64.

    Source: aten/src/ATen/native/cpu/UpSampleKernel.cpp, separable interpolation of uint8.
    """
    y = x
    for axis in sorted(axes, key=lambda a: -a.axis):
        taps = _taps(_coordinates(axis, manner.coordinates, manner.kind), axis, manner)
        taps, bits = _in_fixed_point(taps)
        y = y.astype(np.float32 if bits <= MAX_FLOAT_BITS else np.float64)
        y = interpolate(y, axis.axis, taps, build)
        half = y.constant(0.5)
        y = (y + half).floor().clip(0.0, 255.0)
    return y.astype(x.dtype)


def _in_fixed_point(taps: Taps) -> tuple[Taps, int]:
    """Weights as multiples of the least power of two that leaves 15 bits for the largest, and its
    bits."""
    largest, bits = float(taps.weights.max(initial=0)), 0
    while bits < MAX_FRACTION_BITS and int(0.5 + largest * 2 ** (bits + 1)) < (1 << 15):
        bits += 1
    scaled = taps.weights * 2.0**bits
    return Taps(taps.positions, np.trunc(scaled + np.copysign(0.5, scaled)) / 2.0**bits), bits

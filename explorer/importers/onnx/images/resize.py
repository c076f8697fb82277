"""Resize and Upsample: nearest by gathers, linear and cubic by interpolation, axis by axis.

    Resize <mode = "linear">  2x2 -> 4x4     two taps for each of 4 rows, then of 4 columns

Reference: ONNX operators, Resize-19; coordinates are computed in single precision, as
onnxruntime does, so that ties fall to the same side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from xdsl.ir import SSAValue

from explorer.importers.building.build import Undecided
from explorer.importers.building.limits import check_size
from explorer.importers.onnx.images.computed_resize import ComputedManner, resize_by_data
from explorer.importers.onnx.images.interpolation import interpolate
from explorer.importers.onnx.program.build import Build
from explorer.importers.onnx.program.nodes import Node, Unsupported, converts
from explorer.ir.top.support.taps import Taps

_FLOAT = np.float32
_CROPPING = "tf_crop_and_resize"


@dataclass(frozen=True)
class _Axis:
    """One resized axis: `scale` is what was asked for, not always target / size."""

    axis: int
    size: int
    target: int
    scale: float
    region: tuple[float, float] = (0.0, 1.0)
    """Where a crop begins and ends, 0 and 1 being the ends of the axis."""


@dataclass(frozen=True, kw_only=True)
class _Manner:
    """How elements between those of the operand are found."""

    mode: str
    coordinates: str
    nearest: str
    antialias: bool = False
    cubic_coefficient: float = -0.75
    exclude_outside: bool = False
    extrapolation: float = 0.0


@dataclass(frozen=True)
class _Request:
    """What the result should be: `scales` or `sizes` of all axes (or both, if one scale gave all
    sizes), and the region of each."""

    scales: Sequence[float] | None
    sizes: Sequence[float] | None
    regions: Sequence[tuple[float, float]] = field(default=())


@converts("Upsample", until=6)
def upsample_height_and_width(node: Node, build: Build) -> SSAValue:
    scales = [1.0, 1.0, node.number("height_scale"), node.number("width_scale")]
    return _resize(node.operand(0), _Request(scales, None), _legacy(node), build)


@converts("Upsample", since=7, until=8)
def upsample_by_attribute(node: Node, build: Build) -> SSAValue:
    request = _Request(node.numbers("scales"), None)
    return _resize(node.operand(0), request, _legacy(node), build)


@converts("Upsample", "Resize", since=9, until=10)
def upsample(node: Node, build: Build) -> SSAValue:
    x, scales = node.operand(0), build.knowledge.needed(node.operand(1))
    if scales is None:
        return _by_data(x, node.operand(1), True, range(build.rank(x)), _legacy(node), build)
    return _resize(x, _Request(scales.tolist(), None), _legacy(node), build)


@converts("Resize", since=11)
def resize(node: Node, build: Build) -> SSAValue:
    """Either scales or sizes are given, for all axes or for `axes`."""
    x = node.operand(0)
    rank = build.rank(x)
    axes = [build.axis(a, rank) for a in node.integers("axes") or range(rank)]
    manner = _Manner(
        mode=node.text("mode", "nearest"),
        coordinates=node.text("coordinate_transformation_mode", "half_pixel"),
        nearest=node.text("nearest_mode", "round_prefer_floor"),
        antialias=bool(node.integer("antialias", 0)),
        cubic_coefficient=node.number("cubic_coeff_a", -0.75),
        exclude_outside=bool(node.integer("exclude_outside", 0)),
        extrapolation=node.number("extrapolation_value", 0.0),
    )
    asked = [node.optional(index) for index in (2, 3)]
    for operand in asked:
        if operand is not None and build.knowledge.needed(operand) is None:
            if node.text("keep_aspect_ratio_policy", "stretch") != "stretch":
                raise Undecided("sizes in proportion to each other, which the inputs decide")
            return _by_data(x, operand, operand is asked[0], axes, manner, build)
    scales, sizes = (_numbers(operand, build) for operand in asked)
    regions = [(0.0, 1.0)] * rank
    if manner.coordinates == _CROPPING:
        bounds = build.known(node.operand(1), "the region of a crop").tolist()
        for position, axis in enumerate(axes):
            regions[axis] = bounds[position], bounds[len(axes) + position]
    if sizes is not None:
        own = build.sizes(x, axes, "a resize to sizes")
        policy = node.text("keep_aspect_ratio_policy", "stretch")
        sizes, scale = _keeping_ratio(policy, sizes, own)
        scales = None if scale is None else _spread([scale] * len(axes), axes, [1.0] * rank)
        known = [build.size(x, axis) for axis in range(rank)]
        spread: list[float] = [-1 if size is None else size for size in known]
        sizes = _spread(sizes, axes, spread)
    elif scales is not None:
        scales = _spread(scales, axes, [1.0] * rank)
    return _resize(x, _Request(scales, sizes, regions), manner, build)


def _by_data(
    x: SSAValue,
    vector: SSAValue,
    is_scales: bool,
    axes: Sequence[int],
    manner: _Manner,
    build: Build,
) -> SSAValue:
    """`vector`: scales or sizes of the axes, which the inputs decide."""
    if manner.antialias:
        raise Undecided("antialias of a size that the inputs decide")
    computed = ComputedManner(
        manner.mode,
        manner.coordinates,
        manner.nearest,
        manner.cubic_coefficient,
        manner.exclude_outside,
    )
    return resize_by_data(x, vector, is_scales, axes, computed, build)


def _legacy(node: Node) -> _Manner:
    """Before opset 11: coordinates by the scale alone."""
    return _Manner(mode=node.text("mode", "nearest"), coordinates="asymmetric", nearest="simple")


def _numbers(operand: SSAValue | None, build: Build) -> list[float] | None:
    """Contents of the operand; None where it is left out, which an empty one also means."""
    if operand is None or build.shape(operand) == (0,):
        return None
    return [float(n) for n in build.known(operand, "the size of the result")]


def _keeping_ratio(
    policy: str, sizes: list[float], own: Sequence[int]
) -> tuple[list[float], float | None]:
    """Sizes with one scale for all axes, and that scale: the smallest, so that nothing is larger
    than asked for, or the greatest."""
    if policy == "stretch":
        return sizes, None
    if policy not in ("not_larger", "not_smaller"):
        raise Unsupported(f"keep_aspect_ratio_policy {policy!r}")
    scales = [size / n for size, n in zip(sizes, own, strict=True)]
    scale = min(scales) if policy == "not_larger" else max(scales)
    # Halves are rounded up.
    return [float(np.floor(scale * n + 0.5)) for n in own], scale


def _spread(numbers: Sequence[float], axes: Sequence[int], others: list[float]) -> list[float]:
    result = list(others)
    for axis, number in zip(axes, numbers, strict=True):
        result[axis] = number
    return result


def _resize(x: SSAValue, request: _Request, manner: _Manner, build: Build) -> SSAValue:
    for axis in sorted(_resized_axes(x, request, manner, build), key=_turn):
        places = _coordinates(axis, manner.coordinates)
        if manner.mode == "nearest":
            x = build.gather(x, _nearest(places, axis, manner.nearest), axis.axis)
        elif manner.mode in ("linear", "bilinear", "cubic"):
            x = _interpolated(x, axis.axis, _taps(places, axis, manner), build)
        else:
            raise Unsupported(f"mode {manner.mode!r}")
        if manner.coordinates == _CROPPING:
            outside = (places < 0) | (places > axis.size - 1)
            if outside.any():
                shape = [-1 if a == axis.axis else 1 for a in range(build.rank(x))]
                mask = build.weight(outside.reshape(shape))
                x = build.select(mask, build.scalar_like(manner.extrapolation, x), x)
    return x


def _turn(axis: _Axis) -> tuple[float, int]:
    """What grows least comes first. Of axes that grow alike the last one, whose elements are read
    one by one, while there are few; of those that shrink alike it comes behind the others."""
    growth = axis.target / axis.size
    return growth, -axis.axis if growth > 1 else axis.axis


def _resized_axes(x: SSAValue, request: _Request, manner: _Manner, build: Build) -> list[_Axis]:
    """The axes that change; symbolic ones must keep their size."""
    scales, sizes = request.scales, request.sizes
    given = sizes if sizes is not None else scales
    if given is None:
        raise ValueError("neither scales nor sizes")
    if len(given) != build.rank(x):
        raise ValueError(f"{len(given)} numbers for {build.rank(x)} dimensions")
    axes = []
    for axis, number in enumerate(given):
        region = request.regions[axis] if request.regions else (0.0, 1.0)
        is_cropped = manner.coordinates == _CROPPING and region != (0.0, 1.0)
        if not is_cropped and number == (1.0 if sizes is None else -1):
            continue
        (size,) = build.sizes(x, [axis], "a resize")
        target = int(number) if sizes is not None else int(np.floor(_FLOAT(size) * _FLOAT(number)))
        if target < 1:
            raise ValueError(f"axis {axis} would have {target} elements")
        reached = 4 / min(target / size, 1.0) if manner.antialias else 4  # taps of a cubic
        check_size([target, int(reached) + 1], 16, "a resize")
        scale = target / size if scales is None else scales[axis]
        if target != size or scale != 1.0 or is_cropped:
            axes.append(_Axis(axis, size, target, scale, region))
    return axes


def _coordinates(axis: _Axis, mode: str) -> np.ndarray:
    """Where each element of the result lies in the operand, in elements."""
    target = np.arange(axis.target, dtype=_FLOAT)
    half, scale = _FLOAT(0.5), _FLOAT(axis.scale)
    if mode == "half_pixel" or (mode == "pytorch_half_pixel" and axis.target > 1):
        return (target + half) / scale - half
    if mode == "pytorch_half_pixel":
        return np.zeros(1, _FLOAT)
    if mode == "asymmetric":
        return target / scale
    if mode == "align_corners":
        if axis.target == 1:
            return np.zeros(1, _FLOAT)
        return target * _FLOAT(axis.size - 1) / _FLOAT(axis.target - 1)
    if mode == "half_pixel_symmetric":
        adjusted = _FLOAT(axis.target) / (scale * _FLOAT(axis.size))
        center = _FLOAT(axis.size) / 2
        return center * (1 - adjusted) + (target + half) / scale - half
    if mode == "tf_half_pixel_for_nn":
        return (target + half) / scale
    if mode == _CROPPING:
        begin, end = (_FLOAT(number) for number in axis.region)
        last = _FLOAT(axis.size - 1)
        if axis.target == 1:
            return np.array([half * (begin + end) * last], _FLOAT)
        return begin * last + target * (end - begin) * last / _FLOAT(axis.target - 1)
    raise Unsupported(f"coordinate_transformation_mode {mode!r}")


def _nearest(places: np.ndarray, axis: _Axis, mode: str) -> np.ndarray:
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


def _taps(places: np.ndarray, axis: _Axis, manner: _Manner) -> Taps:
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


def _weighted(places: np.ndarray, axis: _Axis, reach: int, shrink: float, manner: _Manner) -> Taps:
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


def _interpolated(x: SSAValue, axis: int, taps: Taps, build: Build) -> SSAValue:
    """Whole numbers are interpolated in single precision and truncated."""
    wide = x if build.is_float(x) else build.cast(x, np.float32)
    result = interpolate(wide, axis, taps, build)
    return result if wide is x else build.cast(result, build.dtype(x))

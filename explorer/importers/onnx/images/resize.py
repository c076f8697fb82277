"""Resize and Upsample: nearest by gathers, linear and cubic by interpolation, axis by axis.

    Resize <mode = "linear">  2x2 -> 4x4     two taps for each of 4 rows, then of 4 columns

Reference: ONNX operators, Resize-19; coordinates are computed in single precision, as
onnxruntime does, so that ties fall to the same side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from explorer.importers.building.build import Undecided
from explorer.importers.building.expr import Expr
from explorer.importers.building.images.computed_resize import ComputedManner, resize_by_data
from explorer.importers.building.images.resizing import (
    CROPPING,
    Manner,
    ResizedAxis,
    resized,
)
from explorer.importers.building.limits import check_size
from explorer.importers.onnx.program.build import Build
from explorer.importers.onnx.program.nodes import Node, Unsupported, converts

_FLOAT = np.float32


@dataclass(frozen=True)
class _Request:
    """What the result should be: `scales` or `sizes` of all axes (or both, if one scale gave all
    sizes), and the region of each."""

    scales: Sequence[float] | None
    sizes: Sequence[float] | None
    regions: Sequence[tuple[float, float]] = field(default=())


@converts("Upsample", until=6)
def upsample_height_and_width(node: Node, build: Build) -> Expr:
    scales = [1.0, 1.0, node.number("height_scale"), node.number("width_scale")]
    return _resize(node.operand(0), _Request(scales, None), _legacy(node), build)


@converts("Upsample", since=7, until=8)
def upsample_by_attribute(node: Node, build: Build) -> Expr:
    request = _Request(node.numbers("scales"), None)
    return _resize(node.operand(0), request, _legacy(node), build)


@converts("Upsample", "Resize", since=9, until=10)
def upsample(node: Node, build: Build) -> Expr:
    x, scales = node.operand(0), build.knowledge.needed(node.operand(1))
    if scales is None:
        return _by_data(x, node.operand(1), True, range(x.rank), _legacy(node), build)
    return _resize(x, _Request(scales.tolist(), None), _legacy(node), build)


@converts("Resize", since=11)
def resize(node: Node, build: Build) -> Expr:
    """Either scales or sizes are given, for all axes or for `axes`."""
    x = node.operand(0)
    rank = x.rank
    axes = [build.axis(a, rank) for a in node.integers("axes") or range(rank)]
    manner = Manner(
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
    if manner.coordinates == CROPPING:
        bounds = build.known(node.operand(1), "the region of a crop").tolist()
        for position, axis in enumerate(axes):
            regions[axis] = bounds[position], bounds[len(axes) + position]
    if sizes is not None:
        own = x.sizes(axes, "a resize to sizes")
        policy = node.text("keep_aspect_ratio_policy", "stretch")
        sizes, scale = _keeping_ratio(policy, sizes, own)
        scales = None if scale is None else _spread([scale] * len(axes), axes, [1.0] * rank)
        known = [x.size(axis) for axis in range(rank)]
        spread: list[float] = [-1 if size is None else size for size in known]
        sizes = _spread(sizes, axes, spread)
    elif scales is not None:
        scales = _spread(scales, axes, [1.0] * rank)
    return _resize(x, _Request(scales, sizes, regions), manner, build)


def _by_data(
    x: Expr,
    vector: Expr,
    is_scales: bool,
    axes: Sequence[int],
    manner: Manner,
    build: Build,
) -> Expr:
    """`vector`: scales or sizes of the axes, which the inputs decide."""
    _require_numbers(x, manner)
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


def _legacy(node: Node) -> Manner:
    """Before opset 11: coordinates by the scale alone."""
    return Manner(mode=node.text("mode", "nearest"), coordinates="asymmetric", nearest="simple")


def _numbers(operand: Expr | None, build: Build) -> list[float] | None:
    """Contents of the operand; None where it is left out, which an empty one also means."""
    if operand is None or operand.shape == (0,):
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


def _require_numbers(x: Expr, manner: Manner) -> None:
    if x.is_boolean and manner.mode != "nearest":
        raise Unsupported(f"mode {manner.mode!r} of elements of type bool")


def _resize(x: Expr, request: _Request, manner: Manner, build: Build) -> Expr:
    _require_numbers(x, manner)
    open_axes = _open_axes(x, request)
    if open_axes and manner.coordinates != CROPPING and not manner.antialias:
        scales = request.scales if request.sizes is None else None
        given = scales or request.sizes or ()
        kind = np.int64 if scales is None else np.float32
        vector = build.weight(np.array([given[axis] for axis in open_axes], kind))
        x = _by_data(x, vector, scales is not None, open_axes, manner, build)
        done = [1.0 if scales is not None else -1.0] * x.rank
        rest = [done[a] if a in open_axes else n for a, n in enumerate(given)]
        request = _Request(*((rest, None) if scales is not None else (None, rest)))
    axes = _resized_axes(x, request, manner, build)
    if all(axis.target for axis in axes):
        return resized(x, axes, manner, build)
    shape = x.sizes(range(x.rank), "a resize to nothing")
    for axis in axes:
        shape[axis.axis] = axis.target
    return build.weight(np.zeros(shape, x.dtype))


def _open_axes(x: Expr, request: _Request) -> list[int]:
    """Axes of which only a name is known, and that change."""
    sizes = request.sizes is not None
    given = request.sizes if sizes else request.scales
    same = -1 if sizes else 1.0
    return [a for a, n in enumerate(given or ()) if n != same and x.size(a) is None]


def _resized_axes(x: Expr, request: _Request, manner: Manner, build: Build) -> list[ResizedAxis]:
    """The axes that change; symbolic ones must keep their size."""
    scales, sizes = request.scales, request.sizes
    given = sizes if sizes is not None else scales
    if given is None:
        raise ValueError("neither scales nor sizes")
    if len(given) != x.rank:
        raise ValueError(f"{len(given)} numbers for {x.rank} dimensions")
    axes = []
    for axis, number in enumerate(given):
        region = request.regions[axis] if request.regions else (0.0, 1.0)
        is_cropped = manner.coordinates == CROPPING and region != (0.0, 1.0)
        if not is_cropped and number == (1.0 if sizes is None else -1):
            continue
        (size,) = x.sizes([axis], "a resize")
        target = int(number) if sizes is not None else int(np.floor(_FLOAT(size) * _FLOAT(number)))
        if target < 0 or target > size == 0:
            raise ValueError(f"axis {axis} of {size} elements would have {target}")
        if target == 0:
            axes.append(ResizedAxis(axis, size, 0, 1.0, region))
            continue
        reached = 4 / min(target / size, 1.0) if manner.antialias else 4  # taps of a cubic
        check_size([target, int(reached) + 1], 16, "a resize")
        scale = target / size if scales is None else scales[axis]
        if target != size or scale != 1.0 or is_cropped:
            axes.append(ResizedAxis(axis, size, target, scale, region))
    return axes

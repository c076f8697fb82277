"""Resize and Upsample: nearest by gathers, linear and cubic by matrix products, axis by axis.

    Resize <mode = "linear">  2x2 -> 4x4     y = R x C     R: 4x2, C: 2x4 constants

Reference: ONNX operators, Resize-19; coordinates are computed in single precision, as
onnxruntime does, so that ties fall to the same side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.ir import SSAValue

from explorer.importers.onnx.build import Build
from explorer.importers.onnx.nodes import Node, Unsupported, converts

_FLOAT = np.float32


@dataclass(frozen=True)
class _Axis:
    """One resized axis: `scale` is what was asked for, not always target / size."""

    axis: int
    size: int
    target: int
    scale: float


@converts("Upsample", since=7, until=8)
def upsample_by_attribute(node: Node, build: Build) -> SSAValue:
    return _resize(node, node.numbers("scales"), None, "asymmetric", "simple", build)


@converts("Upsample", "Resize", since=9, until=10)
def upsample(node: Node, build: Build) -> SSAValue:
    scales = build.known(node.operand(1), "the scales").tolist()
    return _resize(node, scales, None, "asymmetric", "simple", build)


@converts("Resize", since=11)
def resize(node: Node, build: Build) -> SSAValue:
    """Either scales or sizes are given, for all axes or for `axes`."""
    rank = build.rank(node.operand(0))
    scales, sizes = (_numbers(node.optional(index), build) for index in (2, 3))
    if node.integer("antialias", 0):
        raise Unsupported("antialias")
    if node.text("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise Unsupported("keep_aspect_ratio_policy")
    axes = node.integers("axes")
    if axes is not None:
        scales = None if scales is None else _spread(scales, axes, [1.0] * rank, build)
        if sizes is not None:
            whole = build.sizes(node.operand(0), range(rank), "a resize of some axes")
            sizes = _spread(sizes, axes, [float(s) for s in whole], build)
    coordinates = node.text("coordinate_transformation_mode", "half_pixel")
    nearest = node.text("nearest_mode", "round_prefer_floor")
    return _resize(node, scales, sizes, coordinates, nearest, build)


def _numbers(operand: SSAValue | None, build: Build) -> list[float] | None:
    """Contents of the operand; None where it is left out, which an empty one also means."""
    if operand is None or build.shape(operand) == (0,):
        return None
    return [float(n) for n in build.known(operand, "the size of the result")]


def _spread(
    numbers: Sequence[float], axes: Sequence[int], others: list[float], build: Build
) -> list[float]:
    result = list(others)
    for axis, number in zip(axes, numbers, strict=True):
        result[build.axis(axis, len(result))] = number
    return result


def _resize(
    node: Node,
    scales: Sequence[float] | None,
    sizes: Sequence[float] | None,
    coordinates: str,
    nearest: str,
    build: Build,
) -> SSAValue:
    x = node.operand(0)
    mode = node.text("mode", "nearest")
    for axis in _resized_axes(x, scales, sizes, build):
        places = _coordinates(axis, coordinates)
        if mode == "nearest":
            x = build.gather(x, _nearest(places, axis, nearest), axis.axis)
            continue
        if mode in ("linear", "bilinear"):
            matrix = _linear(places, axis)
        elif mode == "cubic":
            is_inside_only = bool(node.integer("exclude_outside", 0))
            matrix = _cubic(places, axis, node.number("cubic_coeff_a", -0.75), is_inside_only)
        else:
            raise Unsupported(f"mode {mode!r}")
        x = _interpolated(x, axis.axis, matrix.astype(build.dtype(x)), build)
    return x


def _resized_axes(
    x: SSAValue, scales: Sequence[float] | None, sizes: Sequence[float] | None, build: Build
) -> list[_Axis]:
    """The axes that change; symbolic ones must keep their size."""
    given = sizes if sizes is not None else scales
    if given is None:
        raise ValueError("neither scales nor sizes")
    if len(given) != build.rank(x):
        raise ValueError(f"{len(given)} numbers for {build.rank(x)} dimensions")
    axes = []
    for axis, number in enumerate(given):
        if sizes is None and number == 1.0:
            continue
        (size,) = build.sizes(x, [axis], "a resize")
        target = int(number) if sizes is not None else int(np.floor(_FLOAT(size) * _FLOAT(number)))
        if target < 1:
            raise ValueError(f"axis {axis} would have {target} elements")
        scale = target / size if sizes is not None else number
        if target != size or scale != 1.0:
            axes.append(_Axis(axis, size, target, scale))
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


def _linear(places: np.ndarray, axis: _Axis) -> np.ndarray:
    """Weights (target, size): two neighbours each; beyond the border is the border."""
    inside = np.clip(places, 0, axis.size - 1)
    left = np.floor(inside).astype(np.int64)
    right = np.minimum(left + 1, axis.size - 1)
    matrix = np.zeros((axis.target, axis.size), np.float64)
    rows = np.arange(axis.target)
    matrix[rows, left] = 1 - (inside - left)
    matrix[rows, right] += inside - left
    return matrix


def _cubic(places: np.ndarray, axis: _Axis, a: float, is_inside_only: bool) -> np.ndarray:
    """Weights (target, size) of four neighbours each: Keys, 1981."""
    base = np.floor(places).astype(np.int64)
    matrix = np.zeros((axis.target, axis.size), np.float64)
    rows = np.arange(axis.target)
    for offset in (-1, 0, 1, 2):
        distance = np.abs(places - (base + offset)).astype(np.float64)
        near = (a + 2) * distance**3 - (a + 3) * distance**2 + 1
        far = a * distance**3 - 5 * a * distance**2 + 8 * a * distance - 4 * a
        weight = np.where(distance <= 1, near, np.where(distance < 2, far, 0.0))
        position = base + offset
        if is_inside_only:
            weight = np.where((position >= 0) & (position < axis.size), weight, 0.0)
        np.add.at(matrix, (rows, np.clip(position, 0, axis.size - 1)), weight)
    return matrix / matrix.sum(axis=1, keepdims=True) if is_inside_only else matrix


def _interpolated(x: SSAValue, axis: int, matrix: np.ndarray, build: Build) -> SSAValue:
    """The axis multiplied by the matrix (target, size)."""
    rank = build.rank(x)
    if axis == rank - 1 and rank > 1:
        return build.matmul(x, build.weight(np.ascontiguousarray(matrix.T)))
    if axis == rank - 2:
        return build.matmul(build.weight(matrix), x)
    if rank == 1:
        column = build.matmul(build.weight(matrix), build.unsqueeze(x, [1]))
        return build.squeeze(column, [1])
    order = [*(a for a in range(rank) if a != axis), axis]
    moved = build.transpose(x, order)
    result = build.matmul(moved, build.weight(np.ascontiguousarray(matrix.T)))
    return build.transpose(result, [order.index(a) for a in range(rank)])

"""Images at computed places: AffineGrid, GridSample, RoiAlign, DeformConv."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from explorer.importers.building.expr import Expr, maximum, where
from explorer.importers.building.images.deforming import Places, deformed
from explorer.importers.building.images.sampling import masked, sampled, tap_values, taps_of
from explorer.importers.building.limits import check_size
from explorer.importers.onnx.operators.windows import window_of
from explorer.importers.onnx.program.build import Build
from explorer.importers.onnx.program.nodes import Node, Unsupported, converts
from explorer.ir.top.indexing import GatherOp

_MODES = {"bilinear": "linear", "bicubic": "cubic"}
"""Names before opset 20."""


@converts("AffineGrid", since=20)
def affine_grid(node: Node, build: Build) -> Expr:
    """theta: (N, axes, axes + 1), a map from where pixels of the result are to where they are read.

    The places (last axis first, then 1) are a constant; their product with theta is the grid
    (N, spatial..., axes). ONNX's own function fails for a batch of one.
    """
    theta = node.operand(0)
    batch, _, *spatial = build.integers(node.operand(1), "the sizes of a grid")
    align = bool(node.integer("align_corners", 0))
    axes = len(spatial)
    if axes not in (2, 3):
        raise ValueError(f"a grid of {axes} axes; 2 or 3 expected")
    centers = np.meshgrid(*(_centers(size, align) for size in spatial), indexing="ij")
    places = np.stack([*reversed(centers), np.ones(spatial)], -1).reshape(-1, axes + 1)
    points = build.weight(places.astype(theta.dtype))
    return (points @ theta.transpose([0, 2, 1])).reshape([batch, *spatial, axes])


def _centers(size: int, align: bool) -> np.ndarray:
    """Where the pixels of an axis lie between -1 and 1: from corner to corner, or inside them."""
    numbers = np.arange(size, dtype=np.float64)
    if align:
        return -1 + 2 * numbers / max(size - 1, 1)
    return (2 * numbers + 1) / size - 1


@converts("GridSample", since=16)
def grid_sample(node: Node, build: Build) -> Expr:
    """x: (N, C, spatial...), grid: (N, points..., axes), whose numbers reach from -1 to 1.

    The grid names the last axis first.
    """
    x, grid = node.operand(0), node.operand(1).wide()
    dtype = x.dtype
    if dtype.kind == "b":
        raise Unsupported("elements of type bool")
    if x.is_float:
        x, grid = build.of_one_float([x.wide(), grid])
    rank = x.rank - 2
    mode = node.text("mode", "bilinear" if node.opset < 20 else "linear")
    border, align = node.text("padding_mode", "zeros"), bool(node.integer("align_corners", 0))
    known = x.sizes(range(2, 2 + rank), "GridSample")
    if 0 in known:  # an image without pixels has nothing but what lies outside
        spatial = [grid.dim(1 + axis) for axis in range(rank)]
        return x.constant(0).astype(dtype).broadcast_to([x.dim(0), x.dim(1), *spatial])
    points = grid.reshape([grid.dim(0), -1, rank])
    taps = []
    for axis, size in enumerate(known):
        number = rank - 1 - axis
        place = points.slice(2, number, number + 1).squeeze([2])
        taps.append(
            taps_of(
                _pixels(place, size, align),
                size,
                _MODES.get(mode, mode),
                border,
                align,
                build,
            )
        )
    result = sampled(x, taps, build)
    spatial = [grid.dim(1 + axis) for axis in range(rank)]
    return result.reshape([x.dim(0), x.dim(1), *spatial]).astype(dtype)


def _pixels(place: Expr, size: int, align_corners: bool) -> Expr:
    """From -1 ... 1 to pixels: the ends are the outermost pixels' centers, or their edges."""
    shifted = place + 1
    if align_corners:
        return shifted * ((size - 1) / 2)
    return shifted * (size / 2) - 0.5


# -- regions of interest -------------------------------------------------------------------------


@converts("RoiAlign", since=10)
def roi_align(node: Node, build: Build) -> Expr:
    """(N, C, H, W), regions (R, 4) as x1 y1 x2 y2, their images (R)  ->  (R, C, height, width).

    Every region is divided into bins, and each bin is the mean (or the greatest) of points that
    lie evenly in it. He et al., "Mask R-CNN", 2017.
    """
    x, rois, images = (node.operand(index) for index in range(3))
    dtype = x.dtype
    x, rois = x.wide(), rois.wide()
    sizes = x.sizes([2, 3], "RoiAlign")
    bins = node.integer("output_height", 1), node.integer("output_width", 1)
    default = "half_pixel" if node.opset >= 16 else "output_half_pixel"
    is_aligned = node.text("coordinate_transformation_mode", default) == "half_pixel"
    scale, ratio = node.number("spatial_scale", 1.0), node.integer("sampling_ratio", 0)
    if ratio > 0:
        check_size([bins[0] * ratio, bins[1] * ratio], 8, "the points of a region", node.name)
    points, shares, counts = [], [], []
    for axis in range(2):
        begin, end = (_column(rois, column, scale) for column in (1 - axis, 3 - axis))
        if is_aligned:
            begin, end = (v - 0.5 for v in (begin, end))
        extent = end - begin
        if not is_aligned:
            extent = maximum(extent, 1)
        step = extent / bins[axis]
        number = step.ceil() if ratio <= 0 else step.constant(ratio)
        count = ratio if ratio > 0 else _most(number, build)
        check_size([bins[axis], count], 8, "the points of a region", node.name)
        positions, share = _samples(begin, step, number, bins[axis], count, build)
        points.append(positions)
        shares.append(share)
        counts.append(count)
    rows, columns = (size * count for size, count in zip(bins, counts, strict=True))
    pooled = rois.dim(0), rows, columns
    rows_of = points[0].unsqueeze([2]).broadcast_to(pooled)
    columns_of = points[1].unsqueeze([1]).broadcast_to(pooled)
    taps = []
    for places, size in zip((rows_of, columns_of), sizes, strict=True):
        flat = places.reshape([rois.dim(0), rows * columns])
        tap = taps_of(flat, size, "linear", "border", False, build)
        taps.append(masked(tap, flat, -1.0, float(size)))
    own = build.value(GatherOp, [x, images.astype(np.int64)], axis=0)
    values, weights = tap_values(own, taps, build)
    mode = node.text("mode", "avg")
    if mode == "avg":
        mixed = (weights.unsqueeze([2]) @ values).squeeze([2])
    elif mode == "max":
        mixed = (values * weights.unsqueeze([3])).max([2])
    else:
        raise Unsupported(f"mode {mode!r}")
    split = mixed.reshape([rois.dim(0), bins[0], counts[0], bins[1], counts[1], mixed.dim(2)])
    return _pooled(split, shares, mode).astype(dtype)


def _column(rois: Expr, column: int, scale: float) -> Expr:
    return rois.slice(1, column, column + 1).scaled(scale)


def _most(number: Expr, build: Build) -> int:
    """The largest number of points per bin, where it is not given but follows from the regions."""
    counts = build.known(number, "sampling_ratio = 0: the number of points in a bin")
    return max(int(counts.max(initial=1)), 1)


def _samples(
    begin: Expr, step: Expr, number: Expr, bins: int, count: int, build: Build
) -> tuple[Expr, Expr]:
    """Positions (R, bins * count) of points, and the share (R, count) of each in its bin's mean.

    begin, step: (R, 1), where the first bin begins and how long a bin is. Of `count` points a
    region uses only as many as its own number.
    """
    dtype = step.dtype
    point = build.weight((np.arange(count) + 0.5).astype(dtype))
    divisor = maximum(number, 1)
    inner = point * step / divisor
    outer = build.weight(np.arange(bins).astype(dtype)) * step
    # Added in onnxruntime's order: a point on the very edge of the image must fall to its side.
    begins = (begin + outer).unsqueeze([2])
    shifted = begins + inner.unsqueeze([1])
    is_used = (point < number).astype(dtype)
    share = is_used / divisor
    used = share.broadcast_to([begin.dim(0), count])
    return shifted.reshape([begin.dim(0), bins * count]), used


def _pooled(points: Expr, shares: Sequence[Expr], mode: str) -> Expr:
    """points: (R, height, rows per bin, width, columns per bin, C)  ->  (R, C, height, width)."""
    rows = shares[0].unsqueeze([1, 3, 4, 5])
    columns = shares[1].unsqueeze([1, 2, 3, 5])
    share = rows * columns
    if mode == "avg":
        result = (points * share).sum([2, 4])
    else:
        is_used = share > 0
        lowest = points.constant(-np.inf)
        result = where(is_used, points, lowest).max([2, 4])
    return result.transpose([0, 3, 1, 2])


# -- deformable convolution ----------------------------------------------------------------------


@converts("DeformConv", since=19)
def deformable_convolution(node: Node, build: Build) -> Expr:
    """A convolution whose window's places are moved by computed offsets."""
    x, weight, offset = (node.operand(index) for index in range(3))
    window = window_of(node, x, weight.sizes(range(2, weight.rank), "DeformConv"))
    return deformed(
        x,
        weight,
        offset,
        node.optional(4),
        node.optional(3),
        Places(window.sizes, window.strides, window.dilations, window.begins),
        (node.integer("group", 1), node.integer("offset_group", 1)),
        build,
    )

"""Images at computed places: AffineGrid, GridSample, RoiAlign, DeformConv."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from explorer.importers.building.expr import Expr
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
    points = build.weight(places.astype(build.dtype(theta)))
    mapped = build.matmul(points, build.transpose(theta, [0, 2, 1]))
    return build.reshape(mapped, [batch, *spatial, axes])


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
    x, grid = node.operand(0), build.wide(node.operand(1))
    dtype = build.dtype(x)
    if dtype.kind == "b":
        raise Unsupported("elements of type bool")
    if build.is_float(x):
        x, grid = build.of_one_float([build.wide(x), grid])
    rank = build.rank(x) - 2
    mode = node.text("mode", "bilinear" if node.opset < 20 else "linear")
    border, align = node.text("padding_mode", "zeros"), bool(node.integer("align_corners", 0))
    known = build.sizes(x, range(2, 2 + rank), "GridSample")
    points = build.reshape(grid, [grid.dim(0), -1, rank])
    taps = []
    for axis, size in enumerate(known):
        number = rank - 1 - axis
        place = build.squeeze(build.slice(points, 2, number, number + 1), [2])
        taps.append(
            taps_of(
                _pixels(place, size, align, build),
                size,
                _MODES.get(mode, mode),
                border,
                align,
                build,
            )
        )
    result = sampled(x, taps, build)
    spatial = [grid.dim(1 + axis) for axis in range(rank)]
    return build.cast(build.reshape(result, [x.dim(0), x.dim(1), *spatial]), dtype)


def _pixels(place: Expr, size: int, align_corners: bool, build: Build) -> Expr:
    """From -1 ... 1 to pixels: the ends are the outermost pixels' centers, or their edges."""
    shifted = build.binary("add", place, build.scalar_like(1, place))
    if align_corners:
        return build.binary("mul", shifted, build.scalar_like((size - 1) / 2, place))
    scaled = build.binary("mul", shifted, build.scalar_like(size / 2, place))
    return build.binary("sub", scaled, build.scalar_like(0.5, place))


# -- regions of interest -------------------------------------------------------------------------


@converts("RoiAlign", since=10)
def roi_align(node: Node, build: Build) -> Expr:
    """(N, C, H, W), regions (R, 4) as x1 y1 x2 y2, their images (R)  ->  (R, C, height, width).

    Every region is divided into bins, and each bin is the mean (or the greatest) of points that
    lie evenly in it. He et al., "Mask R-CNN", 2017.
    """
    x, rois, images = (node.operand(index) for index in range(3))
    dtype = build.dtype(x)
    x, rois = build.wide(x), build.wide(rois)
    sizes = build.sizes(x, [2, 3], "RoiAlign")
    bins = node.integer("output_height", 1), node.integer("output_width", 1)
    default = "half_pixel" if node.opset >= 16 else "output_half_pixel"
    is_aligned = node.text("coordinate_transformation_mode", default) == "half_pixel"
    scale, ratio = node.number("spatial_scale", 1.0), node.integer("sampling_ratio", 0)
    if ratio > 0:
        check_size([bins[0] * ratio, bins[1] * ratio], 8, "the points of a region", node.name)
    points, shares, counts = [], [], []
    for axis in range(2):
        begin, end = (_column(rois, column, scale, build) for column in (1 - axis, 3 - axis))
        if is_aligned:
            begin, end = (build.binary("sub", v, build.scalar_like(0.5, v)) for v in (begin, end))
        extent = build.binary("sub", end, begin)
        if not is_aligned:
            extent = build.binary("max", extent, build.scalar_like(1, extent))
        step = build.binary("div", extent, build.scalar_like(bins[axis], extent))
        number = build.unary("ceil", step) if ratio <= 0 else build.scalar_like(ratio, step)
        count = ratio if ratio > 0 else _most(number, build)
        check_size([bins[axis], count], 8, "the points of a region", node.name)
        positions, share = _samples(begin, step, number, bins[axis], count, build)
        points.append(positions)
        shares.append(share)
        counts.append(count)
    rows, columns = (size * count for size, count in zip(bins, counts, strict=True))
    pooled = rois.dim(0), rows, columns
    rows_of = build.expand(build.unsqueeze(points[0], [2]), pooled)
    columns_of = build.expand(build.unsqueeze(points[1], [1]), pooled)
    taps = []
    for places, size in zip((rows_of, columns_of), sizes, strict=True):
        flat = build.reshape(places, [rois.dim(0), rows * columns])
        tap = taps_of(flat, size, "linear", "border", False, build)
        taps.append(masked(tap, flat, -1.0, float(size), build))
    own = build.value(GatherOp, [x, build.cast(images, np.int64)], axis=0)
    values, weights = tap_values(own, taps, build)
    mode = node.text("mode", "avg")
    if mode == "avg":
        mixed = build.squeeze(build.matmul(build.unsqueeze(weights, [2]), values), [2])
    elif mode == "max":
        mixed = build.reduce("max", build.binary("mul", values, build.unsqueeze(weights, [3])), [2])
    else:
        raise Unsupported(f"mode {mode!r}")
    split = build.reshape(
        mixed, [rois.dim(0), bins[0], counts[0], bins[1], counts[1], mixed.dim(2)]
    )
    return build.cast(_pooled(split, shares, mode, build), dtype)


def _column(rois: Expr, column: int, scale: float, build: Build) -> Expr:
    return build.scaled(build.slice(rois, 1, column, column + 1), scale)


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
    dtype = build.dtype(step)
    point = build.weight((np.arange(count) + 0.5).astype(dtype))
    divisor = build.binary("max", number, build.scalar_like(1, number))
    inner = build.binary("div", build.binary("mul", point, step), divisor)
    outer = build.binary("mul", build.weight(np.arange(bins).astype(dtype)), step)
    # Added in onnxruntime's order: a point on the very edge of the image must fall to its side.
    begins = build.unsqueeze(build.binary("add", begin, outer), [2])
    shifted = build.binary("add", begins, build.unsqueeze(inner, [1]))
    is_used = build.cast(build.binary("less", point, number), dtype)
    share = build.binary("div", is_used, divisor)
    used = build.expand(share, [begin.dim(0), count])
    return build.reshape(shifted, [begin.dim(0), bins * count]), used


def _pooled(points: Expr, shares: Sequence[Expr], mode: str, build: Build) -> Expr:
    """points: (R, height, rows per bin, width, columns per bin, C)  ->  (R, C, height, width)."""
    rows = build.unsqueeze(shares[0], [1, 3, 4, 5])
    columns = build.unsqueeze(shares[1], [1, 2, 3, 5])
    share = build.binary("mul", rows, columns)
    if mode == "avg":
        result = build.reduce("sum", build.binary("mul", points, share), [2, 4])
    else:
        is_used = build.binary("greater", share, build.scalar_like(0, share))
        lowest = build.scalar_like(-np.inf, points)
        result = build.reduce("max", build.select(is_used, points, lowest), [2, 4])
    return build.transpose(result, [0, 3, 1, 2])


# -- deformable convolution ----------------------------------------------------------------------


@converts("DeformConv", since=19)
def deformable_convolution(node: Node, build: Build) -> Expr:
    """A convolution whose window's places are moved by computed offsets."""
    x, weight, offset = (node.operand(index) for index in range(3))
    window = window_of(
        node, x, build.sizes(weight, range(2, build.rank(weight)), "DeformConv"), build
    )
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

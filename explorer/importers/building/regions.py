"""Pools of regions of an image, at places that a run computes: (R, 5) as image x1 y1 x2 y2.

MaxRoiPool, ROIPooling    the greatest of each bin      Girshick, "Fast R-CNN", 2015
PSROIPooling              its mean, in the bin's own channel      Dai et al., "R-FCN", 2016
"""

from __future__ import annotations

import numpy as np

from explorer.importers.building.build import Build
from explorer.importers.building.expr import Expr
from explorer.ir.top.indexing import GatherOp


def max_region_pool(
    x: Expr, regions: Expr, bins: tuple[int, int], scale: float, build: Build
) -> Expr:
    """(N, C, H, W), regions (R, 5)  ->  (R, C, height, width).

    Every region, in whole pixels with both its ends, is divided into bins that may share rows and
    columns; the greatest of each, 0 for a bin outside of the image. The greatest of a rectangle is
    that of its rows' columns.
    """
    result = images_of(x, regions, build)  # (R, C, H, W)
    lowest = build.scalar_like(-np.inf, x)
    # Where rows, and then columns, stand in (R, C, bins, H, W) and (R, C, height, bins, W).
    for axis, first, others in ((2, 2, [1, 4]), (3, 1, [1, 2])):
        begin, end = _max_bins(regions, first, bins[axis - 2], scale, build)  # (R, bins)
        inside = _inside(begin, end, build.sizes(x, [axis], "a pool of regions")[0], build)
        apart = build.unsqueeze(result, [axis])
        candidates = build.select(build.unsqueeze(inside, others), apart, lowest)
        result = build.reduce("max", candidates, [axis + 1])
    is_empty = build.binary("equal", result, lowest)
    return build.select(is_empty, build.scalar_like(0, x), result)


def mean_region_pool(
    x: Expr, regions: Expr, outputs: int, bins: int, scale: float, build: Build
) -> Expr:
    """(N, outputs * bins * bins, H, W), regions (R, 5)  ->  (R, outputs, bins, bins).

    Bin (i, j) of an output is the mean of channel (output, i, j) over the bin's pixels, 0 where it
    has none. A mean over a rectangle is a product with its rows and one with its columns.
    """
    height, width = build.sizes(x, [2, 3], "a pool of regions")
    images = images_of(x, regions, build)
    count = build.all_sizes(images)[0]
    apart = build.reshape(images, [count, outputs, bins, bins, height, width])
    rows, columns = (
        build.cast(
            _inside(*_mean_bins(regions, first, bins, scale, build), size, build), np.float32
        )
        for first, size in ((2, height), (1, width))
    )  # (R, bins, H), (R, bins, W)
    total = build.matmul(apart, build.unsqueeze(columns, [1, 2, 5]))  # (R, outputs, i, j, H, 1)
    total = build.matmul(build.unsqueeze(rows, [1, 3, 4]), total)  # (R, outputs, i, j, 1, 1)
    total = build.squeeze(total, [4, 5])
    numbers = [build.reduce("sum", part, [2]) for part in (rows, columns)]
    area = build.binary("mul", build.unsqueeze(numbers[0], [2]), build.unsqueeze(numbers[1], [1]))
    area = build.binary("max", area, build.scalar_like(1, area))
    return build.binary("div", total, build.unsqueeze(area, [1]))


def images_of(x: Expr, regions: Expr, build: Build) -> Expr:
    """For each region its image; the only one there is stays, for all of them."""
    if build.size(x, 0) == 1:
        return x
    numbers = build.cast(build.reshape(build.slice(regions, 1, 0, 1), [-1]), np.int64)
    return build.value(GatherOp, [x, numbers], axis=0)


def _inside(begin: Expr, end: Expr, size: int, build: Build) -> Expr:
    """Which pixels a bin has: (R, bins, size)."""
    pixels = build.weight(np.arange(size, dtype=build.dtype(begin)))
    behind = build.binary("less_equal", build.unsqueeze(begin, [2]), pixels)
    before = build.binary("less", pixels, build.unsqueeze(end, [2]))
    return build.binary("and", behind, before)


def _max_bins(
    regions: Expr, first: int, bins: int, scale: float, build: Build
) -> tuple[Expr, Expr]:
    """Begins and ends along an axis, in pixels: (R, bins). Columns `first` and two behind hold the
    region's ends."""
    ends = [
        _rounded(build.scaled(build.slice(regions, 1, at, at + 1), scale), build)
        for at in (first, first + 2)
    ]
    one = build.scalar_like(1, regions)
    length = build.binary("add", build.binary("sub", ends[1], ends[0]), one)
    step = build.binary("div", build.binary("max", length, one), build.scalar_like(bins, regions))
    begin, end = (
        build.unary(kind, build.binary("mul", step, numbers))
        for kind, numbers in zip(("floor", "ceil"), _numbers(bins, regions, build), strict=True)
    )
    return build.binary("add", begin, ends[0]), build.binary("add", end, ends[0])


def _mean_bins(
    regions: Expr, first: int, bins: int, scale: float, build: Build
) -> tuple[Expr, Expr]:
    """As `_max_bins`, of regions that are whole pixels of the picture before they are scaled."""
    begin, end = (_rounded(build.slice(regions, 1, at, at + 1), build) for at in (first, first + 2))
    end = build.binary("add", end, build.scalar_like(1, end))
    begin, end = build.scaled(begin, scale), build.scaled(end, scale)
    length = build.binary("max", build.binary("sub", end, begin), build.scalar_like(0.1, end))
    step = build.binary("div", length, build.scalar_like(bins, regions))
    found = [
        build.unary(kind, build.binary("add", build.binary("mul", step, numbers), begin))
        for kind, numbers in zip(("floor", "ceil"), _numbers(bins, regions, build), strict=True)
    ]
    return found[0], found[1]


def _numbers(bins: int, regions: Expr, build: Build) -> tuple[Expr, Expr]:
    numbers = np.arange(bins + 1, dtype=build.dtype(regions))
    return build.weight(numbers[:-1]), build.weight(numbers[1:])


def _rounded(x: Expr, build: Build) -> Expr:
    """To the next whole number, ties away from zero."""
    size = build.unary(
        "floor", build.binary("add", build.unary("abs", x), build.scalar_like(0.5, x))
    )
    return build.binary("mul", size, build.unary("sign", x))

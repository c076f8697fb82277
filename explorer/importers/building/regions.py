"""Pools of regions of an image, at places that a run computes: (R, 5) as image x1 y1 x2 y2.

MaxRoiPool, ROIPooling    the greatest of each bin      Girshick, "Fast R-CNN", 2015
PSROIPooling              its mean, in the bin's own channel      Dai et al., "R-FCN", 2016
"""

from __future__ import annotations

import numpy as np

from explorer.importers.building.build import Build
from explorer.importers.building.expr import Expr, maximum, where
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
    lowest, is_filled = x.constant(-np.inf), []
    # Where rows, and then columns, stand in (R, C, bins, H, W) and (R, C, height, bins, W).
    for axis, first, others in ((2, 2, [1, 4]), (3, 1, [1, 2])):
        begin, end = _max_bins(regions, first, bins[axis - 2], scale, build)  # (R, bins)
        inside = _inside(begin, end, x.sizes([axis], "a pool of regions")[0], build)
        is_filled.append(inside.astype(np.float32).max([2]) > 0)
        apart = result.unsqueeze([axis])
        candidates = where(inside.unsqueeze(others), apart, lowest)
        result = candidates.max([axis + 1])
    filled = is_filled[0].unsqueeze([2]) & is_filled[1].unsqueeze([1])  # (R, height, width)
    return where(filled.unsqueeze([1]), result, 0)


def mean_region_pool(
    x: Expr, regions: Expr, outputs: int, bins: int, scale: float, build: Build
) -> Expr:
    """(N, outputs * bins * bins, H, W), regions (R, 5)  ->  (R, outputs, bins, bins).

    Bin (i, j) of an output is the mean of channel (output, i, j) over the bin's pixels, 0 where it
    has none. A sum over a rectangle is that of its rows' sums over its columns; what lies outside
    meets no weight of 0, be it infinite.
    """
    height, width = x.sizes([2, 3], "a pool of regions")
    images = images_of(x, regions, build)
    count = images.all_sizes()[0]
    apart = images.reshape([count, outputs, bins, bins, height, width])
    rows, columns = (
        _inside(*_mean_bins(regions, first, bins, scale, build), size, build)
        for first, size in ((2, height), (1, width))
    )  # (R, bins, H), (R, bins, W)
    total = where(columns.unsqueeze([1, 2, 4]), apart, 0).sum([5])  # (R, outputs, i, j, H)
    total = where(rows.unsqueeze([1, 3]), total, 0).sum([4])  # (R, outputs, i, j)
    numbers = [part.astype(np.float32).sum([2]) for part in (rows, columns)]
    area = maximum(numbers[0].unsqueeze([2]) * numbers[1].unsqueeze([1]), 1)
    return total / area.unsqueeze([1])


def images_of(x: Expr, regions: Expr, build: Build) -> Expr:
    """For each region its image; the only one there is stays, for all of them."""
    if x.size(0) == 1:
        return x
    numbers = regions.slice(1, 0, 1).reshape([-1]).astype(np.int64)
    return build.value(GatherOp, [x, numbers], axis=0)


def _inside(begin: Expr, end: Expr, size: int, build: Build) -> Expr:
    """Which pixels a bin has: (R, bins, size)."""
    pixels = build.weight(np.arange(size, dtype=begin.dtype))
    return (begin.unsqueeze([2]) <= pixels) & (pixels < end.unsqueeze([2]))


def _max_bins(
    regions: Expr, first: int, bins: int, scale: float, build: Build
) -> tuple[Expr, Expr]:
    """Begins and ends along an axis, in pixels: (R, bins). Columns `first` and two behind hold the
    region's ends."""
    ends = [_rounded(regions.slice(1, at, at + 1).scaled(scale)) for at in (first, first + 2)]
    one = regions.constant(1)
    length = ends[1] - ends[0] + one
    step = maximum(length, one) / bins
    begin, end = (
        (step * numbers).unary(kind)
        for kind, numbers in zip(("floor", "ceil"), _numbers(bins, regions, build), strict=True)
    )
    return begin + ends[0], end + ends[0]


def _mean_bins(
    regions: Expr, first: int, bins: int, scale: float, build: Build
) -> tuple[Expr, Expr]:
    """As `_max_bins`, of regions that are whole pixels of the picture before they are scaled."""
    begin, end = (_rounded(regions.slice(1, at, at + 1)) for at in (first, first + 2))
    end = end + 1
    begin, end = begin.scaled(scale), end.scaled(scale)
    length = maximum(end - begin, 0.1)
    step = length / bins
    found = [
        (step * numbers + begin).unary(kind)
        for kind, numbers in zip(("floor", "ceil"), _numbers(bins, regions, build), strict=True)
    ]
    return found[0], found[1]


def _numbers(bins: int, regions: Expr, build: Build) -> tuple[Expr, Expr]:
    numbers = np.arange(bins + 1, dtype=regions.dtype)
    return build.weight(numbers[:-1]), build.weight(numbers[1:])


def _rounded(x: Expr) -> Expr:
    """To the next whole number, ties away from zero."""
    return (abs(x) + 0.5).floor() * x.sign()

"""Pools of regions that a run proposes, of Fast R-CNN and R-FCN."""

from __future__ import annotations

from explorer.importers.building.build import Build
from explorer.importers.building.expr import Expr
from explorer.importers.building.regions import max_region_pool, mean_region_pool
from explorer.importers.caffe.layers.node import CaffeNode


def roi_pooling(node: CaffeNode, build: Build) -> Expr:
    """The greatest of each bin of each region."""
    x, regions = _operands(node, build)
    bins = node.own.integer("pooled_h", 0), node.own.integer("pooled_w", 0)
    if min(bins) < 1:
        raise ValueError(f"{bins[0]} by {bins[1]} bins")
    return max_region_pool(x, regions, bins, node.own.number("spatial_scale", 1.0), build)


def psroi_pooling(node: CaffeNode, build: Build) -> Expr:
    """The mean of each bin of each region, in a channel of its own."""
    x, regions = _operands(node, build)
    outputs, bins = node.own.integer("output_dim", 0), node.own.integer("group_size", 0)
    channels = x.sizes([1], "a pool of regions")[0]
    if outputs < 1 or bins < 1 or channels != outputs * bins * bins:
        raise ValueError(f"{outputs} outputs of {bins} by {bins} bins from {channels} channels")
    scale = node.own.number("spatial_scale", 1.0)
    return mean_region_pool(x, regions, outputs, bins, scale, build)


def _operands(node: CaffeNode, build: Build) -> tuple[Expr, Expr]:
    """Images of four axes, and regions as rows of five numbers, whatever axes are around them."""
    x, regions = node.operand(0), node.operand(1)
    if x.rank != 4:
        raise ValueError(f"images of {x.rank} axes; 4 expected")
    return x, regions if regions.rank == 2 else regions.reshape([-1, 5])


CONVERTERS = {"ROIPooling": roi_pooling, "PSROIPooling": psroi_pooling}

"""Convolutions and matrix products.

Convolution      filters (O, C / group, h, w)          top.conv
Deconvolution    filters (C, O / group, h, w)          top.conv of pixels with zeros between
InnerProduct     weights (O, I), all axes from `axis`  top.matmul
"""

from __future__ import annotations

import math

import numpy as np

from explorer.importers.building.build import Build, Unsupported
from explorer.importers.building.expr import Expr
from explorer.importers.building.windows import Window, is_finite_everywhere, transposed_conv
from explorer.importers.caffe.layers.node import CaffeNode
from explorer.importers.caffe.layers.windows import pair
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.top.movement.pad import PadOp


def convolution(node: CaffeNode, build: Build) -> Expr:
    """A convolution of images; the filters of a depthwise one are each for a channel."""
    x = node.operand(0)
    channels, filters, group = _counts(node, x)
    sizes = pair(node.own, "kernel", None)
    weight = node.weight(0, (filters, channels // group, *sizes), build)
    top, left = pair(node.own, "pad", 0)
    return build.value(
        ConvOp,
        [x, weight, _bias(node, filters, build), None],
        strides=pair(node.own, "stride", 1),
        pads=(top, left, top, left),
        dilations=_dilations(node),
        group=group,
    )


def deconvolution(node: CaffeNode, build: Build) -> Expr:
    """A convolution with mirrored filters over the image with zeros between its pixels.

    Dumoulin and Visin, "A guide to convolution arithmetic for deep learning", 2016, section 4.
    """
    x = node.operand(0)
    channels, filters, group = _counts(node, x)
    sizes, strides = pair(node.own, "kernel", None), pair(node.own, "stride", 1)
    pads, dilations = pair(node.own, "pad", 0), _dilations(node)
    inside, outside = channels // group, filters // group
    stored = node.numbers(0, channels * outside * math.prod(sizes), build)
    grouped = stored.reshape(group, inside, outside, *sizes)
    if not is_finite_everywhere(stored):
        weight = build.weight(stored.reshape(channels, outside, *sizes))
        window = Window(sizes, strides, dilations, pads, pads)
        bias = _bias(node, filters, build)
        return transposed_conv(x, weight, bias, window, (0, 0), group, build)
    mirrored = np.ascontiguousarray(
        grouped.transpose(0, 2, 1, 3, 4).reshape(filters, inside, *sizes)[..., ::-1, ::-1]
    )
    reach = [(k - 1) * d for k, d in zip(sizes, dilations, strict=True)]
    around = [r - p for r, p in zip(reach, pads, strict=True)]
    spread = x
    if max(strides) > 1:
        none, interior = [0, 0, 0, 0], [0, 0, *(stride - 1 for stride in strides)]
        spread = build.value(PadOp, [x, None], low=none, high=none, interior=interior, value=0.0)
    ends = [max(a, 0) for a in around]
    y = build.value(
        ConvOp,
        [spread, build.weight(mirrored), _bias(node, filters, build), None],
        strides=(1, 1),
        pads=(*ends, *ends),
        dilations=dilations,
        group=group,
    )
    # A padding beyond the windows' reach takes results away.
    cut = {axis: (-a, a, 1) for axis, a in enumerate(around, 2) if a < 0}
    return y.slices(cut) if cut else y


def inner_product(node: CaffeNode, build: Build) -> Expr:
    """x times the transposed weights, and a bias; the axes from `axis` on are one."""
    x = node.operand(0)
    rank = x.rank
    axis = build.axis(node.own.integer("axis", 1), rank)
    depth = math.prod(x.sizes(range(axis, rank), "an inner product"))
    results = _results(node)
    is_transposed = node.own.is_set("transpose", False)
    shape = (depth, results) if is_transposed else (results, depth)
    weight = node.weight(0, shape, build)
    columns = weight if is_transposed else weight.transpose([1, 0])
    rows = x if rank == 2 and axis == 1 else x.reshape([-1, depth])
    y = build.matmul(rows, columns, _bias(node, results, build))
    return y if axis == 1 else y.reshape([*x.all_sizes()[:axis], results])


def _counts(node: CaffeNode, x: Expr) -> tuple[int, int, int]:
    """Channels, filters and groups."""
    if x.rank != 4 or node.own.integer("axis", 1) != 1:
        raise Unsupported("of anything but images: four axes, channels second")
    channels, filters = x.sizes([1], "a convolution")[0], _results(node)
    is_depthwise = node.operator in ("ConvolutionDepthwise", "DepthwiseConvolution")
    group = channels if is_depthwise else node.own.integer("group", 1)
    if group < 1 or channels % group or filters % group:
        raise ValueError(f"{channels} channels and {filters} filters in {group} groups")
    return channels, filters, group


def _results(node: CaffeNode) -> int:
    count = node.own.integer("num_output", 0)
    if count < 1:
        raise ValueError("num_output is missing")
    return count


def _bias(node: CaffeNode, count: int, build: Build) -> Expr | None:
    has_one = node.own.is_set("bias_term", True)
    return node.weight(1, (count,), build) if has_one else None


def _dilations(node: CaffeNode) -> tuple[int, int]:
    found = node.own.integers("dilation") or [1]
    if len(found) > 2 or min(found) < 1:
        raise ValueError(f"dilation {found}")
    return found[0], found[-1]


CONVERTERS = {
    "Convolution": convolution,
    "ConvolutionDepthwise": convolution,
    "DepthwiseConvolution": convolution,
    "Deconvolution": deconvolution,
    "InnerProduct": inner_product,
}

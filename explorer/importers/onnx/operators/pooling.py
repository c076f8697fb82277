"""Pools: windows, and whole planes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from explorer.importers.building import regions as regions_of
from explorer.importers.building.expr import Expr, Size
from explorer.importers.building.windows import (
    Window,
    average_pooled,
    pooled,
    power_of,
    power_pooled,
    root_of,
)
from explorer.importers.onnx.operators.windows import padded
from explorer.importers.onnx.program.build import Build
from explorer.importers.onnx.program.nodes import Node, converts
from explorer.ir.top.reductions.reduction import ReduceOp


@converts("MaxPool")
def max_pool(node: Node, build: Build) -> Sequence[Expr]:
    x = node.operand(0)
    fill = -math.inf if x.is_float and len(node.results) < 2 else None
    x, window, surplus = _window(node, x, fill)
    empty = _without_windows(x, window)
    if empty is not None:
        return [empty, empty.astype(np.int64)][: len(node.results)]
    y = pooled("max", x, window, surplus, None, build)
    if len(node.results) < 2:
        return [y]
    position = pooled("max_position", x, window, surplus, None, build)
    return [y, _flat_position(position, x, node.integer("storage_order", 0), build)]


def _flat_position(position: Expr, x: Expr, by_columns: int, build: Build) -> Expr:
    """Positions in their plane as positions in the whole tensor; planes by columns if asked."""
    batch, channels, *plane = x.sizes(range(x.rank), "positions of maxima")
    if by_columns:
        # The last axis varies slowest: its digit of the position gets the largest weight.
        total: Expr | None = None
        rest, weight = position, math.prod(plane)
        for size in reversed(plane):
            weight //= size
            extent = position.constant(size)
            digit = rest % extent
            rest = rest / extent
            term = digit * weight
            total = term if total is None else total + term
        assert total is not None
        position = total
    first = np.arange(batch * channels, dtype=np.int64) * math.prod(plane)
    shape = (batch, channels, *[1] * len(plane))
    return position + build.weight(first.reshape(shape))


@converts("LpPool")
def lp_pool(node: Node, build: Build) -> Expr:
    """(sum of |x|^p over the window)^(1/p)"""
    x, p = node.operand(0), node.number("p", 2)
    _, window, surplus = _window(node, x)
    empty = _without_windows(x, window)
    return power_pooled(x, p, window, surplus, build) if empty is None else empty


@converts("GlobalLpPool")
def global_lp_pool(node: Node, build: Build) -> Expr:
    x, p = node.operand(0), node.number("p", 2)
    axes = list(range(2, x.rank))
    powers = power_of(x.wide(), p)
    total = build.value(ReduceOp, [powers], kind="sum", axes=axes, keepdims=True)
    return root_of(total, p).astype(x.dtype)


@converts("AveragePool")
def average_pool(node: Node, build: Build) -> Expr:
    """What `ceil_mode` adds at the end never counts, what `pads` add counts if asked."""
    x = node.operand(0)
    _, window, surplus = _window(node, x)
    empty = _without_windows(x, window)
    if empty is not None:
        return empty
    counts = bool(node.integer("count_include_pad", 0))
    return average_pooled(x, window, surplus, counts, build)


@converts("GlobalAveragePool", "GlobalMaxPool")
def global_pool(node: Node, build: Build) -> Expr:
    x = node.operand(0)
    kind = "max" if node.operator == "GlobalMaxPool" else "mean"
    return build.value(ReduceOp, [x], kind=kind, axes=list(range(2, x.rank)), keepdims=True)


def _window(node: Node, x: Expr, fill: float | None = None) -> tuple[Expr, Window, tuple[int, ...]]:
    """x, padded with `fill` where it has to be, the window, and what `ceil_mode` adds at the end.

    As onnxruntime divides, a window that lacks less than a stride of elements has a place, too.
    """
    sizes = node.integers("kernel_shape")
    if sizes is None:
        raise ValueError("attribute kernel_shape is missing")
    x, window = padded(node, x, sizes, fill)
    if node.integer("ceil_mode", 0) and set(window.strides) != {1}:
        return x, window, window.surpluses(x)
    lacking = [window.missing(a, x.size(2 + a)) for a in range(window.rank)]
    return (
        x,
        window,
        tuple(n if n < stride else 0 for n, stride in zip(lacking, window.strides, strict=True)),
    )


def _without_windows(x: Expr, window: Window) -> Expr | None:
    """The empty result where a window lacks a stride of elements, but not two; None elsewhere.

    Where it lacks more, onnxruntime refuses the model.
    """
    sizes = [x.size(2 + axis) for axis in range(window.rank)]
    lacking = [window.missing(axis, size) for axis, size in enumerate(sizes)]
    pairs = list(zip(lacking, window.strides, strict=True))
    if not any(n >= stride for n, stride in pairs) or any(n >= 2 * stride for n, stride in pairs):
        return None
    shape: list[Size] = [x.dim(0), x.dim(1)]
    for axis, (lack, stride) in enumerate(pairs):
        (size,) = x.sizes([2 + axis], "an empty result")
        padded = size + window.begins[axis] + window.ends[axis]
        count = (padded - window.reach(axis)) // stride + 1
        shape.append(1 if 0 < lack < stride else max(count, 0))
    return x.constant(0).broadcast_to(shape)


@converts("MaxRoiPool")
def max_region_pool(node: Node, build: Build) -> Expr:
    """The greatest of each bin of each region."""
    x, regions = node.operand(0), node.operand(1)
    bins = node.integers("pooled_shape")
    if bins is None or len(bins) != 2 or x.rank != 4:
        raise ValueError(f"regions of an image {x.shape} in bins {bins}")
    scale = node.number("spatial_scale", 1.0)
    return regions_of.max_region_pool(x, regions, (bins[0], bins[1]), scale, build)

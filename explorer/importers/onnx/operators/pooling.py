"""Pools: windows, and whole planes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from xdsl.ir import SSAValue

from explorer.importers.building import regions as regions_of
from explorer.importers.onnx.operators.windows import Window, window_of
from explorer.importers.onnx.program.build import Build
from explorer.importers.onnx.program.nodes import Node, converts
from explorer.ir.top.movement.pad import PadOp
from explorer.ir.top.pooling import PoolOp
from explorer.ir.top.reductions.reduction import ReduceOp


@converts("MaxPool")
def max_pool(node: Node, build: Build) -> Sequence[SSAValue]:
    x = node.operand(0)
    window, surplus = _window(node, x, build)
    y = _pool("max", x, window, surplus, None, build)
    if len(node.results) < 2:
        return [y]
    position = _pool("max_position", x, window, surplus, None, build)
    return [y, _flat_position(position, x, node.integer("storage_order", 0), build)]


def _flat_position(position: SSAValue, x: SSAValue, by_columns: int, build: Build) -> SSAValue:
    """Positions in their plane as positions in the whole tensor; planes by columns if asked."""
    batch, channels, *plane = build.sizes(x, range(build.rank(x)), "positions of maxima")
    if by_columns:
        # The last axis varies slowest: its digit of the position gets the largest weight.
        total: SSAValue | None = None
        rest, weight = position, math.prod(plane)
        for size in reversed(plane):
            weight //= size
            extent = build.scalar_like(size, position)
            digit = build.binary("mod", rest, extent)
            rest = build.binary("div", rest, extent)
            term = build.binary("mul", digit, build.scalar_like(weight, position))
            total = term if total is None else build.binary("add", total, term)
        assert total is not None
        position = total
    first = np.arange(batch * channels, dtype=np.int64) * math.prod(plane)
    shape = (batch, channels, *[1] * len(plane))
    return build.binary("add", position, build.weight(first.reshape(shape)))


@converts("LpPool")
def lp_pool(node: Node, build: Build) -> SSAValue:
    """(sum of |x|^p over the window)^(1/p); the sum is the average times the window's size."""
    x, p = node.operand(0), node.number("p", 2)
    window, surplus = _window(node, x, build)
    average = _pool("average", _power(x, p, build), window, surplus, True, build)
    return _root(build.scaled(average, math.prod(window.sizes)), p, build)


@converts("GlobalLpPool")
def global_lp_pool(node: Node, build: Build) -> SSAValue:
    x, p = node.operand(0), node.number("p", 2)
    axes = list(range(2, build.rank(x)))
    total = build.value(ReduceOp, [_power(x, p, build)], kind="sum", axes=axes, keepdims=True)
    return _root(total, p, build)


def _power(x: SSAValue, p: float, build: Build) -> SSAValue:
    """|x|^p"""
    if p == 2:
        return build.binary("mul", x, x)
    magnitude = build.unary("abs", x)
    return magnitude if p == 1 else build.binary("pow", magnitude, build.scalar_like(p, x))


def _root(x: SSAValue, p: float, build: Build) -> SSAValue:
    if p == 2:
        return build.unary("sqrt", x)
    return x if p == 1 else build.binary("pow", x, build.scalar_like(1 / p, x))


@converts("AveragePool")
def average_pool(node: Node, build: Build) -> SSAValue:
    """What `ceil_mode` adds at the end never counts, what `pads` add counts if asked.

    Where both meet, the pads become elements of the input first.
    """
    x = node.operand(0)
    window, surplus = _window(node, x, build)
    counts = bool(node.integer("count_include_pad", 0))
    if not counts or not any(surplus):
        # Without pads all windows have the same size: the division is by a constant.
        is_constant = counts or not any((*window.pads, *surplus))
        return _pool("average", x, window, surplus, is_constant, build)
    if any(window.pads):
        low, high = [0, 0, *window.begins], [0, 0, *window.ends]
        x = build.value(PadOp, [x, None], low=low, high=high, interior=[0] * len(low), value=0.0)
    zeros = (0,) * window.rank
    unpadded = Window(window.sizes, window.strides, window.dilations, zeros, zeros)
    return _pool("average", x, unpadded, surplus, False, build)


@converts("GlobalAveragePool", "GlobalMaxPool")
def global_pool(node: Node, build: Build) -> SSAValue:
    x = node.operand(0)
    kind = "max" if node.operator == "GlobalMaxPool" else "mean"
    return build.value(ReduceOp, [x], kind=kind, axes=list(range(2, build.rank(x))), keepdims=True)


def _window(node: Node, x: SSAValue, build: Build) -> tuple[Window, tuple[int, ...]]:
    """The window, and what `ceil_mode` adds behind the end pads."""
    sizes = node.integers("kernel_shape")
    if sizes is None:
        raise ValueError("attribute kernel_shape is missing")
    window = window_of(node, x, sizes, build)
    if not node.integer("ceil_mode", 0) or set(window.strides) == {1}:
        return window, (0,) * window.rank
    known = build.sizes(x, range(2, 2 + window.rank), "ceil_mode")
    return window, tuple(window.surplus(axis, size) for axis, size in enumerate(known))


def _pool(
    kind: str,
    x: SSAValue,
    window: Window,
    surplus: tuple[int, ...],
    includes_padding: bool | None,
    build: Build,
) -> SSAValue:
    ends = [end + more for end, more in zip(window.ends, surplus, strict=True)]
    return build.value(
        PoolOp,
        [x],
        kind=kind,
        window=window.sizes,
        strides=window.strides,
        pads=[*window.begins, *ends],
        dilations=window.dilations,
        includes_padding=includes_padding,
    )


@converts("MaxRoiPool")
def max_region_pool(node: Node, build: Build) -> SSAValue:
    """The greatest of each bin of each region."""
    x, regions = node.operand(0), node.operand(1)
    bins = node.integers("pooled_shape")
    if bins is None or len(bins) != 2 or build.rank(x) != 4:
        raise ValueError(f"regions of an image {build.shape(x)} in bins {bins}")
    scale = node.number("spatial_scale", 1.0)
    return regions_of.max_region_pool(x, regions, (bins[0], bins[1]), scale, build)

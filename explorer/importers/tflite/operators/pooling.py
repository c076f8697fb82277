"""Pools: the average and the maximum of windows over images with their channels last."""

from __future__ import annotations

import numpy as np

from explorer.importers.building.build import Build, Unsupported
from explorer.importers.building.expr import Expr
from explorer.importers.building.quantized_types import as_stored
from explorer.importers.tflite.operators.activations import activated, limits
from explorer.importers.tflite.operators.integers import kept_within, stored_as
from explorer.importers.tflite.operators.node import TfliteNode, as_images
from explorer.importers.tflite.operators.windows import Window, window_of
from explorer.ir.requantization import integer_limits
from explorer.ir.top.pooling import PoolOp
from explorer.ir.top.quantization.integer_average import IntegerAverageOp


def max_pool_2d(node: TfliteNode, build: Build) -> Expr:
    """The maximum of the elements of a window that lie in the image."""
    x = as_images(node, 0, build)
    pooled = _pool("max", x.value, _window(node, x.value, build), build)
    kind = node.result_kind
    if kind is None:
        return x.result(activated(pooled, node.activation), build)
    low_high = limits(kind, node.activation)
    if low_high != integer_limits(kind.storage):
        numbers = as_stored(pooled, build).astype(np.int32)
        pooled = stored_as(kept_within(numbers, low_high), kind, build)
    return x.result(pooled, build)


def average_pool_2d(node: TfliteNode, build: Build) -> Expr:
    """The average of the elements of a window that lie in the image.

    Of quantized numbers the sum of what is stored is divided, ties away from zero.
    """
    x = as_images(node, 0, build)
    window = _window(node, x.value, build)
    kind = node.result_kind
    if kind is None:
        pooled = _pool("average", x.value, window, build)
        return x.result(activated(pooled, node.activation), build)
    low, high = limits(kind, node.activation)
    average = build.value(
        IntegerAverageOp,
        [x.value],
        window=window.sizes,
        strides=window.strides,
        pads=window.pads,
        low=low,
        high=high,
    )
    return x.result(average, build)


def l2_pool_2d(node: TfliteNode, build: Build) -> Expr:
    """The root of the average of the squares of the elements that lie in the image."""
    node.require_plain()
    x = as_images(node, 0, build)
    squares = x.value * x.value
    pooled = _pool("average", squares, _window(node, x.value, build), build).sqrt()
    return x.result(activated(pooled, node.activation), build)


def reduce_window(node: TfliteNode, build: Build) -> Expr:
    """Windows over any axes reduced to one element each, which begins as the second operand.

    Axis by axis: the order of the elements does not matter.
    """
    node.require_plain()
    name = str(node.options.get("reduce_function", ""))
    if name not in _REDUCED:
        raise Unsupported(f"windows reduced by {name or 'nothing'}")
    kind, y = _REDUCED[name], node.plain(0)
    sizes, strides, dilations = (node.integers_of(2 + k, "a window", build) for k in range(3))
    if len(sizes) != y.rank or min(*sizes, *strides, *dilations) < 1:
        raise ValueError(f"windows of {sizes} with strides {strides} and dilations {dilations}")
    for axis, (width, stride, apart) in enumerate(zip(sizes, strides, dilations, strict=True)):
        (size,) = y.sizes([axis], "a window")
        count = (size - (width - 1) * apart - 1) // stride + 1
        if count < 1:
            raise ValueError(f"a window of {width} over an axis of {size}")
        reach = (count - 1) * stride + 1
        parts = [y.slices({axis: (k * apart, k * apart + reach, stride)}) for k in range(width)]
        y = parts[0]
        for part in parts[1:]:
            y = y.binary(kind, part)
    return y.binary(kind, node.plain(1).reshape([]))


_REDUCED = {
    "ADD": "add", "MUL": "mul", "MINIMUM": "min", "MAXIMUM": "max", "ALL": "and", "ANY": "or",
}  # fmt: skip


def _window(node: TfliteNode, x: Expr, build: Build) -> Window:
    sizes = node.integer("filter_height"), node.integer("filter_width")
    return window_of(node, x, sizes, build)


def _pool(kind: str, x: Expr, window: Window, build: Build) -> Expr:
    counts = {} if kind == "max" or not any(window.pads) else {"includes_padding": False}
    return build.value(
        PoolOp,
        [x],
        kind=kind,
        window=window.sizes,
        strides=window.strides,
        pads=window.pads,
        dilations=window.dilations,
        **counts,
    )


CONVERTERS = {
    "MAX_POOL_2D": max_pool_2d,
    "AVERAGE_POOL_2D": average_pool_2d,
    "L2_POOL_2D": l2_pool_2d,
    "REDUCE_WINDOW": reduce_window,
}

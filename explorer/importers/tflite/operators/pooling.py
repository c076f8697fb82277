"""Pools: the average and the maximum of windows over images with their channels last."""

from __future__ import annotations

from math import prod

import numpy as np
from xdsl.ir import SSAValue

from explorer.importers.building.build import Build
from explorer.importers.building.quantized_types import as_quantized, as_stored
from explorer.importers.tflite.operators.activations import activated, limits
from explorer.importers.tflite.operators.integers import divided_away, kept_within, stored_as
from explorer.importers.tflite.operators.node import TfliteNode, as_images
from explorer.importers.tflite.operators.windows import Window, window_of
from explorer.ir.requantization import integer_limits
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.top.pooling import PoolOp
from explorer.ir.types import QuantizedType, element_type_of


def max_pool_2d(node: TfliteNode, build: Build) -> SSAValue:
    """The maximum of the elements of a window that lie in the image."""
    x = as_images(node, 0, build)
    pooled = _pool("max", x.value, _window(node, x.value, build), build)
    kind = node.result_kind
    if kind is None:
        return x.result(activated(pooled, node.activation, build), build)
    low_high = limits(kind, node.activation)
    if low_high != integer_limits(kind.storage):
        numbers = build.cast(as_stored(pooled, build), np.int32)
        pooled = stored_as(kept_within(numbers, low_high, build), kind, build)
    return x.result(pooled, build)


def average_pool_2d(node: TfliteNode, build: Build) -> SSAValue:
    """The average of the elements of a window that lie in the image.

    Of quantized numbers the sum of what is stored is divided, ties away from zero.
    """
    x = as_images(node, 0, build)
    window = _window(node, x.value, build)
    kind = node.result_kind
    if kind is None:
        pooled = _pool("average", x.value, window, build)
        return x.result(activated(pooled, node.activation, build), build)
    return x.result(_integer_average(node, x.value, window, kind, build), build)


def l2_pool_2d(node: TfliteNode, build: Build) -> SSAValue:
    """The root of the average of the squares of the elements that lie in the image."""
    node.require_plain()
    x = as_images(node, 0, build)
    squares = build.binary("mul", x.value, x.value)
    pooled = build.unary("sqrt", _pool("average", squares, _window(node, x.value, build), build))
    return x.result(activated(pooled, node.activation, build), build)


def _integer_average(
    node: TfliteNode, x: SSAValue, window: Window, kind: QuantizedType, build: Build
) -> SSAValue:
    channels, *sizes = build.sizes(x, range(1, 4), "an average of integers")
    stored = as_stored(x, build)
    if list(window.sizes) == sizes and not any(window.pads):
        numbers = build.cast(stored, np.int32)
        total = build.reduce("sum", numbers, [2, 3], keepdims=True)
        count = build.scalar_like(prod(sizes), total)
    else:
        # Padding stands for the zero point of what is multiplied, which is 0 here: it adds nothing.
        ones = np.ones((channels, 1, *window.sizes), np.int8)
        unit = QuantizedType.get(kind.storage, [1.0], [0])
        filters = QuantizedType.get(element_type_of(build.weight(ones[:0])), [1.0], [0])  # pyright: ignore
        total = as_stored(
            build.value(
                ConvOp,
                [
                    as_quantized(stored, unit, build),
                    as_quantized(build.weight(ones), filters, build),
                    None,
                    None,
                ],
                strides=window.strides,
                pads=window.pads,
                dilations=window.dilations,
                group=channels,
            ),
            build,
        )
        count = build.weight(_counts(sizes, window))
    average = divided_away(total, count, build)
    return stored_as(kept_within(average, limits(kind, node.activation), build), kind, build)


def _counts(sizes: list[int], window: Window) -> np.ndarray:
    """Elements inside the image of each window: (1, 1, height, width)."""
    along = []
    for axis, size in enumerate(sizes):
        low, high = window.pads[axis], window.pads[axis + 2]
        width, stride = window.sizes[axis], window.strides[axis]
        begins = np.arange(0, size + low + high - width + 1, stride) - low
        along.append(np.minimum(begins + width, size) - np.maximum(begins, 0))
    return np.outer(along[0], along[1]).astype(np.int32)[np.newaxis, np.newaxis]


def _window(node: TfliteNode, x: SSAValue, build: Build) -> Window:
    sizes = node.integer("filter_height"), node.integer("filter_width")
    return window_of(node, x, sizes, build)


def _pool(kind: str, x: SSAValue, window: Window, build: Build) -> SSAValue:
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
}

"""Convolutions and matrix products.

    CONV_2D           x (N, H, W, C), w (O, h, w, C / group)     top.conv between two transposes
    FULLY_CONNECTED   x (..., I), w (O, I)                       top.matmul with w transposed

Of quantized numbers the sums are requantized, by the roundings of `schemes.py`. Floats times bytes
are a hybrid product: the floats become bytes by their range first, and the sums floats again.
Those bytes have zero points where a convolution has a scale for each filter, and where a matrix
product asks for them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from explorer.importers.building.build import Build, Unsupported
from explorer.importers.building.expr import Expr
from explorer.importers.building.quantized_types import as_quantized, as_stored
from explorer.importers.tflite.operators.activations import activated, limits
from explorer.importers.tflite.operators.hybrid import (
    BYTES,
    rows_as_bytes,
    rows_from_zero,
    scales_of_bytes,
)
from explorer.importers.tflite.operators.node import TfliteNode, as_images, kind_of
from explorer.importers.tflite.operators.schemes import DOUBLE, HALF, SINGLE, multiplies_singles
from explorer.importers.tflite.operators.wide_sums import (
    has_wide_bias,
    is_wide,
    products_of_matrices,
    wide,
    wide_sums,
)
from explorer.importers.tflite.operators.windows import Window, same_padding, window_of
from explorer.ir.requantization import Requantization, RequantizationAttr
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.top.quantization.quantized import RequantizeOp


def conv_2d(node: TfliteNode, build: Build) -> Expr:
    """A convolution of images with their channels last; filters are (O, h, w, C / group)."""
    weight = _weight(node, build)
    x = as_images(node, 0, build)
    filters, height, width, depth = weight.sizes(range(4), "a convolution")
    channels = x.value.sizes([1], "a convolution")[0]
    if depth < 1 or channels % depth or filters % (channels // depth):
        raise ValueError(f"filters of {depth} channels for images of {channels}")
    left, scales = _image(node, x.value, filters, channels != depth, build)
    window = window_of(node, x.value, (height, width), build)
    filters_first = weight.transpose([0, 3, 1, 2])
    y = _convolved(node, left, filters_first, window, channels // depth, scales, build)
    return x.result(y, build)


def depthwise_conv_2d(node: TfliteNode, build: Build) -> Expr:
    """A convolution of each channel by itself; filters are (1, h, w, C * multiplier)."""
    weight = _weight(node, build)
    x = as_images(node, 0, build)
    one, height, width, results = weight.sizes(range(4), "a convolution")
    channels = x.value.sizes([1], "a convolution")[0]
    if one != 1 or channels < 1 or results % channels:
        raise ValueError(f"{results} filters for images of {channels} channels")
    window = window_of(node, x.value, (height, width), build)
    filters_first = weight.transpose([3, 0, 1, 2])
    left, scales = _image(node, x.value, results, True, build)
    y = _convolved(node, left, filters_first, window, channels, scales, build)
    return x.result(y, build)


def conv_3d(node: TfliteNode, build: Build) -> Expr:
    """A convolution of volumes with their channels last; filters are (d, h, w, C / group, O)."""
    node.require_plain()
    weight, x = node.plain(1), as_images(node, 0, build)
    *kernel, depth, _ = weight.sizes(range(5), "a convolution")
    channels, *sizes = x.value.sizes(range(1, 5), "a convolution")
    if depth < 1 or channels % depth:
        raise ValueError(f"filters of {depth} channels for volumes of {channels}")
    strides, dilations = (
        [node.integer(name.format(axis), 1) for axis in "dhw"]
        for name in ("stride_{}", "dilation_{}_factor")
    )
    if min(*strides, *dilations) < 1:
        raise ValueError("strides and dilations of a window are at least 1")
    totals = [0, 0, 0]
    if node.options.get("padding", "SAME") == "SAME":
        windows = zip(sizes, kernel, strides, dilations, strict=True)
        totals = [same_padding(*window) for window in windows]
    y = build.value(
        ConvOp,
        [x.value, weight.transpose([4, 3, 0, 1, 2]), _bias(node, build), None],
        strides=strides,
        pads=[*(t // 2 for t in totals), *(t - t // 2 for t in totals)],
        dilations=dilations,
        group=channels // depth,
    )
    return x.result(activated(y, node.activation), build)


def fully_connected(node: TfliteNode, build: Build) -> Expr:
    """x times the transposed weights (O, I), and a bias; leading axes are one."""
    if node.options.get("weights_format", "DEFAULT") != "DEFAULT":
        raise Unsupported(f"weights in the format {node.options['weights_format']}")
    weight, x = _weight(node, build), node.operand(0, build)
    outputs, depth = weight.sizes(range(2), "a matrix product")
    keeps_axes = bool(node.integer("keep_num_dims"))
    shape = x.shape
    rows = x if len(shape) == 2 and shape[1] == depth else x.reshape([-1, depth])
    columns = weight.transpose([1, 0])
    left, scales = _rows(node, rows, build)
    if is_wide(node, weight, build):
        y = wide_sums(node, wide(left, build) @ wide(columns, build), SINGLE, build)
    else:
        y = build.matmul(left, columns, None if scales else _bias(node, build))
        y = _finished(node, y, SINGLE, scales, build)
    if keeps_axes and len(shape) != 2:
        return y.reshape([*x.all_sizes()[:-1], outputs])
    return y


def batch_matmul(node: TfliteNode, build: Build) -> Expr:
    """Products of matrices, either of them transposed first if asked."""
    left, right = (
        _turned(node.operand(index, build), node.integer(name))
        for index, name in enumerate(("adj_x", "adj_y"))
    )
    if node.is_quantized:
        return products_of_matrices(node, left, right, build)
    return left @ right


def _turned(x: Expr, is_asked: int) -> Expr:
    rank = x.rank
    return x.transpose([*range(rank - 2), rank - 1, rank - 2]) if is_asked else x


def _convolved(
    node: TfliteNode,
    x: Expr,
    weight: Expr,
    window: Window,
    group: int,
    scales: Sequence[Expr],
    build: Build,
) -> Expr:
    # Without a bias a depthwise kernel of 16 bits takes none of 64 bits for granted.
    is_half = has_wide_bias(node) or (node.tensor(0).element_type == "int16" and not node.has(2))
    how = HALF if is_half else DOUBLE
    is_long = is_wide(node, weight, build)
    factors = [wide(value, build) for value in (x, weight)] if is_long else [x, weight]
    bias = None if is_long or scales else _bias(node, build)
    y = build.value(
        ConvOp,
        [*factors, bias, None],
        strides=window.strides,
        pads=window.pads,
        dilations=window.dilations,
        group=group,
    )
    if is_long:
        return wide_sums(node, y, how, build)
    return _finished(node, y, how, scales, build)


def _weight(node: TfliteNode, build: Build) -> Expr:
    """The second operand; Unsupported where it has no form beside the first."""
    if _is_hybrid(node):
        return as_quantized(as_stored(node.plain(1), build), BYTES, build)
    return node.operand(1, build)


def _is_hybrid(node: TfliteNode) -> bool:
    """Whether floats are multiplied with bytes."""
    x, weight = kind_of(node.tensor(0)), kind_of(node.tensor(1))
    if x is not None and weight is None:
        raise Unsupported(f"{node.tensor(0).element_type} times {node.tensor(1).element_type}")
    return x is None and weight is not None


def _image(
    node: TfliteNode, x: Expr, filters: int, is_grouped: bool, build: Build
) -> tuple[Expr, Sequence[Expr]]:
    """Images as they are multiplied; of a hybrid product as bytes, with what the sums are then
    multiplied with, one after the other.

    Source: tensorflow/lite/kernels/conv.cc and depthwise_conv.cc: with groups, or where the scales
    of filters are not all the same, the bytes have zero points.
    """
    if not _is_hybrid(node):
        return x, ()
    found = scales_of_bytes(node.tensor(1))
    if not is_grouped and np.all(found == found[0]):
        stored, scale = rows_as_bytes(x, build)
        return stored, [scale * float(found[0])]
    if len(found) != filters:
        raise Unsupported("a hybrid convolution in groups with one scale for all its filters")
    stored, scale = rows_from_zero(x, build)
    factors = build.weight(found.reshape(-1, 1, 1))
    if node.file.kind == "DEPTHWISE_CONV_2D":
        return stored, [scale * factors]
    return stored, [factors, scale]


def _rows(node: TfliteNode, x: Expr, build: Build) -> tuple[Expr, Sequence[Expr]]:
    """Rows of a matrix as they are multiplied, and scales as `_image` has them.

    Source: tensorflow/lite/kernels/fully_connected.cc, `EvalHybrid`.
    """
    if not _is_hybrid(node):
        return x, ()
    found = scales_of_bytes(node.tensor(1))
    factors = build.weight(found if len(found) > 1 else found.reshape(()))
    has_zeros = bool(node.integer("asymmetric_quantize_inputs"))
    stored, scale = (rows_from_zero if has_zeros else rows_as_bytes)(x, build)
    return stored, [scale * factors]


def _bias(node: TfliteNode, build: Build) -> Expr | None:
    """The third operand; in 32 bits where sums are (`is_wide` says whether it fits)."""
    if not node.has(2):
        return None
    if has_wide_bias(node):
        return build.weight(build.known(node.plain(2), "a bias").astype(np.int32))
    return node.plain(2)


def _finished(
    node: TfliteNode, sums: Expr, how: Requantization, scales: Sequence[Expr], build: Build
) -> Expr:
    """Sums as the node's result: with its activation, requantized where they are integers, or with
    their scales and bias where the product is hybrid."""
    kind = node.result_kind
    if scales:
        real = as_stored(sums, build).astype(np.float32)
        for scale in scales:
            real = real * scale
        bias = _bias(node, build)
        if bias is not None:
            along = [1, -1, 1, 1] if real.rank == 4 else [-1]
            real = real + bias.reshape(along)
        return activated(real, node.activation)
    if not node.is_quantized:
        return activated(sums, node.activation)
    if kind is None or not kind.is_per_tensor:
        raise Unsupported(f"sums of quantized numbers as {node.result.element_type}")
    by = RequantizationAttr.get(
        kind, how, limits(kind, node.activation), multiplies_singles(node, 0)
    )
    return build.value(RequantizeOp, [sums], by=by)


CONVERTERS = {
    "CONV_2D": conv_2d,
    "DEPTHWISE_CONV_2D": depthwise_conv_2d,
    "FULLY_CONNECTED": fully_connected,
    "CONV_3D": conv_3d,
    "BATCH_MATMUL": batch_matmul,
}
